"""Plots: valid markup, and marks at the positions of their values."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.plots import (
    NARROW,
    WIDE,
    Change,
    Estimate,
    Frame,
    Point,
    changes,
    intervals,
    log_ticks,
    reach,
    scatter,
    ticks,
)

frames = st.sampled_from([WIDE, NARROW])
shares = st.floats(0, 1)
names = st.text(max_size=40).filter(str.isprintable)
times = st.floats(0.001, 1e5)
estimates = st.builds(
    lambda name, values, base: Estimate(name, sorted(values)[1], min(values), max(values), base),
    names, st.lists(shares, min_size=3, max_size=3), st.booleans(),
)  # fmt: skip


def drawn(svg: str, frame: Frame = WIDE) -> ElementTree.Element:
    """Parse the plot. Fails if a mark is outside the picture, or a number is not finite."""
    root = ElementTree.fromstring(svg)
    assert not re.search(r'"-?(nan|inf)', svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == frame.width
    for mark in root.iter():
        for key, value in mark.attrib.items():
            if key in ("x", "x1", "x2", "cx"):
                assert -1 <= float(value) <= width + 1
            if key in ("y", "y1", "y2", "cy"):
                assert -1 <= float(value) <= height + 1
    return root


def circles(root: ElementTree.Element) -> list[dict[str, str]]:
    return [mark.attrib for mark in root.iter("circle")]


@given(st.lists(estimates, min_size=1, max_size=12), frames)
def test_intervals_of_anything(some: list[Estimate], frame: Frame) -> None:
    assert len(circles(drawn(intervals(some, "nDCG@10", frame), frame))) == len(some)


@given(st.lists(st.builds(Point, estimates, times, times), min_size=1, max_size=12), frames)
def test_scatter_of_anything(some: list[Point], frame: Frame) -> None:
    root = drawn(scatter(some, "nDCG@10", frame), frame)
    assert len(circles(root)) == len(some)


@given(st.lists(st.builds(Change, names, st.floats(-1, 1)), min_size=1, max_size=50))
def test_changes_of_anything(some: list[Change]) -> None:
    root = drawn(changes(some, "a", "b", reach(some)))
    bars = list(root.iter("rect"))
    assert len(bars) == sum(abs(each.difference) > 1e-9 for each in some)


def test_better_methods_are_farther_right_and_higher() -> None:
    good, bad = Estimate("good", 0.9, 0.8, 0.95), Estimate("bad", 0.3, 0.2, 0.4)
    first, second = circles(drawn(intervals([good, bad], "MRR")))
    assert float(first["cx"]) > float(second["cx"])
    fast, slow = circles(drawn(scatter([Point(good, 5, 9), Point(bad, 50, 90)], "MRR")))
    assert float(fast["cx"]) < float(slow["cx"])
    assert float(fast["cy"]) < float(slow["cy"])


def test_gains_come_first_and_point_up() -> None:
    some = [Change("lost", -0.5), Change("won", 0.5), Change("equal", 0)]
    root = drawn(changes(some, "a", "b", 1.0))
    won, lost = root.iter("rect")
    assert (won.attrib["class"], lost.attrib["class"]) == ("win", "loss")
    assert float(won.attrib["x"]) < float(lost.attrib["x"])
    assert float(won.attrib["y"]) < float(lost.attrib["y"])
    assert [title.text for title in root.iter("title")] == ["won: +0.500", "lost: -0.500"]


def test_the_scale_is_given_so_that_plots_can_be_compared() -> None:
    """Half the value is half the height, in every plot."""
    assert reach([Change("a", -0.62), Change("b", 0.3)]) == pytest.approx(0.7)
    assert (reach([]), reach([Change("a", 0.01)])) == (0.1, 0.1)
    drawings = [drawn(changes([Change("a", size)], "a", "b", 0.8)) for size in (0.8, 0.4)]
    tall, small = (float(next(each.iter("rect")).attrib["height"]) for each in drawings)
    assert tall == pytest.approx(2 * small)


def test_names_are_data() -> None:
    root = drawn(intervals([Estimate("<script>&", 0.5, 0.4, 0.6)], "MRR"))
    assert "<script>&" in [text.text for text in root.iter("text")]


def test_names_in_a_scatter_do_not_overlap() -> None:
    same = [Point(Estimate(f"m{at}", 0.01 * at, 0, 0.1), 10, 20) for at in range(12)]
    root = drawn(scatter(same, "MRR"))
    lines = sorted(float(text.attrib["y"]) for text in root.iter("text")
                   if text.attrib["class"] == "name")  # fmt: skip
    assert len(lines) == 12
    assert all(b - a >= 16.9 for a, b in pairwise(lines))


@given(shares, shares)
def test_ticks_enclose_the_range(one: float, other: float) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high, least=0.0, most=1.0)
    assert found[0] <= low + 1e-9
    assert found[-1] >= high - 1e-9
    assert 2 <= len(found) <= 8
    assert found == sorted(set(found))


@given(times, times)
def test_log_ticks_enclose_the_range(one: float, other: float) -> None:
    low, high = sorted((one, other))
    found = log_ticks(low, high)
    assert found[0] <= max(low, 0.01)
    assert found[-1] >= high
    assert 2 <= len(found) <= 10


def test_round_numbers() -> None:
    assert ticks(0.31, 0.87, least=0.0, most=1.0) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert log_ticks(3, 30) == [2, 5, 10, 20, 50]
    assert log_ticks(3, 7_000) == [1, 10, 100, 1_000, 10_000]
    assert ticks(1.0, 1.0, least=0.0, most=1.0)[-1] == pytest.approx(1.0)
