"""How sure a mean is: the paired bootstrap over queries.

Queries are drawn with replacement, the same draw for every method and measure; so the difference of
two methods' resampled means is a paired one, and costs nothing more. Pure, used by `runs`.

Of few queries the plain percentile interval is too narrow: a resample varies as if it were the
whole world, by (n - 1) / n too little, and knows nothing of Student's t. Its tails are made smaller
by just that (Hesterberg, "What teachers should know about the bootstrap", 2015: the expanded
percentile interval). Simulated with differences that are mostly zero, and skewed: at 10 queries the
truth is inside in 87 % and not in 82 %, at 60 in 95 % either way.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import ceil, floor, sqrt
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
    """For each series of per-query values its mean in every resample. All series have the same
    length, at least 1: the i-th value of each belongs to the same query."""
    [queries] = {len(series) for series in values.values()}
    random, positions = Random(seed), range(queries)
    means: dict[Key, list[float]] = {key: [] for key in values}
    for _ in range(resamples):
        drawn = random.choices(positions, k=queries)
        for key, series in values.items():
            means[key].append(sum(map(series.__getitem__, drawn)) / queries)
    return means


def interval(
    means: Sequence[float], confidence: float = CONFIDENCE, *, queries: int | None = None
) -> Interval:
    """What is left after cutting equal tails off both sides; smaller ones, where the means are
    those of few `queries`."""
    tail = (1 - confidence) / 2
    if queries is not None and queries > 1:
        tail = expanded_tail(tail, queries)
    ordered = sorted(means)
    return Interval(percentile(ordered, tail), percentile(ordered, 1 - tail))


def expanded_tail(tail: float, queries: int) -> float:
    """The share to cut off, so that the interval is as wide as Student's t would have it."""
    t = student_t(1 - tail, queries - 1)
    return NormalDist().cdf(-t * sqrt(queries / (queries - 1)))


def student_t(share: float, freedom: int) -> float:
    """The quantile of Student's t, by its expansion around the normal one: good to 1 % from four
    degrees of freedom on, and too small below, where nothing can be said anyway."""
    z = NormalDist().inv_cdf(share)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, between neighbours by proportion."""
    place = share * (len(ordered) - 1)
    below, above = ordered[floor(place)], ordered[ceil(place)]
    return below + (above - below) * (place - floor(place))
