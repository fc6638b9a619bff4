"""Searches the settings of a fusion: first on a coarse grid, then in fine steps.

Pure: `tuning` supplies the score of a setting. The coarse grid covers every kind of fusion and the
retrievers' weights; from its best point, small steps follow while they improve the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from kb.search.ranking.fusion import NORMALISATIONS

COARSE_STEP = 0.2
FINE_STEPS = (0.1, 0.05)
COARSE_K = (10.0, 60.0, 200.0)
_SMALLEST = 1e-9
_LEAST_K, _MOST_K = 1.0, 1_000.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration of the fusion. Weights are in the order of the retrievers and sum to 1."""

    fusion: str
    weights: tuple[tuple[str, float], ...]
    k: float | None = None
    normalisation: str | None = None

    def settings(self) -> dict[str, Any]:
        """The settings for a profile. Fitted weights do not adapt to the query."""
        own = {"k": self.k, "normalisation": self.normalisation}
        given = {key: value for key, value in own.items() if value is not None}
        return {"fusion": self.fusion, "adaptive": False, **given, "weights": dict(self.weights)}


def fit(score: Callable[[Setting], float], retrievers: Sequence[str]) -> Setting:
    """The setting with the best score. If several have it, the first one, which is on the coarse
    grid."""
    best = max(coarse(retrievers), key=score)
    for step in FINE_STEPS:
        while True:
            near = max(neighbors(best, step), key=score)
            if score(near) <= score(best) + _SMALLEST:
                break
            best = near
    return best


def coarse(retrievers: Sequence[str]) -> list[Setting]:
    return [
        each
        for shares in simplex(len(retrievers), COARSE_STEP)
        for each in _kinds(tuple(zip(retrievers, shares, strict=True)))
    ]


def _kinds(weights: tuple[tuple[str, float], ...]) -> Iterator[Setting]:
    yield from (Setting("convex", weights, normalisation=each) for each in NORMALISATIONS)
    yield from (Setting("rrf", weights, k=k) for k in COARSE_K)


def simplex(parts: int, step: float) -> list[tuple[float, ...]]:
    """All shares in multiples of `step` that sum to 1."""
    units = round(1 / step)

    def split(left: int, places: int) -> Iterator[tuple[int, ...]]:
        if places == 1:
            yield (left,)
            return
        for first in range(left + 1):
            yield from ((first, *rest) for rest in split(left - first, places - 1))

    return [tuple(round(count * step, 6) for count in each) for each in split(units, parts)]


def neighbors(setting: Setting, step: float) -> list[Setting]:
    """The settings one step away: some weight moved from one retriever to another, or another k."""
    near = []
    weights = dict(setting.weights)
    for source, target in permutations(weights, 2):
        if weights[source] >= step - _SMALLEST:
            moved = {source: weights[source] - step, target: weights[target] + step}
            shares = {name: round(weight, 6) for name, weight in (weights | moved).items()}
            near.append(replace(setting, weights=tuple(shares.items())))
    if setting.k is not None:
        factor = 1.0 + 5 * step
        others = (setting.k * factor, setting.k / factor)
        near += [replace(setting, k=round(min(max(k, _LEAST_K), _MOST_K), 1)) for k in others]
    return near
