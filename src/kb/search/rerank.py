"""The rerank stage: the first candidates read once more by a reader that looks closer (spec 8).

    fuse -> boost -> rerank -> cut

Always the same candidates are read, however many hits are asked for, from the first one on. With a
budget they are read in slices: before each it is looked what time is left, and a slice is no larger
than fits into it by the pace of the last one. The time counts from when the reranker is ready: to
load a model takes as long as it takes, and happens once. Whatever fails leaves the fused order, and
is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Protocol

from kb.errors import ModelBroken
from kb.search.analyse import Analysis
from kb.search.by_model import failure
from kb.search.hits import Shelf
from kb.search.rerank_blend import Blended, blended
from kb.search.scripts import is_foreign
from kb.types import Degraded, Hit, Scored

log = logging.getLogger("kb.search")

PART = "rerank"
_FIRST_SLICE, _LARGEST_SLICE = 4, 16
_MARGIN = 0.9  # of the time left is planned with

ElapsedMs = Callable[[], float]  # since some moment


class Reranker(Protocol):
    """Reads a query and passages. `model` is the model that does, `scripts` those that it reads;
    none means: any."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def scripts(self) -> tuple[str, ...]: ...

    def prepare(self, text: str) -> None:
        """What takes its time and is done once: to load a model, to encode the query."""
        ...

    def scores(self, text: str, chunk_ids: Sequence[int], shelf: Shelf) -> dict[int, float]:
        """Higher is better, on a scale of its own; chunks that it cannot know are left out."""
        ...


@dataclass(frozen=True, slots=True)
class Reranked:
    """All that was ranked, in its new order. `scores` are the reranker's own, and `blended` is None
    where nothing was read."""

    ranked: tuple[Scored, ...]
    scores: Mapping[int, float] = field(default_factory=dict)
    blended: Blended | None = None
    degraded: tuple[Degraded, ...] = ()

    def after(self, ranked: Sequence[Scored], later: Sequence[Scored]) -> list[Scored] | None:
        """What is found later, on the scale of what was reranked; None where nothing was."""
        return None if self.blended is None else self.blended.below(later, ranked[-1].score)

    def marked(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Hits that say how they were reranked."""
        if self.blended is None:
            return tuple(hits)
        return tuple(replace(hit, score_kind=PART, retrieval=replace(
            hit.retrieval, rerank_score=hit.score if hit.chunk_id in self.scores else None
        )) for hit in hits)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rerank:
    """The stage as a profile says it. Without a `reranker` it cannot run, and `why` says why."""

    name: str
    candidates: int
    blend: float
    reranker: Reranker | None
    why: tuple[Degraded, ...] = ()
    budget_ms: int | None = None

    def __repr__(self) -> str:
        parts = [self.name, f"top {self.candidates}", f"blend={self.blend:g}"]
        if self.budget_ms is not None:
            parts.append(f"within {self.budget_ms} ms")
        return f"rerank({', '.join(parts)})"

    def __call__(
        self,
        analysis: Analysis,
        ranked: Sequence[Scored],
        shelf: Shelf,
        elapsed_ms: ElapsedMs,
        facts: dict[str, Any],
    ) -> Reranked:
        """`facts` are told by `--explain`."""
        unread = Reranked(tuple(ranked))
        if self.reranker is None:
            return replace(unread, degraded=self.why)
        if analysis.expression is not None:  # it asks for just what it says, not for a meaning
            return unread
        if told := _unreadable(analysis, self.reranker):
            return replace(unread, degraded=(told,))
        first = [one.chunk_id for one in ranked[: self.candidates]]
        try:
            scores, read = self._read(self.reranker, analysis.text, first, shelf, elapsed_ms)
        except Exception as error:  # of a model or a library: the fused order still answers
            log.warning("%s failed", self.name, exc_info=True)
            return replace(unread, degraded=(failure(PART, error),))
        facts |= {"model": self.reranker.model, "candidates": len(first), "scored": len(scores)}
        return self._blended(ranked, scores, read, len(first))

    def _read(
        self,
        reranker: Reranker,
        text: str,
        chunk_ids: Sequence[int],
        shelf: Shelf,
        elapsed_ms: ElapsedMs,
    ) -> tuple[dict[int, float], int]:
        """Scores, and how many of the candidates were read for them."""
        scores: dict[int, float] = {}
        read = 0
        reranker.prepare(text)
        left_ms = None if self.budget_ms is None else _left(self.budget_ms, elapsed_ms)
        for start, end in slices(len(chunk_ids), left_ms):
            scores |= _finite(reranker, reranker.scores(text, chunk_ids[start:end], shelf))
            read = end
        return scores, read

    def _blended(
        self, ranked: Sequence[Scored], scores: Mapping[int, float], read: int, wanted: int
    ) -> Reranked:
        degraded = []
        if read < wanted:
            told = f"{read} of {wanted} candidates within {self.budget_ms} ms"
            degraded.append(Degraded(PART, "timeout", told))
        if unknown := read - len(scores):
            degraded.append(Degraded(PART, "pending", unknown))
        if not scores:
            return Reranked(tuple(ranked), degraded=tuple(degraded))
        made = blended(ranked[:read], scores, self.blend)
        below = made.below(ranked[read:], made.ranked[-1].score)
        return Reranked((*made.ranked, *below), scores, made, tuple(degraded))


def _unreadable(analysis: Analysis, reranker: Reranker) -> Degraded | None:
    if analysis.empty:
        return Degraded(PART, "no_query", "there is no text to read passages by")
    if is_foreign(analysis.text, reranker.scripts):
        detail = f"{reranker.model} reads {' and '.join(reranker.scripts)} script"
        return Degraded(PART, "language", detail)
    return None


def _finite(reranker: Reranker, scores: dict[int, float]) -> dict[int, float]:
    if all(map(isfinite, scores.values())):
        return scores
    raise ModelBroken(f"{reranker.model} gave scores that are no numbers", "see: kb models verify")


def _left(budget_ms: int, elapsed_ms: ElapsedMs) -> ElapsedMs:
    end_ms = elapsed_ms() + budget_ms
    return lambda: end_ms - elapsed_ms()


def slices(count: int, left_ms: ElapsedMs | None) -> Iterator[tuple[int, int]]:
    """Where each slice begins and ends; all is one, where nobody counts the time. Who iterates does
    the work of a slice before asking for the next: so its pace is seen."""
    if left_ms is None:
        yield 0, count
        return
    start, size = 0, _FIRST_SLICE
    while start < count and size > 0 and (before_ms := left_ms()) > 0:
        end = min(count, start + size)
        yield start, end
        after_ms = left_ms()
        pace_ms = max(1e-6, (before_ms - after_ms) / (end - start))
        start, size = end, min(_LARGEST_SLICE, int(_MARGIN * after_ms / pace_ms))
