"""Candidates by codes include all of the nearest rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.index import int8_codes
from kb.index.int8_codes import Candidates, candidates, encode


def rows_of(seed: int, count: int, dimension: int, kind: str) -> Any:
    random = np.random.default_rng(seed)
    rows = random.standard_normal((count, dimension))
    if kind == "clusters":
        rows = rows * 0.1 + random.standard_normal((8, dimension))[random.integers(0, 8, count)]
    elif kind == "far from the origin":
        rows = rows * 0.05 + 3.0
    elif kind == "equal":
        rows = np.repeat(rows[:1], count, axis=0)
    elif kind == "one large number":
        rows *= 0.01
        rows[:, 0] += 5.0
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    st.integers(1, 700),
    st.integers(2, 48),
    st.integers(1, 40),
    st.sampled_from(["random", "clusters", "far from the origin", "equal", "one large number"]),
    st.floats(0.0, 1.0),
)
def test_no_near_row_is_missed(
    seed: int, count: int, dimension: int, limit: int, kind: str, share: float
) -> None:
    rows = rows_of(seed, count, dimension, kind)
    query = rows_of(seed + 1, 1, dimension, "random")[0]
    excluded = np.random.default_rng(seed).random(count) < share
    found = candidates(
        encode(rows),
        query,
        limit,
        excluded if excluded.any() else None,
        lambda some: Candidates(some, rows[some]),
    ).places
    cosines = rows.astype(np.float64) @ query.astype(np.float64)
    cosines[excluded] = -np.inf
    order = np.lexsort((np.arange(count), -cosines))[:limit]
    nearest = {int(row) for row in order if not excluded[row]}
    assert nearest <= set(found.tolist())
    assert not excluded[found].any()


def test_most_rows_are_not_candidates() -> None:
    rows = rows_of(1, 50_000, 64, "random")
    read: list[int] = []

    def floats(some: Any) -> Candidates:
        read.extend(some.tolist())
        return Candidates(some, rows[some])

    found = candidates(encode(rows), rows[7], 10, None, floats)
    assert sorted(found.places.tolist()) == sorted(read)  # no row is read twice
    assert 10 <= len(read) < 60


@settings(max_examples=60)
@given(st.integers(0, 1000), st.integers(1, 700), st.integers(1, 40), st.floats(0.0, 1.0))
def test_only_some_rows_are_compared(seed: int, count: int, limit: int, share: float) -> None:
    """The places of allowed rows, instead of a mask of the others."""
    rows = rows_of(seed, count, 24, "clusters")
    query = rows_of(seed + 1, 1, 24, "random")[0]
    among = np.flatnonzero(np.random.default_rng(seed).random(count) <= share)
    if not len(among):
        return
    found = candidates(
        encode(rows), query, limit, None, lambda some: Candidates(some, rows[some]), among=among
    )
    cosines = rows[among].astype(np.float64) @ query.astype(np.float64)
    nearest = {int(among[at]) for at in np.lexsort((among, -cosines))[:limit]}
    assert nearest <= set(found.places.tolist()) <= set(among.tolist())


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert int8_codes.is_available()
    monkeypatch.setitem(__import__("sys").modules, "simsimd", None)
    assert not int8_codes.is_available()
