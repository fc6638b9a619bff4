"""The retrieve stage: every retriever of a pipeline asked, side by side where that is faster.

One that fails, or is late, leaves the others: what it would have found is missing, and is said to
be. All answers are of one state of the store. A thread has a connection of its own, which may open
a moment later than the search began; an answer from there counts only if the versions of the
indexes are those of the search. If not, the retriever is asked again in the search's own thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from kb import deadline
from kb.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    ModelMismatch,
    StoreError,
    StoreMissing,
)
from kb.logs import logger
from kb.search.query.analysis import Analysis
from kb.search.results.trace import Trace
from kb.search.retrievers.base import Candidates, Retriever, failure
from kb.types import Degraded, Filters

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.retrievers.thread_pool import Task, ThreadPool

# Mistakes of who asks, not of who is asked: no other retriever can make up for them. And nobody
# waits for any of them any more.
_MISTAKES = (InvalidRequest, ModelMismatch, StoreMissing, Cancelled)


class RetrievalRequest(NamedTuple):
    """What every retriever is asked."""

    analysis: Analysis
    filters: Filters
    now: str
    limit: int


@dataclass(frozen=True, slots=True)
class ParallelRetrieval:
    """Threads to ask in, and how long to wait for them: None is for ever."""

    pool: ThreadPool
    timeout_s: float | None = None


class _TimedCandidates(NamedTuple):
    candidates: Candidates
    ms: float


class _SharedTimeout:
    """The same moment for all: they were asked together."""

    def __init__(self, after_s: float | None) -> None:
        self.after_s = inf if after_s is None else after_s
        self._began = time.perf_counter()

    def met_by(self, answer: Task[Any]) -> bool:
        """Whether the answer is there in time; waits until one or the other is the case."""
        if self.after_s == inf:
            return answer.wait()
        return answer.wait(max(0.0, self._began + self.after_s - time.perf_counter()))


def retrieve(
    retrievers: Sequence[Retriever],
    asked: RetrievalRequest,
    trace: Trace,
    *,
    store: Store,
    parallel: ParallelRetrieval | None = None,
) -> dict[str, Candidates]:
    """What each retriever found, by its name. If none could do its work, since the store could not,
    that error is raised."""
    waiting = _submit_all(retrievers, asked, store, parallel) if parallel is not None else {}
    patience = _SharedTimeout(parallel.timeout_s if parallel is not None else None)
    found: dict[str, Candidates] = {}
    failures: list[Exception] = []
    for retriever in retrievers:
        answer = waiting.get(retriever.name)
        began = time.perf_counter()
        try:
            timed = _result(retriever, asked, answer, patience, alone=len(retrievers) == 1)
        except _MISTAKES:
            raise
        except Exception as error:
            deadline.check()  # of the whole search: then the others have no time either
            if len(retrievers) == 1:
                raise
            if not isinstance(error, DeadlineExceeded):
                logger("kb.search").warning("%s retriever failed", retriever.name, exc_info=True)
            failures.append(error)
            timed = _TimedCandidates(_unavailable(failure(retriever.name, error)), _ms_since(began))
        found[retriever.name] = timed.candidates
        trace.add(retriever.name, timed.ms, _facts(timed.candidates))
    _raise_if_nothing_works(found, failures)
    return found


def _raise_if_nothing_works(found: dict[str, Candidates], failures: Sequence[Exception]) -> None:
    """An empty answer would say that there is nothing to find."""
    if not any(each.ran for each in found.values()):
        for error in failures:
            if isinstance(error, StoreError | DeadlineExceeded):
                raise error


def _result(
    retriever: Retriever,
    asked: RetrievalRequest,
    answer: Task[_TimedCandidates | None] | None,
    patience: _SharedTimeout,
    *,
    alone: bool,
) -> _TimedCandidates:
    """Where there are others, none may use up all the time that the search has."""
    if answer is None and alone:
        return _ask(retriever, asked)
    if answer is not None:
        if not patience.met_by(answer):
            answer.leave()
            why = Degraded(retriever.name, "timeout", f"no answer within {patience.after_s:g} s")
            return _TimedCandidates(_unavailable(why), patience.after_s * 1000)
        if (timed := answer.value()) is not None:
            return timed
    with deadline.share():
        return _ask(retriever, asked)


def _unavailable(why: Degraded) -> Candidates:
    return Candidates(ran=False, degraded=(why,))


def _submit_all(
    retrievers: Sequence[Retriever],
    asked: RetrievalRequest,
    store: Store,
    parallel: ParallelRetrieval,
) -> dict[str, Task[_TimedCandidates | None]]:
    state = _state(store)

    def elsewhere(retriever: Retriever) -> Callable[[], _TimedCandidates | None]:
        def work() -> _TimedCandidates | None:
            with store.reading():
                return _ask(retriever, asked) if _state(store) == state else None

        return work

    return {each.name: parallel.pool.ask(each.name, elsewhere(each)) for each in retrievers}


def _state(store: Store) -> tuple[str, str]:
    return store.index_version(), store.vector_version()


def _ask(retriever: Retriever, asked: RetrievalRequest) -> _TimedCandidates:
    began = time.perf_counter()
    found = retriever.search(*asked)
    return _TimedCandidates(found, _ms_since(began))


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _facts(found: Candidates) -> dict[str, Any]:
    facts: dict[str, Any] = {"found": len(found.ranked)}
    if found.backend is not None:
        facts |= {"backend": found.backend, "model": found.model}
        return facts | {"encoding_ms": round(found.encoding_ms, 3)}
    if not found.ran:
        return {"failed": "; ".join(f"{one.reason} ({one.detail})" for one in found.degraded)}
    return facts | {"tiers": list(found.tiers), "too_common": list(found.dropped)}
