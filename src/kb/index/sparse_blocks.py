"""Postings of sparse vectors as bytes: a block for each term of a segment, and dot products over
them.

A block has n float32 weights, then the positions of n chunks in 16 bits, little-endian. `compress`
writes the weights in 16 bits too, as `sparse_weights` does, and appends a byte: `expand` recognizes
a compressed block by its odd length.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import cosine, pruning, sparse_weights
from kb.index.sparse_weights import Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Block(NamedTuple):
    """The postings of a term in a segment: weights, as stored, and positions of chunks."""

    weights: bytearray
    places: array[int]

    def to_bytes(self) -> bytes:
        return bytes(self.weights) + sparse_weights.pack(self.places)


class Row(NamedTuple):
    """The postings of a term in a segment, as stored, with the term's weight and the first position
    of the segment."""

    data: bytes
    weight: float
    start: int


class TermPostings(NamedTuple):
    """The postings of a term in all segments: positions, ascending, and weights."""

    places: NDArray[np.uint32]
    weights: NDArray[np.float32]


def invert(vectors: Iterable[Weights]) -> dict[str, Block]:
    """The postings of each term. The position of a chunk is that of its vector."""
    made: dict[str, Block] = {}
    for place, weights in enumerate(vectors):
        data = cosine.to_bytes(array("f", weights.values()))
        for at, term in enumerate(weights):
            if (block := made.get(term)) is None:
                block = made[term] = Block(bytearray(), array("H"))
            block.weights.extend(data[4 * at : 4 * at + 4])
            block.places.append(place)
    return made


def compress(block: bytes) -> bytes:
    """A block in two thirds of its space, with the same weights; the block itself if a weight has
    more than three digits."""
    count = len(block) // 6
    codes = [sparse_weights.code_of(weight) for weight in cosine.from_bytes(block[: 4 * count])]
    if None in codes:
        return block
    numbers = array("H", [code for code in codes if code is not None])
    return sparse_weights.pack(numbers) + block[4 * count :] + b"\0"


def expand(stored: bytes) -> bytes:
    """The block that was compressed. Other blocks are returned as they are."""
    if len(stored) % 2 == 0:
        return stored
    half = len(stored) // 4 * 2
    codes = sparse_weights.unpack("H", stored[:half])
    return cosine.to_bytes(sparse_weights.weights_of(codes)) + stored[half:-1]


def add(block: Block, data: bytes, moved: Sequence[int]) -> None:
    """Append stored postings with new positions; -1 leaves a chunk out."""
    count = len(data) // 6
    weights = data[: 4 * count]
    places = array("i", map(moved.__getitem__, sparse_weights.unpack("H", data[4 * count :])))
    if -1 in places:
        left = [at for at, place in enumerate(places) if place >= 0]
        weights = b"".join([weights[4 * at : 4 * at + 4] for at in left])
        places = array("i", [places[at] for at in left])
    block.weights.extend(weights)
    block.places.extend(iter(places))


def sums(rows: Sequence[Row], chunks: int) -> NDArray[np.float64]:
    """The score of every position. `bincount` adds in the order of the rows, in float64."""
    import numpy as np

    counts = [len(row.data) // 6 for row in rows]
    pairs = list(zip(rows, counts, strict=True))
    weights = np.frombuffer(b"".join([row.data[: 4 * n] for row, n in pairs]), "<f4")
    places = np.frombuffer(b"".join([row.data[4 * n :] for row, n in pairs]), "<u2")
    at = np.repeat(np.array([row.start for row in rows], np.int64), counts)
    at += places
    products = np.repeat(np.array([row.weight for row in rows], np.float64), counts)
    products *= weights
    scores: NDArray[Any] = np.bincount(at, products, chunks)
    return scores


def join(blocks: Sequence[tuple[bytes, int]]) -> TermPostings:
    """The postings of a term, from its blocks and the first positions of their segments."""
    import numpy as np

    places, weights = [np.empty(0, np.uint32)], [np.empty(0, np.float32)]
    for data, start in blocks:
        count = len(data) // 6
        weights.append(np.frombuffer(data, "<f4", count))
        places.append(np.frombuffer(data, "<u2", offset=4 * count) + np.uint32(start))
    joined = TermPostings(np.concatenate(places), np.concatenate(weights))
    if bool((joined.places[1:] > joined.places[:-1]).all()):
        return joined
    order = np.argsort(joined.places, kind="stable")  # a merged block has one segment after another
    return TermPostings(joined.places[order], joined.weights[order])


def chain(one: TermPostings, other: TermPostings) -> TermPostings:
    """The postings of a term in two parts of an index, one after the other."""
    import numpy as np

    return TermPostings(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


def scores(terms: Sequence[tuple[TermPostings, float]], chunks: int) -> NDArray[np.float64]:
    """The score of every position: that of `sums`. Each term has a weight in the query."""
    import numpy as np

    places = np.concatenate([np.empty(0, np.uint32), *(each.places for each, _ in terms)])
    products = np.empty(len(places))
    at = 0
    for postings, weight in terms:
        end = at + len(postings.places)
        np.multiply(postings.weights, weight, out=products[at:end], dtype=np.float64)
        at = end
    every: NDArray[Any] = np.bincount(places, products, chunks)
    return every


def scores_of(
    terms: Sequence[tuple[TermPostings, float]], wanted: NDArray[np.int64], chunks: int
) -> NDArray[np.float64]:
    """The scores of a few positions, which ascend."""
    import numpy as np

    total = np.zeros(len(wanted))
    for postings, weight in terms:
        found = pruning.look_up(*postings, wanted, chunks).astype(np.float64)
        found *= weight
        total += found
    return total
