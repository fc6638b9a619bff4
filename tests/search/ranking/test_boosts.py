"""Boosts: factors of a score."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.search.ranking.boosts import (
    BOOSTS,
    TYPE_WEIGHTS,
    Boosts,
    access_boost,
    apply_boosts,
    day_of,
    decay,
    type_weight,
)  # fmt: skip
from kb.types import ScoredChunk

TODAY = date(2026, 5, 28)


def daily(age_days: int) -> str:
    return f"lib/daily/{TODAY - timedelta(days=age_days)}.md"


@pytest.mark.parametrize(("age_days", "factor"), [(0, 1.0), (30, 0.5), (60, 0.25), (90, 0.125)])
def test_a_half_life_of_thirty_days(age_days: int, factor: float) -> None:
    assert decay(daily(age_days), TODAY) == pytest.approx(factor)


def test_another_half_life() -> None:
    assert decay(daily(7), TODAY, 7) == pytest.approx(0.5)
    assert decay(daily(1), TODAY, 1) == pytest.approx(0.5)
    assert decay(daily(1), TODAY, 0.5) == pytest.approx(0.25)
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


def test_a_kind_without_a_weight_counts_once() -> None:
    assert type_weight("idea") == 1.0
    assert type_weight("lesson", {"decision": 3.0}) == 1.0
    assert type_weight("decision", {"decision": 3.0}) == 3.0


def test_factors_of_a_document(kb: KnowledgeBase) -> None:
    """The factors have names, are in the order of `BOOSTS`, and use the given weights and
    half-life."""
    document = replace(kb.add("note", kind="lesson"), access_count=9, doc_path=f"lib/{daily(14)}")
    plain = Boosts(BOOSTS).factors(document, TODAY)
    assert list(plain) == ["type", "access", "decay"]
    assert plain == pytest.approx(
        {"type": 2.0, "access": 1 + math.log(10), "decay": 0.5 ** (14 / 30)}
    )
    own = Boosts(("type", "decay"), {"lesson": 3.0}, 7.0).factors(document, TODAY)
    assert own == pytest.approx({"type": 3.0, "decay": 0.25})


def test_boosts_say_what_they_are() -> None:
    assert repr(Boosts(("type", "decay"), half_life_days=7)) == "boost(type, decay 7 d)"
    assert not Boosts()
    assert Boosts(("access",))


@pytest.mark.parametrize("count", [0, 1, 9, 1000])
def test_access_boost(count: int) -> None:
    assert access_boost(count) == pytest.approx(1 + math.log(1 + count))
    assert access_boost(-1) == 1.0


def test_scores_are_multiplied_and_equals_keep_their_order() -> None:
    ranked = [
        ScoredChunk(1, 0.4, 1),
        ScoredChunk(2, 0.3, 2),
        ScoredChunk(3, 0.2, 3),
        ScoredChunk(4, 0.1, 4),
    ]
    found = apply_boosts(
        ranked, {2: {"type": 2.0}, 3: {"type": 2.0}, 4: {"type": 2.0, "access": 2.0}}
    )
    assert [one.chunk_id for one in found] == [2, 1, 3, 4]
    assert [one.score for one in found] == pytest.approx([0.6, 0.4, 0.4, 0.4])
    assert [one.rank for one in found] == [1, 2, 3, 4]
