"""The rerank stage: a reranker reads the first candidates and reorders them.

    fuse -> boost -> rerank -> cut

The number of candidates does not depend on the number of hits. With a budget, candidates are read
in slices, the first of which has one candidate. The size of each later slice follows from the pace
of the last one and the time left. Loading the model does not count. After a failure the fused order
stays, and the response reports the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kb import deadline
from kb.errors import KbError, ModelBroken, Stopped
from kb.logs import logger
from kb.search.query.analysis import Analysis
from kb.search.rerank.automatic import automatic_blend
from kb.search.rerank.blend import PART, RerankResult, blend_scores
from kb.search.results.hits import CandidateCache
from kb.search.retrievers.base import Candidates, failure
from kb.search.retrievers.readability import suggest_reader
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded, ScoredChunk

log = logger("kb.search")

_FIRST_SLICE, _LARGEST_SLICE = 1, 16
_MARGIN = 0.9  # the share of the remaining time that a slice may use
_HUGE = 1e100  # larger scores are errors, and their squares overflow

_EXPRESSION = Degraded(PART, "expression", "an FTS5 expression is not reranked")

ElapsedMs = Callable[[], float]  # since a fixed moment
Scores = dict[int, float | None]


@dataclass(frozen=True, slots=True)
class _Reading:
    """The scores of the first `count` candidates, and how long they took."""

    scores: Scores
    count: int
    took_ms: float

    def known(self) -> dict[int, float]:
        """The scores that are not None."""
        return {chunk: score for chunk, score in self.scores.items() if score is not None}


class Reranker(Protocol):
    """Scores passages for a query. `model` is the name of its model; `scripts` are the scripts that
    it reads, empty for all."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def scripts(self) -> tuple[str, ...]: ...

    def unfit(self, text: str) -> str:
        """Why the model is not fit for this query; empty if it is."""
        ...

    def load(self) -> None:
        """Load the model. The budget does not include this."""
        ...

    def prepare(self, text: str) -> None:
        """Do the work that depends on the query alone."""
        ...

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:
        """The scores by chunk id, higher is better; None for a chunk without content to compare.
        Chunks that cannot be scored yet are left out."""
        ...


@dataclass(frozen=True, slots=True)
class RerankStage:
    """The rerank stage of a profile. Without a `reranker`, the stage only reports `degraded`.
    Without a `blend`, the share of the reranker depends on the query. `warns_of_expression` reports
    that an FTS5 expression is not reranked."""

    name: str
    candidates: int
    blend: float | None
    reranker: Reranker | None
    degraded: tuple[Degraded, ...] = ()
    budget_ms: int | None = None
    warns_of_expression: bool = False

    def __repr__(self) -> str:
        blend = "auto" if self.blend is None else f"{self.blend:g}"
        parts = [self.name, f"top {self.candidates}", f"blend={blend}"]
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
        candidates: Mapping[str, Candidates] | None = None,
    ) -> RerankResult:
        """Rerank the fused list `ranked`. `candidates` are those of each retriever, for the
        automatic blend. Adds to `facts` what `--explain` shows."""
        unchanged = RerankResult(tuple(ranked))
        if self.reranker is None:
            return replace(unchanged, degraded=self.degraded)
        if analysis.expression is not None:  # a matter of words, not of meaning
            warnings = (_EXPRESSION,) if self.warns_of_expression else ()
            return replace(unchanged, degraded=warnings)
        if reason := _unreadable(analysis, self.reranker):
            return replace(unchanged, degraded=(reason,))
        blend = self.blend
        if blend is None:
            automatic = automatic_blend(
                self.name, analysis.text, ranked[0].chunk_id, _first_ids(candidates or {})
            )
            facts |= automatic._asdict()
            if not (blend := automatic.blend):
                return unchanged
        first = [one.chunk_id for one in ranked[: self.candidates]]
        try:
            with deadline.share():
                reading = self._read(self.reranker, analysis.text, first, cache, elapsed_ms)
        except Stopped as error:
            deadline.check()  # of the search; if there is time left, keep the fused order
            return replace(unchanged, degraded=(failure(PART, error),))
        except Exception as error:  # by a model or a library: keep the fused order
            # Errors of kb need no traceback, such as a query whose characters are in no token.
            is_explained = isinstance(error, KbError) and error.__cause__ is None
            log.warning("%s failed: %s", self.name, error, exc_info=not is_explained)
            return replace(unchanged, degraded=(failure(PART, error),))
        scored = len(reading.known())
        facts |= {"model": self.reranker.model, "candidates": len(first), "scored": scored}
        return self._blend(ranked, reading, blend, len(first))

    def _read(
        self,
        reranker: Reranker,
        text: str,
        chunk_ids: Sequence[int],
        cache: CandidateCache,
        elapsed_ms: ElapsedMs,
    ) -> _Reading:
        scores: Scores = {}
        count = 0
        with deadline.pause_deadline():
            reranker.load()
        began_ms = elapsed_ms()
        left_ms = None if self.budget_ms is None else _countdown(self.budget_ms, elapsed_ms)
        reranker.prepare(text)
        for start, end in slices(len(chunk_ids), left_ms):
            scores |= _check_scores(reranker, reranker.scores(text, chunk_ids[start:end], cache))
            count = end
        return _Reading(scores, count, elapsed_ms() - began_ms)

    def _blend(
        self, ranked: Sequence[ScoredChunk], reading: _Reading, share: float, wanted: int
    ) -> RerankResult:
        degraded = []
        if reading.count < wanted:
            degraded.append(Degraded(PART, "timeout", self._timeout(reading, wanted)))
        if unknown := reading.count - len(reading.scores):
            degraded.append(Degraded(PART, "pending", unknown))
        if not (scores := reading.known()):
            return RerankResult(tuple(ranked), degraded=tuple(degraded))
        blend = blend_scores(ranked[: reading.count], scores, share)
        below = blend.below(ranked[reading.count :], blend.ranked[-1].score)
        return RerankResult((*blend.ranked, *below), scores, blend, tuple(degraded))

    def _timeout(self, reading: _Reading, wanted: int) -> str:
        count = f"{reading.count} of {wanted} candidates"
        if self.budget_ms is None or reading.took_ms <= self.budget_ms:
            return f"{count} within {self.budget_ms} ms"
        return f"{count} in {reading.took_ms:.1f} ms, of {self.budget_ms} ms allowed"


def _first_ids(candidates: Mapping[str, Candidates]) -> list[int | None]:
    return [each.ranked[0].chunk_id if each.ranked else None for each in candidates.values()]


def _unreadable(analysis: Analysis, reranker: Reranker) -> Degraded | None:
    if analysis.empty:
        return Degraded(PART, "no_query", "the query has no text to compare with passages")
    if unsupported_scripts(analysis.text, reranker.scripts):
        detail = f"{reranker.model} reads {' and '.join(reranker.scripts)} script"
        detail += suggest_reader(analysis.text)
        return Degraded(PART, "language", detail)
    if verdict := reranker.unfit(analysis.text):
        return Degraded(PART, "unfit", verdict)
    return None


def _check_scores(reranker: Reranker, scores: Scores) -> Scores:
    if all(score is None or abs(score) <= _HUGE for score in scores.values()):  # False for a NaN
        return scores
    raise ModelBroken(
        f"{reranker.model} returned scores that are not numbers", "see: kb models verify"
    )


def _countdown(budget_ms: int, elapsed_ms: ElapsedMs) -> ElapsedMs:
    end_ms = elapsed_ms() + budget_ms
    return lambda: end_ms - elapsed_ms()


def slices(count: int, left_ms: ElapsedMs | None) -> Iterator[tuple[int, int]]:
    """The start and the end of each slice; one slice if there is no budget. The caller reads a
    slice before it requests the next one, so the time between two requests is the time that a slice
    takes."""
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
