"""What came of the rerank stage. Known to every search, also to one that has no such stage, which
need not load how it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.types import Degraded, Hit, ScoredChunk

if TYPE_CHECKING:
    from kb.search.rerank.blend import BlendResult

PART = "rerank"


@dataclass(frozen=True, slots=True)
class RerankResult:
    """All that was ranked, in its new order. `scores` are the reranker's own, and `blended` is None
    where nothing was read."""

    ranked: tuple[ScoredChunk, ...]
    scores: Mapping[int, float] = field(default_factory=dict)
    blend_scores: BlendResult | None = None
    degraded: tuple[Degraded, ...] = ()

    def after(
        self, ranked: Sequence[ScoredChunk], later: Sequence[ScoredChunk]
    ) -> list[ScoredChunk] | None:
        """What is found later, on the scale of what was reranked; None where nothing was."""
        return (
            None if self.blend_scores is None else self.blend_scores.below(later, ranked[-1].score)
        )

    def marked(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Hits that say how they were reranked."""
        if self.blend_scores is None:
            return tuple(hits)
        return tuple(replace(hit, score_kind=PART, retrieval=replace(
            hit.retrieval, rerank_score=hit.score if hit.chunk_id in self.scores else None
        )) for hit in hits)  # fmt: skip
