"""Postings of words as arrays. `bm25` ranks chunks by them.

A count is weighted: a word in a heading counts 4, in the text 2, among the parts of identifiers 1.
That is twice kb's weights for BM25, so that counts are whole numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import word_pairs
from kb.index.word_pairs import Signatures
from kb.index.word_pruning import PhrasePostings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

Row = tuple[int, str, str, str]  # chunk id, heading, text, parts

HEADING, TEXT, PART = 4, 2, 1  # the weights of a word, doubled
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
    """The smallest unsigned integer type that can hold `most`."""
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
