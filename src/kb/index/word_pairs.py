"""Signatures of adjacent words: which chunks may contain a phrase.

The postings of a word have no positions. So every chunk has a signature, a Bloom filter of its
pairs of adjacent words: three bits are set for each pair, and the filter has 8 to 16 bits per pair,
or fewer in chunks of more than 2,000 words. A chunk that lacks one of the bits of a phrase does not
contain the phrase; the others have to be read. For a phrase of three words, one chunk in several
thousand is a false positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # The hashes of a column's words, in order, and the positions of their chunks.
    Column = tuple[NDArray[np.uint64], NDArray[np.int64]]

_LEAST_BITS, _MOST_BITS, _BITS_A_PAIR = 1 << 6, 1 << 14, 8
_FACTOR = 0x9E3779B97F4A7C15  # odd, of 64 bits
_64_BITS, _NUMBER = (1 << 64) - 1, (1 << 28) - 1
_FEW = 256  # with more chunks, those without the first bits are excluded first
_SHIFTS = (4, 20, 36)  # of a pair's hash: three almost independent numbers


class Signatures(NamedTuple):
    """The signatures of chunks, one after another, and the end of each."""

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]


def hash_terms(terms: Iterable[str]) -> NDArray[np.uint64]:
    """A hash of each term, as input for `sign`."""
    import numpy as np

    return np.array([crc32(term.encode()) for term in terms], np.uint64)


def sign(columns: Sequence[Column], chunks: int) -> Signatures:
    """The signatures of chunks. Pairs do not cross columns, since a phrase must occur in one
    column."""
    import numpy as np

    pairs, places = [], []
    for hashes, where in columns:
        inside = where[:-1] == where[1:]
        pairs.append(_hash_pairs(hashes[:-1][inside], hashes[1:][inside]))
        places.append(where[:-1][inside])
    all_places = np.concatenate(places)
    counts = np.bincount(all_places, minlength=chunks)
    least = np.clip(counts * _BITS_A_PAIR, _LEAST_BITS, _MOST_BITS)
    sizes = 1 << np.ceil(np.log2(least)).astype(np.int64)
    ends = np.cumsum(sizes)
    bits = np.zeros(int(ends[-1]) if chunks else 0, np.bool_)
    starts, masks = (ends - sizes)[all_places], (sizes - 1)[all_places]
    for numbers in _numbers_of(np.concatenate(pairs)):
        bits[starts + (numbers & masks)] = True
    return Signatures(np.packbits(bits, bitorder="little"), ends // 8)


def join(parts: Sequence[Signatures]) -> Signatures:
    """The signatures of all parts, one after another."""
    import numpy as np

    before = np.cumsum([0, *(len(part.data) for part in parts)])
    return Signatures(
        np.concatenate([np.empty(0, np.uint8), *(part.data for part in parts)]),
        np.concatenate(
            [
                np.empty(0, np.int64),
                *(part.ends + first for part, first in zip(parts, before.tolist(), strict=False)),
            ]
        ),
    )


def may_contain(
    signatures: Signatures, places: NDArray[np.unsignedinteger[Any]], phrase: Sequence[str]
) -> NDArray[np.unsignedinteger[Any]]:
    """Which of the chunks at `places` may contain the phrase."""
    import numpy as np

    numbers = _phrase_numbers(phrase)
    if not numbers:
        return places
    ends = signatures.ends[places]
    starts = np.where(places > 0, signatures.ends[places.astype(np.int64) - 1], 0)
    masks = 8 * (ends - starts) - 1
    if len(places) <= _FEW:
        bits = masks[:, None] & np.array(numbers, np.int64)
        found = signatures.data[starts[:, None] + (bits >> 3)] >> (bits & 7).astype(np.uint8) & 1
        kept: NDArray[np.bool_] = found.all(axis=1)
        return places[kept]
    for number in numbers:
        bits = masks & number
        kept = (signatures.data[starts + (bits >> 3)] >> (bits & 7).astype(np.uint8) & 1) > 0
        places, starts, masks = places[kept], starts[kept], masks[kept]
        if not len(places):
            break
    return places


def _phrase_numbers(phrase: Sequence[str]) -> list[int]:
    """The numbers that select the bits of a phrase. The same as `_numbers_of` and `_hash_pairs`,
    which are slower for a few words."""
    hashes = [crc32(term.encode()) for term in phrase]
    numbers = []
    for first, second in pairwise(hashes):
        mixed = (first << 32 | second) * _FACTOR & _64_BITS
        mixed = (mixed ^ mixed >> 29) * _FACTOR & _64_BITS
        numbers += [mixed >> shift & _NUMBER for shift in _SHIFTS]
    return list(dict.fromkeys(numbers))


def _hash_pairs(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    import numpy as np

    mixed = (first << np.uint64(32) | second) * np.uint64(_FACTOR)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(_FACTOR)


def _numbers_of(pairs: NDArray[np.uint64]) -> list[NDArray[np.int64]]:
    """Three numbers for each pair, which select its bits."""
    import numpy as np

    return [(pairs >> np.uint64(shift) & np.uint64(_NUMBER)).astype(np.int64) for shift in _SHIFTS]


def select(signatures: Signatures, kept: NDArray[np.bool_]) -> Signatures:
    """The signatures of the chunks that are kept."""
    import numpy as np

    if kept.all():
        return signatures
    sizes = np.diff(signatures.ends, prepend=0)
    return Signatures(signatures.data[np.repeat(kept, sizes)], np.cumsum(sizes[kept]))
