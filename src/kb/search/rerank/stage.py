"""The rerank stage: the first candidates read once more by a reader that looks closer (spec 8).

    fuse -> boost -> rerank -> cut

Always the same candidates are read, however many hits are asked for, from the first one on. With a
budget they are read in slices, of which the first is a single one: before each it is looked what
time is left, and a slice is no larger than fits into it by the pace of the last one. The time
counts from when the model is loaded, which takes as long as it takes, and happens once. Whatever
fails leaves the fused order, and is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kb import deadline
from kb.errors import ModelBroken, Stopped
from kb.logs import logger
from kb.search.query.analysis import Analysis
from kb.search.rerank.blend import blend_scores
from kb.search.rerank.result import PART, RerankResult
from kb.search.results.hits import CandidateCache
from kb.search.retrievers.base import failure
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded, ScoredChunk

log = logger("kb.search")

_FIRST_SLICE, _LARGEST_SLICE = 1, 16
_MARGIN = 0.9  # of the time left is planned with
_HUGE = 1e100  # a score that no reader means, and whose square is no number any more

_EXPRESSION = Degraded(PART, "expression", "an FTS5 expression is not read once more")

ElapsedMs = Callable[[], float]  # since some moment
Scores = dict[int, float | None]


@dataclass(frozen=True, slots=True)
class _Read:
    """What came of reading the first `count` candidates, and how long it took."""

    scores: Scores
    count: int
    took_ms: float

    def known(self) -> dict[int, float]:
        return {chunk: score for chunk, score in self.scores.items() if score is not None}


class Reranker(Protocol):
    """Reads a query and passages. `model` is the model that does, `scripts` those that it reads;
    none means: any."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def scripts(self) -> tuple[str, ...]: ...

    def unfit(self, text: str) -> str:
        """What is known to speak against its word on such a query; empty if nothing."""
        ...

    def load(self) -> None:
        """Load the model, once: no budget counts it."""
        ...

    def prepare(self, text: str) -> None:
        """What there is to do with the query alone."""
        ...

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:
        """Higher is better, on a scale of its own; None where there is nothing to compare. Chunks
        that it cannot know yet are left out."""
        ...


@dataclass(frozen=True, slots=True)
class RerankStage:
    """The stage as a profile says it. Without a `reranker` it cannot run, and `why` says why."""

    name: str
    candidates: int
    blend: float
    reranker: Reranker | None
    why: tuple[Degraded, ...] = ()
    budget_ms: int | None = None
    tells: bool = False  # that an expression is not read, where nobody else does

    def __repr__(self) -> str:
        parts = [self.name, f"top {self.candidates}", f"blend={self.blend:g}"]
        if self.budget_ms is not None:
            parts.append(f"within {self.budget_ms} ms")
        return f"rerank({', '.join(parts)})"

    def __call__(
        self,
        analysis: Analysis,
        ranked: Sequence[ScoredChunk],
        cache: CandidateCache,
        elapsed_ms: ElapsedMs,
        facts: dict[str, Any],
    ) -> RerankResult:
        """`facts` are told by `--explain`."""
        unread = RerankResult(tuple(ranked))
        if self.reranker is None:
            return replace(unread, degraded=self.why)
        if analysis.expression is not None:  # it asks for just what it says, not for a meaning
            return replace(unread, degraded=(_EXPRESSION,) if self.tells else ())
        if told := _unreadable(analysis, self.reranker):
            return replace(unread, degraded=(told,))
        first = [one.chunk_id for one in ranked[: self.candidates]]
        try:
            with deadline.share():
                read = self._read(self.reranker, analysis.text, first, cache, elapsed_ms)
        except Stopped as error:
            deadline.check()  # of the whole search; else the fused order still answers
            return replace(unread, degraded=(failure(PART, error),))
        except Exception as error:  # of a model or a library: the fused order still answers
            log.warning("%s failed", self.name, exc_info=True)
            return replace(unread, degraded=(failure(PART, error),))
        scored = len(read.known())
        facts |= {"model": self.reranker.model, "candidates": len(first), "scored": scored}
        return self._blended(ranked, read, len(first))

    def _read(
        self,
        reranker: Reranker,
        text: str,
        chunk_ids: Sequence[int],
        cache: CandidateCache,
        elapsed_ms: ElapsedMs,
    ) -> _Read:
        scores: Scores = {}
        count = 0
        with deadline.pause_deadline():
            reranker.load()
        began_ms = elapsed_ms()
        left_ms = None if self.budget_ms is None else _left(self.budget_ms, elapsed_ms)
        reranker.prepare(text)
        for start, end in slices(len(chunk_ids), left_ms):
            scores |= _checked(reranker, reranker.scores(text, chunk_ids[start:end], cache))
            count = end
        return _Read(scores, count, elapsed_ms() - began_ms)

    def _blended(self, ranked: Sequence[ScoredChunk], read: _Read, wanted: int) -> RerankResult:
        degraded = []
        if read.count < wanted:
            degraded.append(Degraded(PART, "timeout", self._timeout(read, wanted)))
        if unknown := read.count - len(read.scores):
            degraded.append(Degraded(PART, "pending", unknown))
        if not (scores := read.known()):
            return RerankResult(tuple(ranked), degraded=tuple(degraded))
        made = blend_scores(ranked[: read.count], scores, self.blend)
        below = made.below(ranked[read.count :], made.ranked[-1].score)
        return RerankResult((*made.ranked, *below), scores, made, tuple(degraded))

    def _timeout(self, read: _Read, wanted: int) -> str:
        told = f"{read.count} of {wanted} candidates"
        if self.budget_ms is None or read.took_ms <= self.budget_ms:
            return f"{told} within {self.budget_ms} ms"
        return f"{told} in {read.took_ms:.1f} ms, of {self.budget_ms} ms allowed"


def _unreadable(analysis: Analysis, reranker: Reranker) -> Degraded | None:
    if analysis.empty:
        return Degraded(PART, "no_query", "there is no text to read passages by")
    if unsupported_scripts(analysis.text, reranker.scripts):
        detail = f"{reranker.model} reads {' and '.join(reranker.scripts)} script"
        return Degraded(PART, "language", detail)
    if verdict := reranker.unfit(analysis.text):
        return Degraded(PART, "unfit", verdict)
    return None


def _checked(reranker: Reranker, scores: Scores) -> Scores:
    if all(score is None or abs(score) <= _HUGE for score in scores.values()):  # not so a NaN
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
