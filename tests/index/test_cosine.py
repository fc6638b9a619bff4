"""Cosines are the same in every backend."""

from __future__ import annotations

import math
from array import array
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kb.errors import ModelBroken
from kb.index import cosine
from kb.index.rescoring import rescore
from kb.store.sqlite import matrix
from kb.types import Vector

np = pytest.importorskip("numpy")

NUMBERS = st.floats(-1e6, 1e6, width=32)


def units(dimension: int) -> Any:
    def unit(values: list[float]) -> Vector[float]:
        assume(any(abs(value) > 1e-30 for value in values))
        return cosine.unit_vector(values, dimension)

    return st.lists(NUMBERS, min_size=dimension, max_size=dimension).map(unit)


@given(units(7), units(7))
def test_a_cosine_is_right(one: Vector[float], other: Vector[float]) -> None:
    exact = sum(Fraction(x) * Fraction(y) for x, y in zip(one, other, strict=True))
    assert (
        abs(cosine.fixed_point(one, cosine.scale_query(other)) / cosine.ONE - exact) <= 8 * 2**-52
    )


@given(units(9), units(9), st.permutations(range(9)))
def test_the_order_of_terms_does_not_matter(
    one: Vector[float], other: Vector[float], order: list[int]
) -> None:
    turned = [array("f", [vector[place] for place in order]) for vector in (one, other)]
    same = cosine.fixed_point(turned[0], cosine.scale_query(turned[1]))
    assert cosine.fixed_point(one, cosine.scale_query(other)) == same


@given(st.lists(units(5), min_size=1, max_size=20), units(5), st.integers(1, 25))
def test_arrays_score_alike(vectors: list[Vector[float]], query: Vector[float], limit: int) -> None:
    """Each vector occurs twice, so that there are ties."""
    numbered = dict(enumerate(vectors + vectors, start=1))
    ids = np.array(list(numbered)[::-1], np.int64)
    rows = matrix.stack(list(numbered.values())[::-1], 5)
    by_numpy = rescore(ids, rows, np.frombuffer(query, np.float32), limit)
    by_python = cosine.rescore(numbered, query, limit)
    assert by_numpy == by_python
    keys = [(-one.score, one.chunk_id) for one in by_python]
    assert keys == sorted(keys)
    assert [one.rank for one in by_python] == list(range(1, len(keys) + 1))


@given(units(6))
def test_bytes_come_back(vector: Vector[float]) -> None:
    data = cosine.to_bytes(vector)
    assert cosine.from_bytes(data) == vector
    assert cosine.is_unit(data, 6)
    assert not cosine.is_unit(data[:-4], 6)
    assert math.isclose(sum(value * value for value in vector), 1.0, abs_tol=1e-5)


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        ([0.0, 0.0], "is zero"),
        ([math.nan, 1.0], "not finite"),
        ([math.inf, 1.0], "not finite"),
        ([1.0], "1 numbers instead of 2"),
        ([1.0, 2.0, 3.0], "3 numbers instead of 2"),
    ],
)
def test_a_vector_without_direction_is_refused(vector: list[float], why: str) -> None:
    with pytest.raises(ModelBroken, match=why):
        cosine.unit_vector(vector, 2)
