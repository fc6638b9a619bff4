"""Signals: the evidence for the relevance of a hit, as input for `ranking.relevance`.

Signals come from the lists of the retrievers and from texts that are read for the hits anyway, so
that they need no SQL statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log

from kb.search.query.analysis import Analysis
from kb.search.ranking.relevance import Signals, estimate, is_calibrated
from kb.search.ranking.word_match import matched_share
from kb.search.results.hits import CandidateCache, ScoreBreakdown
from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates
from kb.search.retrievers.registry import LEXICAL
from kb.text.english import is_english
from kb.text.normalize import bigrams, find_identifiers
from kb.text.tokenize import stems_in, tokenize
from kb.types import TermFrequencies
from kb.values import NamedTuple, dataclass

_MAX_CHARS = 20_000  # characters of a passage that are read
_ASSUMED_CHUNKS = 1_000
# Characters in a piece of unspaced script, which are about one word. Most passages contain most
# pairs of letters of an alphabet such as the Thai one, whatever they are about.
_PIECE_CHARS, _ALPHABET_PIECE_CHARS = 2, 4
_ALPHABETS_END = "\u1800"  # Thai, Lao, Burmese and Khmer are before, Han, kana and Hangul after


class Term(NamedTuple):
    """A term of the query: a word with the stems of each of its alternatives, or a piece of
    unspaced script. Its weight is its inverse document frequency, from 0 to 1."""

    text: str
    alternatives: tuple[frozenset[str], ...]
    weight: float
    known: bool  # whether some chunk contains it


@dataclass(frozen=True)
class QueryTerms:
    """The content words of a query with their weights. With `inside`, they also match inside longer
    words, as in the last tier of lexical retrieval."""

    terms: tuple[Term, ...]
    inside: bool = False

    @classmethod
    def of(
        cls, analysis: Analysis, frequencies: TermFrequencies, *, inside: bool = False
    ) -> QueryTerms:
        """Weigh the terms of a query. Without frequencies, all weights are 1."""
        terms = []
        for word in analysis.content.words:
            stems = tuple(frozenset(stem for *_, stem in tokenize(text)) for text in word)
            # Identifiers are not looked up.
            count = frequencies.counts.get(next(iter(stems[0]), "")) if len(stems) == 1 else None
            terms.append(Term(word[0].lower(), stems, _weight(count, frequencies), count != 0))
        for piece in dict.fromkeys(p for run in analysis.content.runs for p in _pieces(run)):
            count = _piece_count(piece, frequencies)
            weight = _size(piece) * _weight(count, frequencies)
            terms.append(Term(piece, (), weight, count != 0))
        return cls(tuple(terms), inside)

    @cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return sum(term.weight for term in self.terms)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all words."""
        return frozenset(
            stem for term in self.terms for stems in term.alternatives for stem in stems
        )

    @cached_property
    def pieces(self) -> float:
        """The share of the weights that pieces of unspaced script have."""
        pieces = sum(term.weight for term in self.terms if not term.alternatives)
        return pieces / self.total if self.total else 0.0

    def known(self) -> float:
        """The share of the terms that the store contains."""
        return sum(term.known for term in self.terms) / len(self.terms) if self.terms else 0.0

    def terms_in(self, text: str) -> tuple[Term, ...]:
        """The terms of the query that `text` contains."""
        text = text[:_MAX_CHARS]
        present = _stems(text, self.stems) if self.stems else set()
        lower = text.lower() if self.inside else ""
        matches = []
        for term in self.terms:
            for stems in term.alternatives:
                if stems and stems <= present:
                    matches.append(term)
                    break
            else:
                if term.text in (lower if term.alternatives else text):
                    matches.append(term)
        return tuple(matches)

    def coverage(self, terms: Sequence[Term]) -> float:
        """The share of these terms in the sum of the weights."""
        return sum(term.weight for term in terms) / self.total if self.terms else 0.0


def _pieces(run: str) -> list[str]:
    """The overlapping pieces of a run of unspaced script."""
    size = _ALPHABET_PIECE_CHARS if run < _ALPHABETS_END else _PIECE_CHARS
    return [run[start : start + size] for start in range(len(run) - size + 1)] or [run]


def _piece_count(piece: str, frequencies: TermFrequencies) -> int | None:
    """How many chunks contain a piece, at most: the store counts pairs of characters."""
    counts = [frequencies.counts.get(pair) for pair in bigrams(piece)]
    return min((count for count in counts if count is not None), default=None)


def _size(piece: str) -> float:
    """How much a piece counts, in words: pieces overlap."""
    return 1.0 / max(_PIECE_CHARS, len(piece))


def _weight(count: int | None, frequencies: TermFrequencies) -> float:
    """The inverse document frequency, relative to that of a word that is in no chunk, so that it is
    comparable between stores. A word of unknown frequency counts as if one chunk had it."""
    if not frequencies.chunks:
        return 1.0
    count = min(1 if count is None else count, frequencies.chunks)
    return _idf(count, frequencies.chunks) / _idf(0, frequencies.chunks)


def _idf(count: int, chunks: int) -> float:
    """The inverse document frequency. In a small store, the number of chunks with a word is weak
    evidence of how common the word is, so further chunks without it are assumed."""
    return log(1.0 + (chunks + _ASSUMED_CHUNKS - count + 0.5) / (count + 0.5))


def _stems(text: str, wanted: frozenset[str]) -> set[str]:
    present = stems_in(text, wanted)
    if len(present) < len(wanted) and _may_have_parts(text, wanted - present):
        parts = [part for *_, parts in find_identifiers(text) for part in parts]
        if parts:
            present |= stems_in(" ".join(parts), wanted)
    return present


def match_of(analysis: Analysis, lexical: Candidates, score: float) -> float | None:
    """The share of the highest possible BM25 score that a lexical score stands for. None if that is
    unknown: the passages were not found by BM25, or a word was not counted."""
    content = analysis.content
    if lexical.tiers[:1] not in (("content",), ("any",)) or content.runs:
        return None
    if any(word[0] not in lexical.idf for word in content.words):
        return None
    idf = {word[0]: lexical.idf[word[0]] for word in content.words}
    return matched_share(registry.get(LEXICAL).linear_score(score), idf)


def _may_have_parts(text: str, missing: Iterable[str]) -> bool:
    """Whether identifiers in the text may contain words with these stems. A word begins with its
    stem, except perhaps for the stem's last letter."""
    if not text.isascii():
        return True
    lower = text.lower()
    return any(stem[:-1] in lower for stem in missing)


class SignalSource:
    """The signals of one search. `pending` holds the chunks that have no vector yet. Only the first
    `depth` candidates of a list count: those of the first retrieval, so that estimates do not
    depend on how many hits are requested."""

    def __init__(
        self,
        breakdown: ScoreBreakdown,
        cache: CandidateCache,
        analysis: Analysis,
        depth: int,
        pending: frozenset[int] = frozenset(),
    ) -> None:
        self.breakdown = breakdown
        self._cache = cache
        self._analysis = analysis
        self._pending = pending
        self._depth = depth
        self._signals: dict[int, Signals] = {}
        self._lexical = lexical = breakdown.candidates.get(LEXICAL)
        frequencies = TermFrequencies() if lexical is None else lexical.frequencies
        inside = lexical is not None and "substring" in lexical.tiers
        self._terms = QueryTerms.of(analysis, frequencies, inside=inside)
        self._known = self._terms.known()
        self._english = is_english(analysis.text)
        dense = breakdown.candidates.get("dense")
        self.model = None if dense is None else dense.model
        self._cosines = [] if dense is None else [one.score for one in dense.ranked[:depth]]
        # A list for dense retrieval alone is as long as the list of hits.
        self._typical = None
        if self._cosines and len(breakdown.candidates) > 1:
            self._typical = self._cosines[len(self._cosines) // 2]

    def of(self, chunk_id: int) -> Signals:
        """The signals for a chunk, whose text has been fetched."""
        if chunk_id not in self._signals:
            self._signals[chunk_id] = self._gather(chunk_id)
        return self._signals[chunk_id]

    def relevance(self, chunk_id: int) -> float | None:
        """The relevance of a chunk, whose text has been fetched; None if it cannot be estimated."""
        return estimate(self.of(chunk_id), self.model)

    def _gather(self, chunk_id: int) -> Signals:
        chunk, document = self._cache.chunks[chunk_id], self._cache.document(chunk_id)
        text = "\n".join((document.title, *chunk.heading_path, chunk.text))
        matches = self._terms.terms_in(text)
        return Signals(
            words=self._terms.total,
            known=self._known,
            coverage=self._terms.coverage(matches),
            matched=sum(1.0 if term.alternatives else _size(term.text) for term in matches),
            chars=len(chunk.text),
            cosine=self._cosine(chunk_id),
            typical=self._typical,
            match=self._match(chunk_id),
            pieces=self._terms.pieces,
            english=self._english,
        )

    def _match(self, chunk_id: int) -> float | None:
        """How well the words of a chunk match. If the chunk is not in the lexical list, this is the
        lowest match in the list, an upper bound."""
        lexical = self._lexical
        if lexical is None or not lexical.ranked:
            return None
        one = self.breakdown.ranks.get(LEXICAL, {}).get(chunk_id)
        if one is None or one.rank > self._depth:
            one = lexical.ranked[: self._depth][-1]
        return match_of(self._analysis, lexical, one.score)

    def _cosine(self, chunk_id: int) -> float | None:
        """The cosine of a chunk. If the chunk has a vector but is not in the list, this is the
        lowest cosine in the list, an upper bound."""
        one = self.breakdown.ranks.get("dense", {}).get(chunk_id)
        if one is not None and one.rank <= self._depth:
            return one.score
        return self._cosines[-1] if self._cosines and chunk_id not in self._pending else None


class RelevanceLimits(NamedTuple):
    """The minimum relevance of hits. `half` is the minimum score of a profile [003], which is
    compared with half of the relevance."""

    relevance: float | None = None
    half: float | None = None

    def __bool__(self) -> bool:
        return self != RelevanceLimits()

    def allow(self, source: SignalSource, chunk_id: int) -> bool:
        """Whether a chunk may be a hit. A chunk whose relevance cannot be estimated always may."""
        signals, relevance = source.of(chunk_id), source.relevance(chunk_id)
        if relevance is None:
            return True
        if self.relevance is not None and relevance < self.relevance:
            return False
        return self._is_likely(signals, relevance, source.model)

    def _is_likely(self, signals: Signals, relevance: float, model: str | None) -> bool:
        """Whether half of the relevance is high enough. Passages with every word of the query
        always stay, and so do all passages whose cosine is not calibrated or not known yet: a
        relevance from words alone is too low for common words."""
        if self.half is None or not is_calibrated(model) or signals.cosine is None:
            return True
        return signals.has_every_word() or relevance / 2 >= self.half
