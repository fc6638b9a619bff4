"""Resampling: reproducible, paired, and right where the answer is known."""

from __future__ import annotations

from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.bootstrap import interval, percentile, resampled_means

shares = st.floats(0, 1)


def test_the_seed_decides() -> None:
    values = {"a": [0.0, 0.2, 0.9, 1.0, 0.4]}
    assert resampled_means(values, seed=1) == resampled_means(values, seed=1)
    assert resampled_means(values, seed=1) != resampled_means(values, seed=2)


@given(values=st.lists(shares, min_size=1, max_size=30), shift=st.floats(0, 1))
def test_every_series_sees_the_same_draw(values: list[float], shift: float) -> None:
    """A method that is better by the same on every query is better by that in every resample."""
    series = {"base": values, "better": [value + shift for value in values]}
    means = resampled_means(series, resamples=20)
    pairs = zip(means["better"], means["base"], strict=True)
    assert [better - base for better, base in pairs] == pytest.approx([shift] * 20)


def test_the_interval_is_that_of_the_normal_approximation() -> None:
    random = Random(7)
    values = [random.random() for _ in range(400)]
    low, high = interval(resampled_means({"a": values})["a"])
    margin = 1.96 * stdev(values) / sqrt(len(values))
    assert low == pytest.approx(fmean(values) - margin, abs=margin / 5)
    assert high == pytest.approx(fmean(values) + margin, abs=margin / 5)


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5]])
def test_no_spread_no_interval(values: list[float]) -> None:
    assert interval(resampled_means({"a": values}, resamples=50)["a"]) == (0.5, 0.5)


def test_percentiles_by_hand() -> None:
    assert percentile([3.0], 0.95) == 3.0
    assert percentile([1.0, 2.0], 0.5) == 1.5
    assert percentile([0.0, 10.0, 20.0, 30.0, 40.0], 0.95) == pytest.approx(38.0)
    assert interval([float(value) for value in range(101)], 0.9) == pytest.approx((5.0, 95.0))


@given(values=st.lists(shares, min_size=1).map(sorted), share=shares)
def test_a_percentile_lies_within(values: list[float], share: float) -> None:
    assert values[0] - 1e-12 <= percentile(values, share) <= values[-1] + 1e-12
