"""Resampling is reproducible, paired, and correct in known cases."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.bootstrap import Interval, interval, percentile, resampled_means, student_t

shares = st.floats(0, 1)


def test_the_seed_decides() -> None:
    values = {"a": [0.0, 0.2, 0.9, 1.0, 0.4]}
    assert resampled_means(values, seed=1) == resampled_means(values, seed=1)
    assert resampled_means(values, seed=1) != resampled_means(values, seed=2)


@given(values=st.lists(shares, min_size=1, max_size=30), shift=st.floats(0, 1))
def test_every_series_sees_the_same_draw(values: list[float], shift: float) -> None:
    """A method that is better by a constant on every query is better by it in every resample."""
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


@pytest.mark.parametrize(("freedom", "exact"), [(4, 2.776), (9, 2.262), (29, 2.045), (999, 1.962)])
def test_students_t(freedom: int, exact: float) -> None:
    assert student_t(0.975, freedom) == pytest.approx(exact, rel=0.01)


def test_few_queries_are_less_sure() -> None:
    values = [0.1, 0.9, 0.4, 0.7, 0.2, 0.5, 0.8, 0.3]
    means = resampled_means({"a": values})["a"]
    plain, honest = interval(means), interval(means, queries=len(values))
    assert honest.low < plain.low
    assert honest.high > plain.high


# --- coverage of the intervals --------------------------------------------------------------------


def mostly_none(random: Random) -> float:
    """A realistic difference of two methods on one query: mostly zero, otherwise skewed."""
    kind = random.random()
    if kind < 0.5:
        return 0.0
    return random.random() ** 2 * 0.6 if kind < 0.85 else -random.random() * 0.5


def rare_wins(random: Random) -> float:
    """Zero for most queries, large for a few."""
    return random.random() if random.random() < 0.15 else 0.0


def near_the_top(random: Random) -> float:
    """nDCG of a good method."""
    return 1.0 if random.random() < 0.7 else random.random()


def even(random: Random) -> float:
    return random.gauss(0.1, 0.3)


def long_tail(random: Random) -> float:
    return random.expovariate(5) - 0.1


TRUTH: dict[Callable[[Random], float], float] = {
    mostly_none: 0.35 * 0.6 / 3 - 0.15 * 0.25,
    rare_wins: 0.15 / 2,
    near_the_top: 0.7 + 0.3 / 2,
    even: 0.1,
    long_tail: 0.1,
}


def coverage(
    draw: Callable[[Random], float], queries: int, worlds: int, *, plain: bool = False
) -> float:
    """How often the interval contains the truth, in simulations with this many queries."""
    random, inside = Random(11), 0
    for world in range(worlds):
        values = [draw(random) for _ in range(queries)]
        means = resampled_means({"d": values}, resamples=300, seed=world)["d"]
        low, high = interval(means, queries=None if plain else queries)
        inside += low <= TRUTH[draw] <= high
    return inside / worlds


@pytest.mark.parametrize("draw", TRUTH, ids=lambda draw: draw.__name__)
def test_the_truth_is_inside_nineteen_times_out_of_twenty(
    draw: Callable[[Random], float],
) -> None:
    """There are 80 queries. Of 300 intervals at 95 %, less than 91 % or more than 98.5 % contain
    the truth with a probability of one in a thousand. The seed is fixed."""
    assert 0.91 <= coverage(draw, 80, 300) <= 0.985


@pytest.mark.parametrize(
    ("draw", "least"),
    [(mostly_none, 0.89), (near_the_top, 0.89), (even, 0.90), (long_tail, 0.86), (rare_wins, 0.80)],
)
def test_twenty_queries_are_few(draw: Callable[[Random], float], least: float) -> None:
    """The interval contains the truth as often as decision 0018 states, within the variation of 300
    simulations. If the result depends on a few queries that were not drawn, resampling the others
    cannot show that."""
    assert least <= coverage(draw, 20, 300) <= 0.985


def test_ten_queries_are_covered_better_than_by_plain_percentiles() -> None:
    honest, plain = (coverage(mostly_none, 10, 200, plain=plain) for plain in (False, True))
    assert honest >= plain + 0.03


def compared(shift: float, *, worlds: int, queries: int) -> list[Interval]:
    """Two methods whose values depend on the difficulty of a query and on chance; the second is
    better by `shift`."""
    random, found = Random(5), []
    for world in range(worlds):
        hard = [random.random() for _ in range(queries)]
        first = [each + random.gauss(0, 0.1) for each in hard]
        second = [each + random.gauss(shift, 0.1) for each in hard]
        means = resampled_means({"a": first, "b": second}, resamples=300, seed=world)
        pairs = zip(means["b"], means["a"], strict=True)
        found.append(interval([b - a for b, a in pairs], queries=queries))
    return found


@pytest.mark.parametrize("queries", [20, 60])
def test_methods_that_are_equally_good_are_rarely_told_apart(queries: int) -> None:
    """One time in twenty is what 95 % allows; of 200 draws, more than 10 % come up in one case of a
    thousand."""
    apart = [low > 0 or high < 0 for low, high in compared(0.0, worlds=200, queries=queries)]
    assert 0 < sum(apart) / 200 <= 0.10


def test_a_planted_difference_is_found() -> None:
    """The difference is half of the random variation of a query, over 60 queries of very different
    difficulty."""
    assert all(low > 0 for low, _ in compared(0.08, worlds=50, queries=60))


@given(values=st.lists(shares, min_size=1, max_size=40))
def test_a_method_does_not_differ_from_itself(values: list[float]) -> None:
    means = resampled_means({"a": values, "b": list(values)}, resamples=20)
    pairs = zip(means["b"], means["a"], strict=True)
    assert interval([b - a for b, a in pairs], queries=len(values)) == (0.0, 0.0)
