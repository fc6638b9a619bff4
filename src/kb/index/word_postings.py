"""Postings of words as arrays, and BM25 over them.

The scores are those of FTS5's `bm25()` with kb's column weights, to the last bit: the same tokens,
the same formula, and sums in the order of the query. So a search may use either.

A count is weighted: a word in a heading counts 4, in the text 2, among the parts of identifiers 1.
That is twice kb's weights for BM25, so that counts are whole numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import islice
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kb.index import word_pairs, word_pruning
from kb.index.word_pairs import Signatures
from kb.index.word_pruning import Best, Contribution, PhrasePostings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

Row = tuple[int, str, str, str]  # chunk id, heading, text, parts
Phrase = tuple[str, ...]  # the terms of adjacent words; one for a single word
CountPhrase = Callable[[Phrase, list[int]], dict[int, int]]  # weighted counts in these chunks

HEADING, TEXT, PART = 4, 2, 1  # the weights of a word, doubled
MAX_CANDIDATES = 200  # chunks to read for a phrase; FTS5 is faster for more
_SKIPPED = 8  # a word with this many times more postings is not looked up to find a phrase
_LEAST_IDF = 1e-6
_FEW_ALLOWED = 8  # if at most one chunk in this many is allowed, only those are scored
_BATCH = 8192  # chunks sorted at a time, or fewer if their texts are long: see `_BATCH_CHARS`
_BATCH_CHARS = 2 << 20  # a text of one-letter words takes 60 times its size while it is sorted
_MAX_WORDS = 200_000  # words whose stem is cached
_MAX_KNOWN = 10_000  # terms whose postings are cached
_MAX_TERM_BYTES = 32_768  # FTS5 indexes only this much of a word


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The chunks of each term. Term `t` has the postings from `starts[t]` to `starts[t + 1]`:
    positions of chunks in `ids`, ascending, and weighted counts. Immutable."""

    ids: NDArray[np.int64]  # ascending
    lengths: NDArray[np.uint32]  # words of each chunk
    term_bytes: NDArray[np.uint8]  # all terms in order, in UTF-8
    term_ends: NDArray[np.int64]  # where each term ends in `term_bytes`
    starts: NDArray[np.int64]
    places: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[np.unsignedinteger[Any]]
    pair_bits: NDArray[np.uint8]  # the signatures of each chunk's adjacent words
    pair_ends: NDArray[np.int64]  # where each signature ends
    _known: dict[str, slice] = field(default_factory=dict, init=False)  # cached results of `find`

    @property
    def signatures(self) -> Signatures:
        """The signatures of each chunk's adjacent words."""
        return Signatures(self.pair_bits, self.pair_ends)

    def of(self, term: str) -> PhrasePostings:
        """The postings of a term."""
        where = self.find(term)
        return PhrasePostings(self.places[where], self.counts[where])

    def terms(self) -> Iterator[str]:
        """Every term, in order."""
        names, first = self.term_bytes.tobytes(), 0
        for last in self.term_ends.tolist():
            yield names[first:last].decode()
            first = last

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, from which the postings can be rebuilt."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name[0] != "_"}

    def find(self, term: str) -> slice:
        """The postings of a term; empty if no chunk has it."""
        if (known := self._known.get(term)) is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[term] = self._look_up(term)
        return known

    def _look_up(self, term: str) -> slice:
        wanted, ends, data = term.encode(), self.term_ends.data, self.term_bytes.data
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            if data[ends[middle - 1] if middle else 0 : ends[middle]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(ends) or data[ends[low - 1] if low else 0 : ends[low]] != wanted:
            return slice(0, 0)
        return slice(int(self.starts[low]), int(self.starts[low + 1]))


# --- building -------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    """The postings of some chunks: the terms, how many postings each has, and the postings."""

    terms: NDArray[np.int64]
    sizes: NDArray[np.int64]
    places: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    signatures: Signatures


class _Vocabulary(dict[str, int]):
    """Maps each word to the number of its term, and numbers to terms."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem = stem
        self.terms: dict[str, int] = {}
        self._hashes: NDArray[np.uint64] | None = None

    def __missing__(self, word: str) -> int:
        term = self._stem(word)
        if len(term) > _MAX_TERM_BYTES // 4:
            term = term.encode()[:_MAX_TERM_BYTES].decode(errors="ignore")
        number = self.terms.setdefault(term, len(self.terms))
        if len(self) >= _MAX_WORDS:
            self.clear()
        self[word] = number
        return number

    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of the terms, by number."""
        import numpy as np

        known = np.empty(0, np.uint64) if self._hashes is None else self._hashes
        new = word_pairs.hash_terms(islice(self.terms, len(known), None))
        self._hashes = np.concatenate([known, new])
        return self._hashes


def build(
    rows: Iterable[Row], *, split: Callable[[str], list[str]], stem: Callable[[str], str]
) -> Postings:
    """The postings of chunks, which are in the order of their ids. `split` returns the words of a
    text, and `stem` the term of a word."""
    import numpy as np

    vocabulary = _Vocabulary(stem)
    ids, lengths = array("q"), array("I")
    batches = [_invert(batch, split, vocabulary, ids, lengths) for batch in _batches(rows)]
    terms = sorted(vocabulary.terms, key=str.encode)
    encoded = [term.encode() for term in terms]
    order = np.empty(len(terms), np.int64)  # the place of each number among the sorted terms
    order[[vocabulary.terms[term] for term in terms]] = np.arange(len(terms))
    starts, places, counts = _merge(batches, order, len(ids))
    signatures = word_pairs.join([batch.signatures for batch in batches])
    return Postings(
        ids=np.array(ids, np.int64),
        lengths=np.array(lengths, np.uint32),
        term_bytes=np.frombuffer(b"".join(encoded), np.uint8),
        term_ends=np.cumsum([len(each) for each in encoded], dtype=np.int64),
        starts=starts,
        places=places,
        counts=counts,
        pair_bits=signatures.data,
        pair_ends=signatures.ends,
    )


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    chars = 0
    for row in rows:
        batch.append(row)
        chars += len(row[1]) + len(row[2]) + len(row[3])
        if len(batch) == _BATCH or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _invert(
    batch: Sequence[Row],
    split: Callable[[str], list[str]],
    vocabulary: _Vocabulary,
    ids: array[int],
    lengths: array[int],
) -> _Batch:
    """The postings of a batch, whose chunks are appended to `ids` and `lengths`. Each word becomes
    a number that sorts by term, chunk and column."""
    import numpy as np

    first, number_of = len(ids), vocabulary.__getitem__
    keys, columns = [], []
    totals = np.zeros(len(batch), np.int64)
    for column, texts in enumerate(zip(*(row[1:] for row in batch), strict=True), start=1):
        numbers: list[int] = []  # in half of the time that an array or a comprehension takes
        sizes = array("q")
        for words in map(split, texts):
            numbers.extend(map(number_of, words))
            sizes.append(len(words))
        places, terms = np.repeat(np.arange(len(batch)), sizes), np.array(array("q", numbers))
        keys.append(terms << 34 | (first + places) << 2 | column)
        columns.append((vocabulary.hashes()[terms], places))
        totals += np.array(sizes, np.int64)
    ids.extend(row[0] for row in batch)
    lengths.extend(totals.tolist())
    sorted_keys = np.sort(np.concatenate(keys))
    weights = np.array((0, HEADING, TEXT, PART), np.uint32)[sorted_keys & 3]
    pairs = sorted_keys >> 2
    begins = np.flatnonzero(np.diff(pairs, prepend=-1))
    counts = np.add.reduceat(weights, begins) if len(begins) else weights
    pairs = pairs[begins]
    numbers_of_terms, sizes_of_terms = np.unique(pairs >> 32, return_counts=True)
    return _Batch(
        numbers_of_terms,
        sizes_of_terms,
        (pairs & 0xFFFFFFFF).astype(np.uint32),
        counts,
        word_pairs.sign(columns, len(batch)),
    )


def _merge(
    batches: Sequence[_Batch], order: NDArray[np.int64], chunks: int
) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]], NDArray[np.unsignedinteger[Any]]]:
    """The postings of all batches, by term."""
    import numpy as np

    sizes = np.zeros(len(order), np.int64)
    for batch in batches:
        sizes[order[batch.terms]] += batch.sizes
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    most = max((int(batch.counts.max(initial=0)) for batch in batches), default=0)
    places = np.empty(int(starts[-1]), _smallest(chunks - 1))
    counts = np.empty(int(starts[-1]), _smallest(most))
    free = starts[:-1].copy()
    for batch in batches:
        terms = order[batch.terms]
        before = np.cumsum(batch.sizes) - batch.sizes
        to = np.repeat(free[terms] - before, batch.sizes) + np.arange(len(batch.places))
        places[to], counts[to] = batch.places, batch.counts
        free[terms] += batch.sizes
    return starts, places, counts


def _smallest(most: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest type of unsigned integers up to `most`."""
    import numpy as np

    kinds = (np.uint8, np.uint16) if most < 1 << 16 else (np.uint32,)
    return np.dtype(next(kind for kind in kinds if most <= np.iinfo(kind).max))


def without(postings: Postings, gone: NDArray[np.bool_]) -> Postings:
    """The postings without those of deleted chunks, and without terms that are left with none."""
    import numpy as np

    kept = ~gone
    places, counts = postings.places, postings.counts
    live = kept[places]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(live)])
    starts = before[postings.starts]
    has = np.diff(starts) > 0
    term_sizes = np.diff(postings.term_ends, prepend=0)
    pairs = word_pairs.select(postings.signatures, kept)
    most = int(counts[live].max(initial=0))
    return Postings(
        ids=postings.ids[kept],
        lengths=postings.lengths[kept],
        term_bytes=postings.term_bytes[np.repeat(has, term_sizes)],
        term_ends=np.cumsum(term_sizes[has]),
        starts=np.append(starts[:-1][has], starts[-1:]),
        places=(np.cumsum(kept) - 1)[places[live]].astype(_smallest(int(kept.sum()) - 1)),
        counts=counts[live].astype(_smallest(most)),
        pair_bits=pairs.data,
        pair_ends=pairs.ends,
    )


# --- ranking --------------------------------------------------------------------------------------


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
        """The same ranking, which looks terms up in `postings`, one for each part."""
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
    """The chunks that are in one of the postings of every group. The smallest group is first."""
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
