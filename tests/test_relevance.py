"""How relevance is displayed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.relevance import WEAK, bar, divider, has_relevant, is_weak, weak_from
from kb.types import Hit
from tests.cli.test_hit_view import HIT


def hits(*values: float | None) -> list[Hit]:
    return [replace(HIT, relevance=value) for value in values]


@pytest.mark.parametrize(
    ("values", "index", "relevant"),
    [
        ((0.9, 0.5, 0.49, 0.1), 2, True),
        ((0.9, 0.1, 0.8), 3, True),
        ((0.2, 0.1), 0, False),
        ((None, None), 2, None),
        ((0.1, None), 2, None),
        ((), 0, False),
    ],
)
def test_weak_matches(values: tuple[float | None, ...], index: int, relevant: bool | None) -> None:
    assert weak_from(hits(*values)) == index
    assert has_relevant(hits(*values)) is relevant


def test_the_divider_says_if_nothing_is_relevant() -> None:
    assert divider(hits(0.9, 0.1)) == "weak matches"
    assert divider(hits(0.2, 0.1)) == "nothing relevant found; weak matches"


@given(st.lists(st.none() | st.floats(0, 1)))
def test_all_hits_from_the_divider_on_are_weak(values: list[float | None]) -> None:
    every = hits(*values)
    index = weak_from(every)
    assert all(map(is_weak, every[index:]))
    assert not index or not is_weak(every[index - 1])


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_bar_grows_with_relevance(first: float, second: float) -> None:
    low, high = sorted((first, second))
    assert len(bar(low)) == 5
    assert bar(low).count("▰") <= bar(high).count("▰")
    assert (bar(0.0), bar(WEAK), bar(1.0)) == ("▱▱▱▱▱", "▰▰▱▱▱", "▰▰▰▰▰")
