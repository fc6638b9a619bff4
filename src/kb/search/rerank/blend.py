"""Blending of reranker scores with fused scores. Pure.

Both kinds of scores become z-scores over the candidates. Then

    blend * reranker + (1 - blend) * fused

where a blend of 1 means the reranker alone. The logistic function maps the sum to (0, 1). A
candidate that the reranker cannot score (it has no token vectors yet) keeps its fused z-score. Ties
keep their order.

Candidates that were not read, because they are below the limit or the budget was used up, follow
all others in their own order. The first candidates are read first, so that a small budget affects
the end of the list rather than its top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, sqrt

from kb.types import Degraded, Hit, ScoredChunk
from kb.values import NamedTuple, dataclass, field, replace

PART = "rerank"  # in `degraded`, in explanations and as a kind of score
_LARGEST = 500.0  # standard deviations; `exp` overflows at 709


class Scale(NamedTuple):
    """The mean and the standard deviation of some scores."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, scores: Sequence[float]) -> Scale:
        """The scale of these scores."""
        if not scores:
            return cls(0.0, 0.0)
        mean = fsum(scores) / len(scores)
        return cls(mean, sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores)))

    def z_score(self, score: float) -> float:
        """The distance from the mean in standard deviations; 0 if all scores are equal."""
        if self.deviation <= 1e-12 * max(1.0, abs(self.mean)):
            return 0.0
        return max(-_LARGEST, min(_LARGEST, (score - self.mean) / self.deviation))


def logistic(z_score: float) -> float:
    """Map a z-score to (0, 1): the score that a hit shows."""
    return 1.0 / (1.0 + exp(-z_score))


class BlendResult(NamedTuple):
    """The candidates in their new order, and the scale of their fused scores. Later candidates are
    shown on the same scale."""

    ranked: tuple[ScoredChunk, ...]
    fused: Scale

    def below(self, others: Sequence[ScoredChunk], ceiling: float) -> list[ScoredChunk]:
        """Other candidates in their own order, on the same scale, with scores up to `ceiling`."""
        ranked = []
        for one in others:
            ceiling = min(ceiling, logistic(self.fused.z_score(one.score)))
            ranked.append(ScoredChunk(one.chunk_id, ceiling, one.rank))
        return ranked


def blend_scores(
    ranked: Sequence[ScoredChunk], scores: Mapping[int, float], blend: float
) -> BlendResult:
    """Order the candidates by the blend. `scores` has the reranker's scores, by chunk id."""
    fused = Scale.of([one.score for one in ranked])
    reranker = Scale.of([scores[one.chunk_id] for one in ranked if one.chunk_id in scores])
    blended = []
    for one in ranked:
        z_score = fused.z_score(one.score)
        if (score := scores.get(one.chunk_id)) is not None:
            z_score = blend * reranker.z_score(score) + (1.0 - blend) * z_score
        blended.append((z_score, one.chunk_id))
    blended.sort(key=lambda pair: -pair[0])
    chunks = (
        ScoredChunk(chunk, logistic(z_score), rank)
        for rank, (z_score, chunk) in enumerate(blended, start=1)
    )
    return BlendResult(tuple(chunks), fused)


@dataclass(frozen=True, slots=True)
class RerankResult:
    """The result of the rerank stage: all candidates in their new order. `scores` are the
    reranker's scores; `blend` is None if nothing was read."""

    ranked: tuple[ScoredChunk, ...]
    scores: Mapping[int, float] = field(default_factory=dict)
    blend: BlendResult | None = None
    degraded: tuple[Degraded, ...] = ()

    def append(
        self, ranked: Sequence[ScoredChunk], later: Sequence[ScoredChunk]
    ) -> list[ScoredChunk] | None:
        """Later candidates on the scale of the reranked ones; None if nothing was reranked."""
        return None if self.blend is None else self.blend.below(later, ranked[-1].score)

    def annotate(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Hits with the scores of the reranker."""
        if self.blend is None:
            return tuple(hits)
        return tuple(replace(hit, score_kind=PART, retrieval=replace(
            hit.retrieval, rerank_score=hit.score if hit.chunk_id in self.scores else None
        )) for hit in hits)  # fmt: skip
