"""Boosts: factors of a score."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.boosts import TYPE_WEIGHTS, access_boost, boosted, day_of, decay, type_weight
from kb.types import Scored

TODAY = date(2026, 5, 28)


def daily(age_days: int) -> str:
    return f"lib/daily/{TODAY - timedelta(days=age_days)}.md"


@pytest.mark.parametrize(("age_days", "factor"), [(0, 1.0), (30, 0.5), (60, 0.25), (90, 0.125)])
def test_a_half_life_of_thirty_days(age_days: int, factor: float) -> None:
    assert decay(daily(age_days), TODAY) == pytest.approx(factor)


def test_another_half_life() -> None:
    assert decay(daily(7), TODAY, 7) == pytest.approx(0.5)
    assert decay(daily(7), TODAY, 0) == 1.0


@pytest.mark.parametrize(
    "path",
    [
        "MEMORY.md",
        "lib/notes.md",
        "lib/2026-05-28.txt",
        "lib/2026-05-28-standup.md",
        "lib/x2026-05-01.md",
        "lib/2026-02-31.md",
        "lib/0000-01-01.md",
        "lib/２０２６-05-01.md",
        "lib/2026-05-29.md",
        "lib/9999-12-31.md",
        "2026-05-01.md/readme.md",
        "note:7",
        "",
    ],
)
def test_no_date_a_future_one_or_an_impossible_one(path: str) -> None:
    assert decay(path, TODAY) == 1.0


def test_the_day_of_a_path() -> None:
    assert day_of("2026-05-01.md") == date(2026, 5, 1)
    assert day_of("a/b/2026-05-01.md") == date(2026, 5, 1)


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_older_never_counts_more(one: int, other: int) -> None:
    old, new = max(one, other), min(one, other)
    assert 0 <= decay(daily(old), TODAY) <= decay(daily(new), TODAY) <= 1


def test_type_weights() -> None:
    assert dict(TYPE_WEIGHTS) == {"decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3}
    assert [type_weight(kind) for kind in ("decision", "summary", "temp_note", None)] == [
        2.0, 0.5, 0.3, 1.0,
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 9, 1000])
def test_access_boost(count: int) -> None:
    assert access_boost(count) == pytest.approx(1 + math.log(1 + count))
    assert access_boost(-1) == 1.0


def test_scores_are_multiplied_and_equals_keep_their_order() -> None:
    ranked = [Scored(1, 0.4, 1), Scored(2, 0.3, 2), Scored(3, 0.2, 3), Scored(4, 0.1, 4)]
    found = boosted(ranked, {2: {"type": 2.0}, 3: {"type": 2.0}, 4: {"type": 2.0, "access": 2.0}})
    assert [one.chunk_id for one in found] == [2, 1, 3, 4]
    assert [one.score for one in found] == pytest.approx([0.6, 0.4, 0.4, 0.4])
    assert [one.rank for one in found] == [1, 2, 3, 4]
