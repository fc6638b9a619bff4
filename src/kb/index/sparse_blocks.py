"""Postings of sparse vectors as bytes: a block for each term of a segment, and dot products over
them.

A block has n float32 weights, then the positions of n chunks in 16 bits, little-endian.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import cosine, sparse_weights
from kb.index.sparse_weights import Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Block(NamedTuple):
    """The postings of a term in a segment: weights, as stored, and positions of chunks."""

    weights: bytearray
    places: array[int]

    def packed(self) -> bytes:
        return bytes(self.weights) + sparse_weights.pack(self.places)


class Row(NamedTuple):
    """The postings of a term in a segment, as stored, with the term's weight and the first position
    of the segment."""

    data: bytes
    weight: float
    start: int


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
