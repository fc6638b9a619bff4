"""The retrieval stage: runs all retrievers of a search, in parallel if that is faster.

A retriever that fails or times out does not stop the others: its list is missing, and the response
reports that. All retrievers read one state of the store. A thread has its own connection, whose
snapshot may be newer than that of the search. Its result counts only if the index versions are
equal; otherwise the retriever runs again in the thread of the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf

from kb import deadline
from kb.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    ModelMismatch,
    SnapshotLost,
    StoreError,
    StoreMissing,
)
from kb.logs import logger
from kb.search.results.trace import Trace
from kb.search.retrievers.base import Candidates, RetrievalRequest, Retriever, failure
from kb.search.retrievers.registry import LEXICAL
from kb.types import Degraded
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.retrievers.thread_pool import Task, ThreadPool

# Errors of the caller, which no other retriever can make up for, and a canceled search.
_CALLER_ERRORS = (InvalidRequest, ModelMismatch, StoreMissing, Cancelled, SnapshotLost)


class ParallelRetrieval(NamedTuple):
    """Runs retrievers in threads, and waits for them at most `timeout_s`; None means forever."""

    pool: ThreadPool
    timeout_s: float | None = None


class _TimedCandidates(NamedTuple):
    candidates: Candidates
    ms: float


class _Timeout:
    """A timeout that tasks share, because they started together."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = inf if timeout_s is None else timeout_s
        self._began = time.perf_counter()

    def wait_for(self, task: Task[Any]) -> bool:
        """Wait until the task is done or the time is up; returns whether it is done."""
        if self.timeout_s == inf:
            return task.wait()
        return task.wait(max(0.0, self._began + self.timeout_s - time.perf_counter()))


def retrieve(
    retrievers: Sequence[Retriever],
    request: RetrievalRequest,
    trace: Trace,
    *,
    store: Store,
    parallel: ParallelRetrieval | None = None,
) -> dict[str, Candidates]:
    """The candidates of each retriever, by its name. Raises the error of the store if no retriever
    could run because of it."""
    tasks = _submit_all(retrievers, request, store, parallel) if parallel is not None else {}
    timeout = _Timeout(parallel.timeout_s if parallel is not None else None)
    candidates: dict[str, Candidates] = {}
    errors: list[Exception] = []
    for retriever in retrievers:
        task = tasks.get(retriever.name)
        began = time.perf_counter()
        try:
            timed = _result(retriever, request, task, timeout, alone=len(retrievers) == 1)
        except _CALLER_ERRORS:
            raise
        except Exception as error:
            deadline.check()  # of the search: if it is over, no retriever has time left
            if len(retrievers) == 1:
                raise
            if not isinstance(error, DeadlineExceeded):
                logger("kb.search").warning("%s retriever failed", retriever.name, exc_info=True)
            errors.append(error)
            timed = _TimedCandidates(_unavailable(failure(retriever.name, error)), _ms_since(began))
        candidates[retriever.name] = timed.candidates
        trace.add(retriever.name, timed.ms, _facts(timed.candidates))
    _retry_words(retrievers, request, candidates, trace)
    _raise_if_none_ran(candidates, errors)
    return candidates


def _retry_words(
    retrievers: Sequence[Retriever],
    request: RetrievalRequest,
    candidates: dict[str, Candidates],
    trace: Trace,
) -> None:
    """Look up the words again if every retriever was late, for as long as the search may take. They
    were late because the machine is busy; the user would take an empty response to mean that
    nothing matches."""
    words = candidates.get(LEXICAL)
    late = words is not None and any(each.reason == "timeout" for each in words.degraded)
    if not late or len(retrievers) == 1 or any(each.ran for each in candidates.values()):
        return
    timed = _run(next(each for each in retrievers if each.name == LEXICAL), request)
    candidates[LEXICAL] = timed.candidates
    trace.add(LEXICAL, timed.ms, _facts(timed.candidates))


def _raise_if_none_ran(candidates: dict[str, Candidates], errors: Sequence[Exception]) -> None:
    """Raise the error of the store if no retriever ran: an empty response would mean that nothing
    matches."""
    if not any(each.ran for each in candidates.values()):
        for error in errors:
            if isinstance(error, StoreError | DeadlineExceeded):
                raise error


def _result(
    retriever: Retriever,
    request: RetrievalRequest,
    task: Task[_TimedCandidates | None] | None,
    timeout: _Timeout,
    *,
    alone: bool,
) -> _TimedCandidates:
    """The result of the task, or of a run in this thread. If several retrievers run, each gets only
    a share of the search's deadline."""
    if task is None and alone:
        return _run(retriever, request)
    if task is not None:
        if not timeout.wait_for(task):
            task.cancel()
            detail = f"no answer within {timeout.timeout_s:g} s"
            late = Degraded(retriever.name, "timeout", detail)
            return _TimedCandidates(_unavailable(late), timeout.timeout_s * 1000)
        if (timed := task.result()) is not None:
            return timed
    with deadline.share():
        return _run(retriever, request)


def _unavailable(reason: Degraded) -> Candidates:
    return Candidates(ran=False, degraded=(reason,))


def _submit_all(
    retrievers: Sequence[Retriever],
    request: RetrievalRequest,
    store: Store,
    parallel: ParallelRetrieval,
) -> dict[str, Task[_TimedCandidates | None]]:
    versions = _versions(store)

    def in_thread(retriever: Retriever) -> Callable[[], _TimedCandidates | None]:
        def run() -> _TimedCandidates | None:
            with store.snapshot():
                return _run(retriever, request) if _versions(store) == versions else None

        return run

    return {each.name: parallel.pool.submit(each.name, in_thread(each)) for each in retrievers}


def _versions(store: Store) -> tuple[str, str]:
    return store.catalog.version(), store.vectors.version()


def _run(retriever: Retriever, request: RetrievalRequest) -> _TimedCandidates:
    began = time.perf_counter()
    candidates = retriever.search(request)
    return _TimedCandidates(candidates, _ms_since(began))


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _facts(candidates: Candidates) -> dict[str, Any]:
    facts: dict[str, Any] = {"found": len(candidates.ranked)}
    if candidates.backend is not None:
        facts |= {"backend": candidates.backend, "model": candidates.model}
        return facts | {"encoding_ms": round(candidates.encoding_ms, 3)}
    if not candidates.ran:
        reasons = (f"{one.reason} ({one.detail})" for one in candidates.degraded)
        return {"failed": "; ".join(reasons)}
    return facts | {
        "tiers": list(candidates.tiers),
        "too_common": list(candidates.dropped_terms),
    }
