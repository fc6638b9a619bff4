"""Comparison: one query, run with six methods [002 R8].

Work that all methods share is done first and counts for none: loading the model, encoding the query
and warming the caches. Then the methods run one after the other on one state of the store, so that
none slows down another. A method that cannot run reports why; the others still run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from kb import deadline
from kb.errors import KbError, SnapshotLost, check_integer
from kb.search.searcher import Searcher
from kb.snapshots import repeat_if_lost
from kb.types import (
    COMPARED,
    Compared,
    Comparison,
    Degraded,
    Filters,
    Overlap,
    Response,
    SearchRequest,
)

if TYPE_CHECKING:
    from kb.ports import Store

PROFILE = "research"
DEFAULT_TOP = 10

_FUSED: Mapping[str, Any] = {"rerank": False}
# The arguments of each method's request, in addition to the common ones.
METHODS: Mapping[str, Mapping[str, Any]] = {
    "fts5_only": {"mode": "lexical", **_FUSED},
    "dense_only": {"mode": "vector", **_FUSED},
    "sparse_only": {"mode": "sparse", **_FUSED},
    "two_way_hybrid": {
        "settings": {"retrievers": "lexical,dense", "fusion": "rrf", "adaptive": False}, **_FUSED
    },
    "three_way_hybrid": _FUSED,
    "three_way_reranked": {"rerank": True},
}  # fmt: skip

# Without this part, a method would return the results of another one.
_OWN_PART = {
    "fts5_only": "lexical",
    "dense_only": "dense",
    "sparse_only": "sparse",
    "three_way_reranked": "rerank",
}


@repeat_if_lost
def compare(
    searcher: Searcher,
    store: Store,
    query: str,
    *,
    top: int | None = None,
    filters: Filters | None = None,
) -> Comparison:
    """Run the query with every method, and return the best `top` hits of each."""
    count = check_integer("top", DEFAULT_TOP if top is None else top, least=1)
    began = time.perf_counter()
    with searcher.deadline(), store.snapshot():
        _prepare(searcher, query, filters)
        shared_ms = _ms_since(began)
        request = SearchRequest(query, top=count, profile=PROFILE, filters=filters, explain=True)
        methods = {
            name: _method(searcher, name, replace(request, **METHODS[name]),
                          share=1 / (len(COMPARED) - done))
            for done, name in enumerate(COMPARED)
        }  # fmt: skip
    return Comparison(
        query=query,
        top=count,
        methods=methods,
        overlap=overlaps(methods),
        shared_ms=shared_ms,
        wall_ms=_ms_since(began),
    )


def _prepare(searcher: Searcher, query: str, filters: Filters | None) -> None:
    """Run a minimal search with all parts. An error of the query or the store concerns all methods,
    and is raised here."""
    searcher.load()  # this search may not need the model
    few = {"candidates": 1, "rerank_candidates": 1}
    searcher.search(
        SearchRequest(query, top=1, profile=PROFILE, filters=filters, rerank=True, settings=few)
    )


def _method(searcher: Searcher, name: str, request: SearchRequest, *, share: float) -> Compared:
    """Run one method within its `share` of the remaining time."""
    began = time.perf_counter()
    try:
        with deadline.share(share):
            response = searcher.search(request)
    except SnapshotLost:
        raise
    except KbError as error:
        deadline.check()  # of the comparison: if it is over, no method has time left
        return Compared(error=error.to_dict())
    latency_ms = _ms_since(began)
    required = _OWN_PART.get(name)
    if required is not None and not _ran(required, response):
        for part in response.degraded:
            if part.part == required and part.reason != "truncated":
                return Compared(error=_as_error(part))
    return Compared(response.hits, latency_ms, response.degraded)


def _ran(part: str, response: Response) -> bool:
    """Whether the part ran, even if it found nothing."""
    if part == "rerank":
        return any(hit.retrieval.rerank_score is not None for hit in response.hits)
    stages = [] if response.explain is None else response.explain["stages"]
    return not any(stage["stage"] == part and "failed" in stage for stage in stages)


def _as_error(part: Degraded) -> dict[str, str]:
    """The error of a method whose required part did not run."""
    message = part.reason.replace("_", " ") if part.detail is None else str(part.detail)
    if part.reason == "pending":
        count = "1 passage has" if part.detail == 1 else f"{part.detail} passages have"
        kind = "token" if part.part == "rerank" else part.part
        message = f"{count} no {kind} vectors yet"
    hint = "to create them, run: kb embed" if part.reason == "pending" else ""
    return {"code": part.reason, "message": message, "hint": hint}


def overlaps(methods: Mapping[str, Compared]) -> tuple[Overlap, ...]:
    """The overlap of every pair of methods that ran, in order."""
    ids = {
        name: {hit.chunk_id for hit in each.hits}
        for name, each in methods.items()
        if each.error is None
    }
    return tuple(
        _overlap(first, second, ids[first], ids[second]) for first, second in combinations(ids, 2)
    )


def _overlap(first: str, second: str, one: set[int], other: set[int]) -> Overlap:
    shared, either = len(one & other), len(one | other)
    return Overlap(first, second, shared, shared / either if either else 0.0)


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
