"""The blend of a reranker's scores and the fused ones (spec 8). Pure.

Both are brought to one scale over the candidates: how many standard deviations a score status
above their mean. Then

    blend * reranker + (1 - blend) * fused

where a blend of 1 is the reranker alone. The logistic function brings it to (0, 1). A candidate
that the reranker cannot know (it has no token vectors yet) status where its fused score alone
would place it. Equals stay in the order they had.

What was not read, below the last candidate or since time was up, follows below all that was, in
its own order: the first ones were read first, so that a short time costs the tail and not the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, sqrt

from kb.types import ScoredChunk

_LARGEST = 500.0  # standard deviations; `exp` overflows at 709


@dataclass(frozen=True, slots=True)
class Scale:
    """Of some scores: their mean, and how far they spread."""

    mean: float
    spread: float

    @classmethod
    def of(cls, scores: Sequence[float]) -> Scale:
        if not scores:
            return cls(0.0, 0.0)
        mean = fsum(scores) / len(scores)
        return cls(mean, sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores)))

    def place(self, score: float) -> float:
        """In standard deviations above the mean; 0 where all are equal, which says nothing."""
        if self.spread <= 1e-12 * max(1.0, abs(self.mean)):
            return 0.0
        return max(-_LARGEST, min(_LARGEST, (score - self.mean) / self.spread))


def shown(place: float) -> float:
    """A place as the score that a hit shows."""
    return 1.0 / (1.0 + exp(-place))


@dataclass(frozen=True, slots=True)
class BlendResult:
    """Candidates in their new order, and the scale of what the fused scores were: others that come
    later are shown on it."""

    ranked: tuple[ScoredChunk, ...]
    fused: Scale

    def below(self, others: Sequence[ScoredChunk], least: float) -> list[ScoredChunk]:
        """Others in their own order, on the same scale, and not above `least`."""
        found = []
        for one in others:
            least = min(least, shown(self.fused.place(one.score)))
            found.append(ScoredChunk(one.chunk_id, least, one.rank))
        return found


def blend_scores(
    ranked: Sequence[ScoredChunk], scores: Mapping[int, float], blend: float
) -> BlendResult:
    """The candidates `ranked`, all of which were read; `scores` are the reranker's of those that it
    can know."""
    fused = Scale.of([one.score for one in ranked])
    known = Scale.of([scores[one.chunk_id] for one in ranked if one.chunk_id in scores])
    places = []
    for one in ranked:
        place = fused.place(one.score)
        if (score := scores.get(one.chunk_id)) is not None:
            place = blend * known.place(score) + (1.0 - blend) * place
        places.append((place, one.chunk_id))
    places.sort(key=lambda pair: -pair[0])
    found = (
        ScoredChunk(chunk, shown(place), rank)
        for rank, (place, chunk) in enumerate(places, start=1)
    )
    return BlendResult(tuple(found), fused)
