"""Inverted lists over vectors: every row is in one list, and few of the nearest are missed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kb.index import int8_codes, vector_lists

Rows = NDArray[np.float32]


def clustered(count: int, seed: int, clusters: int = 60, dimension: int = 32) -> Rows:
    centers = np.random.default_rng(1).standard_normal((clusters, dimension))
    chance = np.random.default_rng(seed)
    rows = centers[chance.integers(0, clusters, count)]
    rows = rows + 0.8 * chance.standard_normal((count, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


ROWS = clustered(6_000, 2)
QUERIES = clustered(40, 3)


def floats(some: NDArray[np.int64]) -> int8_codes.Candidates:
    return int8_codes.Candidates(some, ROWS[some])


def nearest(codes: int8_codes.Codes, query: Rows, limit: int = 10, *, exact: bool) -> set[int]:
    found = int8_codes.candidates(codes, query, limit, None, floats, exact=exact).places
    order = np.argsort(-(ROWS[found] @ query), kind="stable")[:limit]
    return {*found[order].tolist()}


def test_every_row_is_in_one_list() -> None:
    lists = vector_lists.build(ROWS)
    assert sorted(lists.order.tolist()) == list(range(len(ROWS)))
    assert lists.ends[-1] == len(ROWS)
    assert len(lists.ends) == len(lists.centroids) == 154
    similar = [
        float((ROWS[lists.order[part]] @ lists.centroids[number]).mean())
        for number, part in enumerate(vector_lists.probe(lists, QUERIES[0], share=1.0))
    ]
    assert np.mean(similar) > 0.6


def test_the_same_rows_make_the_same_lists() -> None:
    one, other = vector_lists.build(ROWS), vector_lists.build(ROWS)
    assert np.array_equal(one.order, other.order)


def test_few_of_the_nearest_are_missed() -> None:
    codes = int8_codes.encode(ROWS, vector_lists.build(ROWS))
    same = 0
    for query in QUERIES:
        brute = {*np.argsort(-(ROWS @ query), kind="stable")[:10].tolist()}
        assert nearest(codes, query, exact=True) == brute
        same += len(brute & nearest(codes, query, exact=False))
    assert same >= 0.97 * 10 * len(QUERIES)


def test_codes_in_the_order_of_lists_have_bounds() -> None:
    codes = int8_codes.encode(ROWS, vector_lists.build(ROWS))
    assert codes.lists is not None
    places = vector_lists.places(codes.lists)
    assert int8_codes.has_bounds(codes, ROWS, places)
    assert int8_codes.has_bounds(codes, ROWS[::2], places[::2])
    assert not int8_codes.has_bounds(codes, ROWS)


def test_lists_with_too_few_rows_are_not_enough() -> None:
    codes = int8_codes.encode(ROWS, vector_lists.build(ROWS))
    excluded = np.ones(len(ROWS), np.bool_)
    excluded[::500] = False
    query = QUERIES[0]
    found = int8_codes.candidates(codes, query, 12, excluded, floats, exact=False)
    assert {*found.places.tolist()} == {*range(0, 6000, 500)}


def test_identical_rows() -> None:
    rows = np.tile(ROWS[:1], (50, 1))
    lists = vector_lists.build(rows)
    assert sorted(lists.order.tolist()) == list(range(50))
    assert sum(part.stop - part.start for part in vector_lists.probe(lists, rows[0])) == 50
