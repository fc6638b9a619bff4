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

from kb.index import word_pairs
from kb.index.selection import best_chunks
from kb.index.word_pairs import Signatures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = tuple[int, str, str, str]  # chunk id, heading, text, parts
Phrase = tuple[str, ...]  # the terms of adjacent words; one for a single word
CountPhrase = Callable[[Phrase, list[int]], dict[int, int]]  # weighted counts in these chunks

HEADING, TEXT, PART = 4, 2, 1  # the weights of a word, doubled
MAX_CANDIDATES = 200  # chunks to read for a phrase; FTS5 is faster for more
_SKIPPED = 8  # a word with so many times more postings is not looked up to find a phrase
_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
_BATCH = 8192  # chunks sorted at a time
_MAX_WORDS = 200_000  # words whose stem is cached
_MAX_KNOWN = 10_000  # terms whose postings are remembered
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
    places: NDArray[np.uint32]
    counts: NDArray[np.unsignedinteger[Any]]
    pair_bits: NDArray[np.uint8]  # the signatures of each chunk's adjacent words
    pair_ends: NDArray[np.int64]  # where each signature ends
    _known: dict[str, slice] = field(default_factory=dict, init=False)  # what was found before

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
        """The arrays by name, from which the postings can be made again."""
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
    starts, places, counts = _merge(batches, order)
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
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH)):
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

    first = len(ids)
    keys, columns = [], []
    totals = np.zeros(len(batch), np.int64)
    for column, texts in enumerate(zip(*(row[1:] for row in batch), strict=True), start=1):
        numbers, sizes = array("q"), array("q")
        for words in map(split, texts):
            numbers.extend([vocabulary[word] for word in words])
            sizes.append(len(words))
        places, terms = np.repeat(np.arange(len(batch)), sizes), np.array(numbers, np.int64)
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
    batches: Sequence[_Batch], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.unsignedinteger[Any]]]:
    """The postings of all batches, by term."""
    import numpy as np

    sizes = np.zeros(len(order), np.int64)
    for batch in batches:
        sizes[order[batch.terms]] += batch.sizes
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    most = max((int(batch.counts.max(initial=0)) for batch in batches), default=0)
    places = np.empty(int(starts[-1]), np.uint32)
    kind = np.dtype(np.uint16 if most < 1 << 16 else np.uint32)
    counts: NDArray[np.unsignedinteger[Any]] = np.empty(int(starts[-1]), kind)
    free = starts[:-1].copy()
    for batch in batches:
        terms = order[batch.terms]
        before = np.cumsum(batch.sizes) - batch.sizes
        to = np.repeat(free[terms] - before, batch.sizes) + np.arange(len(batch.places))
        places[to], counts[to] = batch.places, batch.counts
        free[terms] += batch.sizes
    return starts, places, counts


# --- ranking --------------------------------------------------------------------------------------


class PhrasePostings(NamedTuple):
    """The postings of a phrase in a part: positions of chunks, and weighted counts."""

    places: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[np.unsignedinteger[Any]]


class TermPostings(Protocol):
    """What a ranking reads: `Postings`, or the blocks of a segment that are fetched on demand."""

    @property
    def ids(self) -> NDArray[np.int64]: ...

    @property
    def lengths(self) -> NDArray[np.uint32]: ...

    @property
    def signatures(self) -> Signatures: ...

    def of(self, term: str) -> PhrasePostings: ...


class Part(NamedTuple):
    """Postings, and which of their chunks are gone; None if all exist."""

    postings: TermPostings
    gone: NDArray[np.bool_] | None = None


class WordRanking:
    """Ranks chunks by BM25 over all parts of one state of a store. `chunks` is the number of chunks
    of the store, if some of them have no words and are in no part."""

    def __init__(self, parts: Sequence[Part], chunks: int | None = None) -> None:
        import numpy as np

        self.parts = parts
        self._ids = np.concatenate([np.empty(0, np.int64), *(part.postings.ids for part in parts)])
        live = [
            part.postings.lengths if part.gone is None else part.postings.lengths[~part.gone]
            for part in parts
        ]
        self.chunks = sum(map(len, live)) if chunks is None else chunks
        words = sum(int(each.sum(dtype=np.int64)) for each in live)
        self.average = words / self.chunks if words else 1.0
        self._norms = [_K1 * (1 - _B + _B * part.postings.lengths / self.average) for part in parts]

    @property
    def ids(self) -> NDArray[np.int64]:
        """The chunk of each score, in the order of the parts."""
        return self._ids

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
        """The best chunks with any phrase or, with `every`, with a phrase of each group; and their
        BM25, where higher is better. None if a phrase of several words has more than
        `max_candidates`, which `count_phrase` would have to read."""
        import numpy as np

        scores = self.scores(
            groups, every=every, count_phrase=count_phrase, max_candidates=max_candidates
        )
        if scores is None:
            return None
        return best_chunks(
            np.concatenate([np.empty(0), *scores]),
            self._ids,
            allowed=allowed,
            hidden=hidden,
            limit=limit,
        )

    def scores(
        self,
        groups: Sequence[Sequence[Phrase]],
        *,
        every: bool,
        count_phrase: CountPhrase,
        max_candidates: int,
    ) -> list[NDArray[np.float64]] | None:
        """The score of every chunk, in the order of the parts; see `rank`."""
        phrases = [phrase for group in groups for phrase in group]
        found: dict[Phrase, list[PhrasePostings]] = {}
        for phrase in dict.fromkeys(phrases):
            postings = self._find(phrase, count_phrase, max_candidates)
            if postings is None:
                return None
            found[phrase] = postings
        idf = {phrase: self._idf(self._count(parts)) for phrase, parts in found.items()}
        scores = []
        for number, part in enumerate(self.parts):
            where = {phrase: parts[number] for phrase, parts in found.items()}
            each = self._scores(number, [(where[phrase], idf[phrase]) for phrase in phrases])
            if every:
                each[~_in_every([[where[one] for one in group] for group in groups], len(each))] = 0
            if part.gone is not None:
                each[part.gone] = 0
            scores.append(each)
        return scores

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
        for part, (places, _) in zip(self.parts, where, strict=True):
            count += len(places) - (0 if part.gone is None else int(part.gone[places].sum()))
        return count

    def _idf(self, count: int) -> float:
        value = log((self.chunks - count + 0.5) / (count + 0.5))
        return value if value > 0.0 else _LEAST_IDF

    def _scores(
        self, number: int, found: Sequence[tuple[PhrasePostings, float]]
    ) -> NDArray[np.float64]:
        """The score of every chunk of a part, for the postings and the IDF of each phrase.
        `bincount` adds in the order of the phrases."""
        import numpy as np

        places = np.concatenate([where.places for where, _ in found])
        counts = np.concatenate([where.counts for where, _ in found]) * 0.5
        weights = np.repeat([idf for _, idf in found], [len(where.places) for where, _ in found])
        weights *= counts * (_K1 + 1.0) / (counts + self._norms[number][places])
        scores: NDArray[Any] = np.bincount(places, weights, len(self._norms[number]))
        return scores


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


def _in_every(groups: Sequence[Sequence[PhrasePostings]], chunks: int) -> NDArray[np.bool_]:
    """Whether each chunk is in one of the postings of every group."""
    import numpy as np

    in_every = np.ones(chunks, np.bool_)
    for group in groups:
        in_group = np.zeros(chunks, np.bool_)
        for found in group:
            in_group[found.places] = True
        in_every &= in_group
    return in_every
