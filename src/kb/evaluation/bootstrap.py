"""How sure a mean is: the paired bootstrap over queries.

Queries are drawn with replacement, the same draw for every method and measure; so the difference of
two methods' resampled means is a paired one, and costs nothing more. Pure, used by `runs`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import ceil, floor
from random import Random
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


def interval(means: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval: what is left after cutting equal tails off both sides."""
    tail = (1 - confidence) / 2
    ordered = sorted(means)
    return Interval(percentile(ordered, tail), percentile(ordered, 1 - tail))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, between neighbours by proportion."""
    place = share * (len(ordered) - 1)
    below, above = ordered[floor(place)], ordered[ceil(place)]
    return below + (above - below) * (place - floor(place))
