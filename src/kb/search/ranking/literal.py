"""Literal matches: passages that contain the words of the query as the user typed them. Pure.

    verbatim   the whole query, with its punctuation: `git push --force`, `database is locked`
    words      the same words side by side: `Database (is locked)`
    rare       for one or two rare words: all of them, in any inflection
    run        a part of the query of at least four adjacent words; one may be lost or changed
    every      every word of a longer query in any place, and three of its words side by side

Passages of the first three kinds come first, in this order: a user who types the text of a passage,
or a word that few passages have, wants those. A run multiplies the odds of a score by at most `e ^
RUN_WEIGHT`: a long question often shares four words with a passage that does not answer it. A
passage with every word counts as one with a run of weight `EVERY_WORD`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile
from math import exp, fsum

from kb.text.normalize import STOP_WORDS, unspaced_runs
from kb.text.tokenize import fold, tokenize
from kb.types import ScoredChunk, rank_chunks
from kb.values import NamedTuple

VERBATIM, WORDS, RARE, NONE = 3, 2, 1, 0
NAMES = {VERBATIM: "verbatim", WORDS: "words", RARE: "rare words", NONE: "run"}
LOOKUPS = 8  # phrases of a long query to look up
MAX_WORDS = 64  # a longer query is a text, and nobody expects to find it as a whole
WINDOW, LEAST_RUN, LONG_RUN = 3, 4, 6  # words
RUN_WEIGHT = 10.0
EVERY_WORD = 0.15
_MANY_WORDS = 4  # a passage may contain fewer by chance; function words are not counted
RARE_IDF = 3.9  # a word in at most 2 % of the passages
_WINDOW_IDF = 2.3  # a word in at most 10 %: phrases of frequent words are slow to look up
_SMALL_STORE = 1_000  # passages; here every phrase is quick to look up
_FEW_WORDS = 2
_AROUND = ".,;:!?…\"'“”‘’«»()[] "
_FUNCTION_WORD = 0.5  # the weight of a word whose frequency was not counted


class Evidence(NamedTuple):
    """How literally a passage contains the query: its kind, and the weight of its longest run."""

    level: int
    run: float = 0.0


class LiteralQuery(NamedTuple):
    """The words of a query in order, with their weights, and the query in lower case."""

    surface: str
    words: tuple[str, ...]
    weights: tuple[float, ...]
    rare: frozenset[str] = frozenset()  # stems
    unspaced: bool = False
    beginnings: tuple[str, ...] = ()  # of many words: what all inflections of each have in common
    window_idf: float = _WINDOW_IDF  # of the rarest word in a phrase to look up

    def phrases(self) -> list[str]:
        """The phrases to look up in the index: every passage with evidence contains one."""
        if self.unspaced:
            return [self.surface]
        if not 0 < len(self.words) <= MAX_WORDS:
            return []
        return list(dict.fromkeys([" ".join(self.words), *self._rare_words(), *self._windows()]))

    def _rare_words(self) -> list[str]:
        return [word for word in self.words if self.rare & {stem for *_, stem in tokenize(word)}]

    def _windows(self) -> list[str]:
        """The rarest groups of three adjacent words, if the query is long enough to have runs. At
        least two of the words carry meaning: `one of the` is in many passages, and slow to look
        up."""
        if len(self.words) <= LEAST_RUN:
            return []
        windows = []
        for start in range(len(self.words) - WINDOW + 1):
            words = self.words[start : start + WINDOW]
            weights = self.weights[start : start + WINDOW]
            if (
                max(weights) >= self.window_idf
                and sum(word not in STOP_WORDS for word in words) > 1
            ):
                windows.append((-fsum(weights), start, " ".join(words)))
        return [window for *_, window in sorted(windows)[:LOOKUPS]]


def literal_query(text: str, idf: Mapping[str, float], passages: int = 0) -> LiteralQuery:
    """Prepare a query. `idf` holds the inverse document frequencies of its words; function words
    may be missing. `passages` is the size of the store, 0 if it is unknown."""
    surface = " ".join(text.lower().split())
    folded = fold(text)
    words = tuple(folded.split())
    known = {fold(word).strip(): value for word, value in idf.items()}
    weights = tuple(known.get(word, _FUNCTION_WORD) for word in words)
    content = [word for word in dict.fromkeys(words) if word not in STOP_WORDS]
    rare: frozenset[str] = frozenset()
    if len(content) <= _FEW_WORDS and all(known.get(word, 0.0) >= RARE_IDF for word in content):
        rare = frozenset(stem for *_, stem in tokenize(" ".join(content)))
    beginnings = tuple(map(_beginning, content)) if len(content) >= _MANY_WORDS else ()
    window_idf = 0.0 if 0 < passages <= _SMALL_STORE else _WINDOW_IDF
    unspaced = bool(unspaced_runs(text))
    return LiteralQuery(surface, words, weights, rare, unspaced, beginnings, window_idf)


def _beginning(word: str) -> str:
    """The part that a word shares with its stem: `happ` for happy, whose stem is `happi`."""
    stem = "".join(stem for *_, stem in tokenize(word))
    return "".join(
        letter
        for letter, _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem, strict=False))
    )


def evidence(query: LiteralQuery, text: str) -> Evidence:
    """How literally a passage contains the query."""
    if query.unspaced:
        return Evidence(VERBATIM if query.surface in " ".join(text.lower().split()) else NONE)
    spaced = f" {' '.join(fold(text).split())} "
    if f" {' '.join(query.words)} " in spaced:
        return Evidence(VERBATIM if holds_verbatim(query.surface, text) else WORDS, 1.0)
    if query.rare and query.rare <= {stem for *_, stem in tokenize(text, query.rare)}:
        return Evidence(RARE)
    run = run_weight(query, spaced)
    if query.beginnings and all(f" {beginning}" in spaced for beginning in query.beginnings):
        run = max(run, EVERY_WORD)
    return Evidence(NONE, run)


def holds_verbatim(surface: str, text: str) -> bool:
    """Whether the text contains the query as it is, apart from case, white space and the marks
    around a sentence. It must not begin or end inside a word."""
    inside = " ".join(text.lower().split())
    core = surface.strip(_AROUND)
    return any(_contains_whole(form, inside) for form in dict.fromkeys((surface, core)) if form)


def _contains_whole(part: str, text: str) -> bool:
    before = r"(?<!\w)" if re.match(r"\w", part) else ""
    after = r"(?!\w)" if re.search(r"\w$", part) else ""
    return part in text and re.search(before + re.escape(part) + after, text) is not None


# --- runs -----------------------------------------------------------------------------------------


def run_weight(query: LiteralQuery, spaced: str) -> float:
    """The weight of the longest run in the text, from 0 to 1: the square of its share of the
    query's weight, because a small part of a long question is weak evidence. Runs of four and five
    words have only a part of their share, shorter ones nothing. `spaced` has a space before and
    after every word."""
    if len(query.words) <= LEAST_RUN:
        return 0.0
    runs = _runs(query.words, spaced)
    best = max((_weight(query, [one]) for one in runs), default=0.0)
    for first, second in pairwise(runs):
        if _has_interrupted_run(query.words, first, second, spaced):
            best = max(best, _weight(query, [first, second]))
    return best**2


def _runs(words: Sequence[str], spaced: str) -> list[tuple[int, int]]:
    """The longest runs of words in the text, as start and end; none is inside another."""
    # Most passages have few pairs of the query's words, and a run is made of such pairs.
    pairs = [f" {first} {second} " in spaced for first, second in pairwise(words)]
    if True not in pairs:
        return []
    runs: list[tuple[int, int]] = []
    end = 0
    for start in range(len(words)):
        end = max(end, start)
        before = end
        if end == start and not (start < len(pairs) and pairs[start]):
            continue  # no run starts here
        while (
            end < len(words)
            and (end == start or pairs[end - 1])
            and f" {' '.join(words[start : end + 1])} " in spaced
        ):
            end += 1
        if end - start > 1 and (end > before or not runs):
            runs.append((start, end))
    return runs


def _has_interrupted_run(
    words: Sequence[str], first: tuple[int, int], second: tuple[int, int], spaced: str
) -> bool:
    """Whether the text contains both runs one after the other, with at most one word missing, added
    or changed between them."""
    start, end = max(second[0], first[1]), second[1]
    if start - first[1] > 1 or end - start < 1:
        return False
    before, after = f" {' '.join(words[slice(*first)])} ", f"{' '.join(words[start:end])} "
    at = spaced.find(before)
    while at >= 0:
        following = at + len(before)
        second_word = spaced.find(" ", following) + 1
        if spaced.startswith(after, following) or spaced.startswith(after, second_word):
            return True
        at = spaced.find(before, at + 1)
    return False


def _weight(query: LiteralQuery, runs: Iterable[tuple[int, int]]) -> float:
    places = {place for start, end in runs for place in range(start, end)}
    length = len(places)
    if length < LEAST_RUN:
        return 0.0
    long = min(1.0, (length - LEAST_RUN + 1) / (LONG_RUN - LEAST_RUN + 1))
    total = fsum(query.weights)  # 0 if every passage of a tiny store has every word
    return long * fsum(query.weights[place] for place in places) / total if total else 0.0


# --- ranking --------------------------------------------------------------------------------------


def add_runs(ranked: Sequence[ScoredChunk], found: Mapping[int, Evidence]) -> list[ScoredChunk]:
    """Raise the scores of passages with a run, and add passages with evidence that no retriever
    returned, with the lowest score. Ties keep their order."""
    if not found:
        return list(ranked)
    least = min((one.score for one in ranked), default=0.0)
    scores = {one.chunk_id: one.score for one in ranked}
    scores |= dict.fromkeys(sorted(found.keys() - scores.keys()), least)
    scores |= {chunk: _raise(scores[chunk], each.run) for chunk, each in found.items()}
    order = sorted(scores, key=scores.__getitem__, reverse=True)
    return rank_chunks(order, map(scores.__getitem__, order))


def _raise(score: float, run: float) -> float:
    """Multiply the odds of a score between 0 and 1; other scores have no odds and are unchanged."""
    if not 0.0 < score < 1.0:
        return score
    odds = score / (1.0 - score) * exp(RUN_WEIGHT * run)
    return odds / (1.0 + odds)


def put_first(ranked: Sequence[ScoredChunk], found: Mapping[int, Evidence]) -> list[ScoredChunk]:
    """Put literal matches first, by their kind. A raised passage gets at least the best score of
    those that it passes, so that scores do not rise down the list."""
    level = {chunk: each.level for chunk, each in found.items() if each.level > NONE}
    if not level:
        return list(ranked)
    first = [one for one in ranked if one.chunk_id in level]
    first.sort(key=lambda one: -level[one.chunk_id])
    order = first + [one for one in ranked if one.chunk_id not in level]
    ceilings = list(accumulate((one.score for one in reversed(order)), max))
    return rank_chunks([one.chunk_id for one in order], reversed(ceilings))
