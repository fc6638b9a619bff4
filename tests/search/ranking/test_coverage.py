"""Weights of lists whose vectors are being computed."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.coverage import weigh_by_coverage
from kb.search.ranking.fusion import RankedList, convex_sum
from kb.types import ScoredChunk

BASE = {"lexical": 0.15, "dense": 0.6, "sparse": 0.25}


def ranked(first: int, last: int) -> list[ScoredChunk]:
    numbers = range(first, last)
    return [ScoredChunk(n, 0.9 - 0.005 * rank, rank + 1) for rank, n in enumerate(numbers)]


def lists(unknown: int) -> list[RankedList]:
    """Forty passages by words, the first `unknown` of them without vectors; other passages first
    by meaning."""
    lacking = frozenset(range(unknown))
    return [
        RankedList("lexical", ranked(0, 40), 0.01, absent="zero"),
        RankedList("dense", ranked(100, 140), 0.6, unknown=lacking),
        RankedList("sparse", ranked(100, 140), 0.25, unknown=lacking, absent="zero"),
    ]


@pytest.mark.parametrize(
    ("unknown", "factor"), [(40, 0.0), (28, 0.0), (18, 0.5), (8, 1.0), (1, 1.0), (0, 1.0)]
)
def test_the_share_of_candidates_with_vectors_decides(unknown: int, factor: float) -> None:
    weighed, rules = weigh_by_coverage(lists(unknown), BASE)
    weights = {one.name: one.weight for one in weighed}
    assert weights["dense"] == pytest.approx(0.6 * factor)
    assert weights["sparse"] == pytest.approx(0.25 * factor)
    expected = 0.01 if factor == 1.0 else 0.15 + 0.85 * (1 - factor)
    assert weights["lexical"] == pytest.approx(expected)
    assert len(rules) == (0 if factor == 1.0 else 2)


def test_without_vectors_the_order_is_that_of_words() -> None:
    weighed, _ = weigh_by_coverage(lists(30), BASE)
    assert [one.chunk_id for one in convex_sum(weighed)][:40] == list(range(40))
    assert [one.chunk_id for one in convex_sum(lists(30))][:40] != list(range(40))


def test_nothing_changes_without_words_or_without_gaps() -> None:
    for unchanged in (lists(40)[1:], [RankedList("lexical"), *lists(40)[1:]], lists(0)):
        assert weigh_by_coverage(unchanged, BASE) == (unchanged, ())


@given(st.integers(0, 40))
def test_the_sum_of_weights_stays(unknown: int) -> None:
    full = [one if one.name != "lexical" else RankedList("lexical", one.ranked, 0.15)
            for one in lists(unknown)]  # fmt: skip
    weighed, _ = weigh_by_coverage(full, BASE)
    assert fsum(one.weight for one in weighed) == pytest.approx(1.0)
    assert all(one.weight >= 0.0 for one in weighed)
