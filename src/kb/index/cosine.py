"""Cosine similarities that are identical on every machine and in every backend, without numpy.

The sum of floats depends on the order of its terms, and each backend has its own order. So backends
only select candidates, with any fast arithmetic, and include every chunk within `slack` of the
lowest score in the result. This module scores the candidates: the product of two float32 numbers is
exact in float64, is truncated to a multiple of 2^-52, and integers have the same sum in any order.
`kb.index.rescoring` has the same arithmetic for arrays.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING

from kb.errors import ModelBroken
from kb.index.normalize import normalize
from kb.types import ScoredChunk

if TYPE_CHECKING:
    from kb.types import Vector

ONE = float(1 << 52)


def slack(dimension: int) -> float:
    """The largest difference at which two float32 cosines may be in the wrong order."""
    return 4 * (dimension + 1) * 2.0**-24


def unit_vector(vector: Sequence[float], dimension: int) -> Vector[float]:
    """Normalize a model's vector. Raises `ModelBroken` if it is zero, not finite, or of another
    dimension."""
    if len(vector) != dimension:
        raise ModelBroken(
            f"a vector has {len(vector)} numbers instead of {dimension}", "check the model's files"
        )
    try:
        return normalize(vector)
    except ValueError as error:
        raise ModelBroken(f"a vector {error}", "check the model's files") from None


def to_bytes(vector: Vector[float]) -> bytes:
    """Serialize a vector: float32, little-endian."""
    if sys.byteorder == "little":
        return vector.tobytes()
    swapped = array("f", vector)
    swapped.byteswap()
    return swapped.tobytes()


def from_bytes(data: bytes) -> Vector[float]:
    """Read a vector that `to_bytes` wrote."""
    vector = array("f")
    vector.frombytes(data)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector


def is_unit(data: bytes, dimension: int) -> bool:
    """Whether the bytes hold a normalized vector of this dimension."""
    if len(data) != 4 * dimension:
        return False
    vector = from_bytes(data)
    return bool(abs(sum(map(mul, vector, vector)) - 1.0) < 1e-4)  # false for a NaN


def scale_query(query: Vector[float]) -> list[float]:
    """Scale a query for `fixed_point`. Multiplying by a power of two is exact."""
    return [value * ONE for value in query]


def fixed_point(vector: Vector[float], scaled_query: Sequence[float]) -> int:
    """The cosine in multiples of 2^-52."""
    return sum(map(int, map(mul, vector, scaled_query)))


def score(cosine: int) -> float:
    """Convert a fixed-point cosine to a float, limited to -1 and 1: float32 vectors are not exactly
    of length 1."""
    return max(-1.0, min(1.0, cosine / ONE))


def rank(cosines: Iterable[tuple[int, int]], limit: int) -> list[ScoredChunk]:
    """The best of these pairs of chunk id and fixed-point cosine, ties by id."""
    scores = sorted((-score(cosine), chunk_id) for chunk_id, cosine in cosines)
    return [
        ScoredChunk(chunk_id, 0.0 - negative, rank)
        for rank, (negative, chunk_id) in enumerate(scores[:limit], start=1)
    ]


def rescore(
    vectors: Mapping[int, Vector[float]], query: Vector[float], limit: int
) -> list[ScoredChunk]:
    """Score candidates exactly, and return the best."""
    scaled = scale_query(query)
    return rank(
        ((chunk_id, fixed_point(vector, scaled)) for chunk_id, vector in vectors.items()), limit
    )
