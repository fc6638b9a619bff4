"""Cosines that come out the same on every machine and in every backend. Pure, without numpy.

A sum of floats depends on the order of its terms, which each backend has its own of; then equal
passages change places. So backends only select candidates, by whatever arithmetic is fast, and
take everybody who comes within `slack` of the last place. Those are scored here: a product of two
float32 is exact in float64, it is cut to a whole multiple of 2^-52, and whole numbers sum up the
same in any order. `kb.store.sqlite.matrix` has the same arithmetic for arrays.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING

from kb.errors import ModelBroken
from kb.types import ScoredChunk

if TYPE_CHECKING:
    from kb.types import Vector

ONE = float(1 << 52)


def slack(dimension: int) -> float:
    """How far two cosines computed in float32 may at most be apart from their true order."""
    return 4 * (dimension + 1) * 2.0**-24


def normalised(vector: Sequence[float], dimension: int) -> Vector[float]:
    """The vector at length 1, which is what is stored and compared."""
    if len(vector) != dimension:
        raise ModelBroken(
            f"a vector has {len(vector)} numbers instead of {dimension}", "check the model's files"
        )
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not 0 < length < math.inf:  # a NaN is neither
        what = "is zero" if length == 0 else "has numbers that are not finite"
        raise ModelBroken(f"a vector {what}", "check the model's files")
    return array("f", [value / length for value in vector])


def to_bytes(vector: Vector[float]) -> bytes:
    """As stored: float32, little-endian."""
    if sys.byteorder == "little":
        return vector.tobytes()
    swapped = array("f", vector)
    swapped.byteswap()
    return swapped.tobytes()


def from_bytes(data: bytes) -> Vector[float]:
    vector = array("f")
    vector.frombytes(data)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector


def is_unit(data: bytes, dimension: int) -> bool:
    """Whether these are the bytes of a vector as it is stored."""
    if len(data) != 4 * dimension:
        return False
    vector = from_bytes(data)
    return bool(abs(sum(map(mul, vector, vector)) - 1.0) < 1e-4)  # a NaN is not


def scaled(query: Vector[float]) -> list[float]:
    """The query as `whole` wants it; a power of two changes no digit."""
    return [value * ONE for value in query]


def whole(vector: Vector[float], query: Sequence[float]) -> int:
    """The cosine in multiples of 2^-52."""
    return sum(map(int, map(mul, vector, query)))


def score(cosine: int) -> float:
    """Rounding to float32 leaves lengths a little off 1."""
    return max(-1.0, min(1.0, cosine / ONE))


def ranked(cosines: Iterable[tuple[int, int]], limit: int) -> list[ScoredChunk]:
    """The best of (chunk id, cosine), ties by id."""
    scores = sorted((-score(cosine), chunk_id) for chunk_id, cosine in cosines)
    return [
        ScoredChunk(chunk_id, 0.0 - negative, rank)
        for rank, (negative, chunk_id) in enumerate(scores[:limit], start=1)
    ]


def rescored(
    vectors: Mapping[int, Vector[float]], query: Vector[float], limit: int
) -> list[ScoredChunk]:
    """The best of these candidates."""
    asked = scaled(query)
    return ranked(((chunk_id, whole(vector, asked)) for chunk_id, vector in vectors.items()), limit)
