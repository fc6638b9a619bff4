"""Confidence intervals of means, by the paired bootstrap over queries. Pure.

Queries are drawn with replacement, with the same draw for every method and measure. So the
difference between the resampled means of two methods is paired at no extra cost.

With few queries, the plain percentile interval is too narrow: the variance of a resample is too
small by the factor (n - 1) / n, and the interval ignores Student's t. The expanded percentile
interval corrects both with smaller tails (Hesterberg, "What Teachers Should Know about the
Bootstrap", 2015). Decision 0018 has its coverage in simulations, compared with other intervals:
near 95 % with 50 queries or more, less with fewer. If the values do not vary, the interval has no
width, although other queries might vary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import ceil, floor, sqrt
from operator import itemgetter
from random import Random
from statistics import NormalDist
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

RESAMPLES = 2_000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    low: float
    high: float


def resampled_means(
    values: Mapping[Key, Sequence[float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[Key, list[float]]:
    """The mean of each series of per-query values in every resample. All series have the same
    length, at least 1, and the i-th value of each belongs to the same query."""
    [queries] = {len(series) for series in values.values()}
    random, positions = Random(seed), range(queries)
    means: dict[Key, list[float]] = {key: [] for key in values}
    for _ in range(resamples):
        pick = _picker(random.choices(positions, k=queries))
        for key, series in values.items():
            means[key].append(sum(pick(series)) / queries)
    return means


def _picker(places: Sequence[int]) -> Callable[[Sequence[float]], Sequence[float]]:
    """A function that picks the values at these positions, five times faster than a loop: with
    thousands of queries, that saves seconds."""
    # `itemgetter` returns no tuple for one place.
    return itemgetter(*places) if len(places) > 1 else lambda series: series


def interval(
    means: Sequence[float], confidence: float = CONFIDENCE, *, queries: int | None = None
) -> Interval:
    """The interval that leaves equal tails on both sides; with few `queries`, the tails are
    smaller."""
    tail = (1 - confidence) / 2
    if queries is not None and queries > 1:
        tail = expanded_tail(tail, queries)
    ordered = sorted(means)
    return Interval(percentile(ordered, tail), percentile(ordered, 1 - tail))


def expanded_tail(tail: float, queries: int) -> float:
    """The tail that makes the interval as wide as one of Student's t."""
    t = student_t(1 - tail, queries - 1)
    return NormalDist().cdf(-t * sqrt(queries / (queries - 1)))


def student_t(share: float, freedom: int) -> float:
    """The quantile of Student's t by its expansion around the normal quantile. Accurate to 1 % from
    four degrees of freedom on, and too small below, where intervals are meaningless anyway."""
    z = NormalDist().inv_cdf(share)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The quantile of sorted values, interpolated between neighbors."""
    place = share * (len(ordered) - 1)
    below, above = ordered[floor(place)], ordered[ceil(place)]
    return below + (above - below) * (place - floor(place))
