"""The retrieve stage: every retriever of a pipeline asked, side by side where that is faster.

All answers are of one state of the store. A thread has a connection of its own, which may open a
moment later than the search began; an answer from there counts only if the versions of the indexes
are those of the search. If not, the retriever is asked again in the search's own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import StoreError, StoreMissing
from kb.ports import Store
from kb.search.analyse import Analysis
from kb.search.found import Found, Retriever
from kb.search.trace import Trace
from kb.types import Degraded, Filters

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


class Asked(NamedTuple):
    """What every retriever is asked."""

    analysis: Analysis
    filters: Filters
    now: str
    limit: int


def retrieve(
    retrievers: Sequence[Retriever],
    asked: Asked,
    trace: Trace,
    *,
    store: Store,
    threads: Executor | None = None,
) -> dict[str, Found]:
    """What each retriever found, by its name. One that fails leaves the others; if none is left,
    its error is raised. With `threads`, all but the first run there."""
    first, others = retrievers[0], retrievers[1:]
    waiting = _started(others, asked, trace, store, threads)
    found: dict[str, Found] = {}
    failure: StoreError | None = None
    try:
        found[first.name] = _ask(first, asked, trace)
    except StoreMissing:
        raise
    except StoreError as error:
        failure = error
    for retriever in others:
        answer = waiting[retriever.name].result() if waiting else None
        found[retriever.name] = answer or _ask(retriever, asked, trace)
    if failure is not None:
        if not any(each.ran for each in found.values()):
            raise failure
        note = Degraded(first.name, "failed", failure.message)
        found = {first.name: Found(ran=False, degraded=(note,))} | found
    return found


def _started(
    retrievers: Sequence[Retriever],
    asked: Asked,
    trace: Trace,
    store: Store,
    threads: Executor | None,
) -> dict[str, Future[Found | None]]:
    if threads is None:
        return {}
    state = _state(store)

    def elsewhere(retriever: Retriever) -> Found | None:
        with store.reading():
            if _state(store) != state:
                return None
            return _ask(retriever, asked, trace)

    return {each.name: threads.submit(elsewhere, each) for each in retrievers}


def _state(store: Store) -> tuple[str, str]:
    return store.index_version(), store.vector_version()


def _ask(retriever: Retriever, asked: Asked, trace: Trace) -> Found:
    with trace.stage(retriever.name) as facts:
        found = retriever.search(*asked)
        facts.update(_facts(found))
    return found


def _facts(found: Found) -> dict[str, Any]:
    facts: dict[str, Any] = {"found": len(found.ranked)}
    if found.backend is not None:
        return facts | {"backend": found.backend, "model": found.model}
    if not found.ran:
        return {"failed": "; ".join(f"{one.reason} ({one.detail})" for one in found.degraded)}
    return facts | {"tiers": list(found.tiers), "too_common": list(found.dropped)}
