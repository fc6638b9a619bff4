"""BM25 over postings of words.

The scores are those of FTS5's `bm25()` with kb's column weights, to the last bit: the same tokens,
the same formula, and sums in the order of the query. So a search may use either. Most passages are
left out early (see `word_pruning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kb.index import word_pairs, word_pruning
from kb.index.word_pairs import Signatures
from kb.index.word_pruning import Best, Contribution, PhrasePostings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

Phrase = tuple[str, ...]  # the terms of adjacent words; one for a single word
CountPhrase = Callable[[Phrase, list[int]], dict[int, int]]  # weighted counts in these chunks

MAX_CANDIDATES = 200  # chunks to read for a phrase; FTS5 is faster for more
_SKIPPED = 8  # a word with this many times more postings is not looked up to find a phrase
_LEAST_IDF = 1e-6
_FEW_ALLOWED = 8  # if at most one chunk in this many is allowed, only those are scored


class TermPostings(Protocol):
    """What a ranking reads: `Postings`, or the blocks of a segment that are fetched on demand."""

    @property
    def ids(self) -> NDArray[np.int64]: ...

    @property
    def lengths(self) -> NDArray[np.uint32]: ...

    @property
    def signatures(self) -> Signatures: ...

    def of(self, term: str) -> PhrasePostings: ...


class WeightedPhrase(NamedTuple):
    """The postings of a phrase in each part, and its IDF."""

    postings: list[PhrasePostings]
    idf: float


class Part(NamedTuple):
    """Postings, and which of their chunks are deleted; None if all exist."""

    postings: TermPostings
    gone: NDArray[np.bool_] | None = None


class WordRanking:
    """Ranks chunks by BM25 over all parts of one state of a store. `chunks` is the number of chunks
    of the store, if some of them have no words and are in no part."""

    def __init__(self, parts: Sequence[Part], chunks: int | None = None) -> None:
        import numpy as np

        self.parts = parts
        self._gone = [None if one.gone is None else np.flatnonzero(one.gone) for one in parts]
        live = words = 0
        for part, gone in zip(parts, self._gone, strict=True):
            own = part.postings.lengths
            live += len(own) - (0 if gone is None else len(gone))
            words += int(own.sum(dtype=np.int64))
            words -= 0 if gone is None else int(own[gone].sum(dtype=np.int64))
        self.chunks = live if chunks is None else chunks
        self.average = words / self.chunks if words else 1.0
        self._lengths = [word_pruning.lengths(one.postings.lengths, self.average) for one in parts]
        self._sorted: dict[int, tuple[Ids, Ids] | None] = {}  # the chunks of parts in any order

    @property
    def ids(self) -> Ids:
        """The chunk of each score of `scores`, in the order of the parts."""
        import numpy as np

        return np.concatenate([np.empty(0, np.int64), *(part.postings.ids for part in self.parts)])

    def over(self, postings: Sequence[TermPostings]) -> WordRanking:
        """A copy of this ranking that looks terms up in `postings`, which has an element for each
        part."""
        pairs = zip(postings, self.parts, strict=True)
        other = copy(self)
        other.parts = [Part(each, part.gone) for each, part in pairs]
        return other

    def chunk_counts(self, terms: Iterable[str]) -> dict[str, int]:
        """How many chunks contain each term."""
        return {term: self._count(self._word(term)) for term in terms}

    def _word(self, term: str) -> list[PhrasePostings]:
        return [part.postings.of(term) for part in self.parts]

    def may_contain(self, phrase: Phrase) -> list[int]:
        """The ids of the chunks that may contain a phrase. For a single word, all of them do."""
        return [
            chunk_id
            for part in self.parts
            for chunk_id in part.postings.ids[_may_contain(part, phrase)].tolist()
        ]

    def rank(
        self,
        groups: Sequence[Sequence[Phrase]],
        *,
        every: bool,
        allowed: NDArray[np.int64] | None,
        hidden: Sequence[int],
        limit: int,
        count_phrase: CountPhrase,
        max_candidates: int = MAX_CANDIDATES,
    ) -> list[tuple[int, float]] | None:
        """The best chunks with any phrase or, with `every`, with a phrase of each group, ties by
        id; and their BM25, where higher is better. None if a phrase of several words has more than
        `max_candidates`, which `count_phrase` would have to read."""
        import numpy as np

        phrases = list(dict.fromkeys(phrase for group in groups for phrase in group))
        found = self._find_all(phrases, count_phrase, max_candidates)
        if found is None:
            return None
        if limit < 1:
            return []
        numbers = {phrase: number for number, phrase in enumerate(phrases)}
        query = [[numbers[phrase] for phrase in group] for group in groups]
        out = np.array(hidden, np.int64)
        ids, scores = np.empty(0, np.int64), np.empty(0)
        largest = sorted(
            range(len(self.parts)), key=lambda number: -len(self.parts[number].postings.ids)
        )
        for number in largest:
            least = float(scores[limit - 1]) if len(scores) >= limit else 0.0
            best = self._best(number, found, query, every, allowed, limit + len(out), least)
            own, kept = self.parts[number].postings.ids[best.places], best.scores > 0.0
            if len(out):
                kept &= np.isin(own, out, invert=True)
            ids, scores = np.append(ids, own[kept]), np.append(scores, best.scores[kept])
            order = np.lexsort((ids, -scores))[:limit]
            ids, scores = ids[order], scores[order]
        return list(zip(ids.tolist(), scores.tolist(), strict=True))

    def _best(
        self,
        number: int,
        found: Sequence[WeightedPhrase],
        query: Sequence[Sequence[int]],
        every: bool,
        allowed: Ids | None,
        limit: int,
        least: float,
    ) -> Best:
        """The best chunks of a part."""
        import numpy as np

        order = [one for group in query for one in group]
        terms = [
            Contribution(each.postings[number], each.idf, order.count(one))
            for one, each in enumerate(found)
        ]
        chunks, gone = len(self._lengths[number].words), self._gone[number]
        only = None
        if every:
            only = _in_every([[terms[one].postings for one in group] for group in query], chunks)
        if allowed is not None:
            places = self._places(number, allowed)
            if only is not None or len(places) * _FEW_ALLOWED <= chunks:
                only = places if only is None else np.intersect1d(only, places, assume_unique=True)
            else:
                out = np.ones(chunks, np.bool_)
                out[places] = False
                if gone is not None:
                    out[gone] = True
                gone = np.flatnonzero(out)
        if only is not None and gone is not None:
            only = np.setdiff1d(only, gone, assume_unique=True)
        return word_pruning.best_of(
            terms,
            order,
            self._lengths[number],
            only=only,
            excluded=gone,
            limit=limit,
            least=least,
        )

    def _places(self, number: int, wanted: Ids) -> Ids:
        """The positions of the wanted chunks that are in a part, ascending."""
        import numpy as np

        ids = self.parts[number].postings.ids
        if number not in self._sorted:
            order = None if bool((ids[1:] > ids[:-1]).all()) else np.argsort(ids)
            self._sorted[number] = None if order is None else (ids[order], order)
        in_order = self._sorted[number]
        if in_order is None:
            return _positions(ids, wanted)
        return np.sort(in_order[1][_positions(in_order[0], wanted)])

    def scores(
        self, groups: Sequence[Sequence[Phrase]], *, count_phrase: CountPhrase, max_candidates: int
    ) -> list[NDArray[np.float64]] | None:
        """The score of every chunk, in the order of the parts; see `rank`."""
        import numpy as np

        phrases = [phrase for group in groups for phrase in group]
        found = self._find_all(phrases, count_phrase, max_candidates)
        if found is None:
            return None
        scores = []
        for number, gone in enumerate(self._gone):
            terms = [Contribution(each.postings[number], each.idf, 1) for each in found]
            each = np.zeros(len(self._lengths[number].words))
            has = np.zeros(len(each), np.bool_)
            for term in terms:
                has[term.postings.places] = True
            if gone is not None:
                has[gone] = False
            best = word_pruning.best_of(
                terms,
                range(len(terms)),
                self._lengths[number],
                only=np.flatnonzero(has),
                excluded=None,
                limit=len(each),
                least=0.0,
            )
            each[best.places] = best.scores
            scores.append(each)
        return scores

    def _find_all(
        self, phrases: Sequence[Phrase], count_phrase: CountPhrase, max_candidates: int
    ) -> list[WeightedPhrase] | None:
        """The postings and the IDF of each phrase; None if one has too many candidates."""
        found = []
        for phrase in phrases:
            postings = self._find(phrase, count_phrase, max_candidates)
            if postings is None:
                return None
            found.append(WeightedPhrase(postings, self._idf(self._count(postings))))
        return found

    def _find(
        self, phrase: Phrase, count_phrase: CountPhrase, max_candidates: int
    ) -> list[PhrasePostings] | None:
        """The postings of a phrase in each part; None if it has too many candidates."""
        if len(phrase) == 1:
            return self._word(phrase[0])
        candidates = [_may_contain(part, phrase) for part in self.parts]
        if sum(map(len, candidates)) > max_candidates:
            return None
        found = []
        for part, places in zip(self.parts, candidates, strict=True):
            ids: list[int] = part.postings.ids[places].tolist()
            counts = count_phrase(phrase, ids) if ids else {}
            kept = [place for place, one in zip(places.tolist(), ids, strict=True) if counts[one]]
            found.append(_phrase_postings(kept, [counts[one] for one in ids if counts[one]]))
        return found

    def _count(self, where: Sequence[PhrasePostings]) -> int:
        """How many chunks of all parts have these postings."""
        count = 0
        for gone, (places, _) in zip(self._gone, where, strict=True):
            count += len(places) - (0 if gone is None else len(_positions(places, gone)))
        return count

    def _idf(self, count: int) -> float:
        value = log((self.chunks - count + 0.5) / (count + 0.5))
        return value if value > 0.0 else _LEAST_IDF


def count_phrase(phrase: Phrase, columns: Iterable[tuple[int, Sequence[str]]]) -> int:
    """The weighted count of a phrase in a chunk. Each of `columns` has a weight and its terms."""
    return sum(
        weight * _occurrences(phrase, terms) for weight, terms in columns if phrase[0] in terms
    )


def _occurrences(phrase: Phrase, terms: Sequence[str]) -> int:
    length, first = len(phrase), phrase[0]
    return sum(
        tuple(terms[at : at + length]) == phrase for at, term in enumerate(terms) if term == first
    )


def _phrase_postings(places: Sequence[int], counts: Sequence[int]) -> PhrasePostings:
    import numpy as np

    return PhrasePostings(np.array(places, np.uint32), np.array(counts, np.uint32))


def _may_contain(part: Part, phrase: Phrase) -> NDArray[np.unsignedinteger[Any]]:
    """The chunks of a part that may contain a phrase: those with its rarest words and its pairs of
    adjacent words. For a single word, all of them contain it."""
    import numpy as np

    postings = part.postings
    found = sorted((postings.of(term).places for term in {*phrase}), key=len)
    common = found[0] if found else np.empty(0, np.uint32)
    for others in found[1:]:
        if len(others) > _SKIPPED * len(common):
            break
        at = np.searchsorted(others, common)
        common, at = common[at < len(others)], at[at < len(others)]
        common = common[others[at] == common]
    if not len(common):
        return common
    if part.gone is not None:
        common = common[~part.gone[common]]
    if len(phrase) < 2 or not len(common):
        return common
    return word_pairs.may_contain(postings.signatures, common, phrase)


def _in_every(groups: Sequence[Sequence[PhrasePostings]], chunks: int) -> Ids:
    """The chunks that occur in every group, in at least one of its postings. Starts with the
    smallest group."""
    import numpy as np

    ordered = sorted(groups, key=lambda group: sum(len(one.places) for one in group))
    found: Ids | None = None
    for group in ordered:
        if found is None:
            found = np.unique(np.concatenate([one.places for one in group])).astype(np.int64)
        else:
            kept = np.zeros(len(found), np.bool_)
            for one in group:
                kept |= word_pruning.look_up(one, found, chunks) > 0
            found = found[kept]
    return np.empty(0, np.int64) if found is None else found


def _positions(numbers: NDArray[Any], wanted: NDArray[Any]) -> Ids:
    """The positions of the wanted numbers in an ascending array, for those that occur."""
    import numpy as np

    if not len(numbers):
        return np.empty(0, np.int64)
    at = np.searchsorted(numbers, wanted.astype(numbers.dtype))
    at[at == len(numbers)] = 0
    there: Ids = at[numbers[at] == wanted]
    return there
