"""Compare: one query by six methods, side by side [002 R8].

What all of them need is done once before and counts for none: the model is loaded, the query
encoded, what is kept of the indexes is read. Then one method after the other, so that none takes
another's time; all in one state of the store. A method that cannot answer says why, and leaves the
others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from kb import deadline
from kb.errors import KbError, check_integer
from kb.search.searcher import Searcher
from kb.types import COMPARED, Compared, Comparison, Degraded, Filters, Overlap, Response

if TYPE_CHECKING:
    from kb.ports import Store

PROFILE = "research"
DEFAULT_TOP = 10

_FUSED: Mapping[str, Any] = {"rerank": False}
# What each method asks the profile for.
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

# Without this part a method is not what its name says, and what is left is another's answer.
_OWN_PART = {
    "fts5_only": "lexical",
    "dense_only": "dense",
    "sparse_only": "sparse",
    "three_way_reranked": "rerank",
}


def compare(
    searcher: Searcher,
    store: Store,
    query: str,
    *,
    top: int | None = None,
    filters: Filters | None = None,
) -> Comparison:
    """The best `top` hits of every method."""
    count = check_integer("top", DEFAULT_TOP if top is None else top, least=1)
    began = time.perf_counter()
    with searcher.deadline(), store.reading():
        _prepare(searcher, query, filters)
        shared_ms = _ms_since(began)
        methods = {
            name: _method(searcher, query, name, 1 / (len(COMPARED) - done), top=count,
                          filters=filters)
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
    """A search that asks for as little as there is, of every part. What is wrong with the query or
    the store is wrong for all methods, and an error of the whole."""
    searcher.load()  # which a query that is not encoded would leave to the first that is
    few = {"candidates": 1, "rerank_candidates": 1}
    searcher.search(query, profile=PROFILE, top=1, filters=filters, settings=few, rerank=True)


def _method(searcher: Searcher, query: str, name: str, share: float, **asked: Any) -> Compared:
    """What one method finds, in its `share` of the time that is left."""
    began = time.perf_counter()
    try:
        with deadline.share(share):
            found = searcher.search(query, profile=PROFILE, explain=True, **asked, **METHODS[name])
    except KbError as error:
        deadline.check()  # of the whole: then the others have no time either
        return Compared(error=error.to_dict())
    latency_ms = _ms_since(began)
    own = _OWN_PART.get(name)
    if own is not None and not _ran(own, found):
        for part in found.degraded:
            if part.part == own and part.reason != "truncated":
                return Compared(error=_as_error(part))
    return Compared(found.hits, latency_ms, found.degraded)


def _ran(part: str, found: Response) -> bool:
    """Whether it did its work, even if there was little to work on, or nothing to find."""
    if part == "rerank":
        return any(hit.retrieval.rerank_score is not None for hit in found.hits)
    stages = [] if found.explain is None else found.explain["stages"]
    return not any(stage["stage"] == part and "failed" in stage for stage in stages)


def _as_error(part: Degraded) -> dict[str, str]:
    """Of a method whose own part could not do its work."""
    told = part.reason.replace("_", " ") if part.detail is None else str(part.detail)
    if part.reason == "pending":
        count = "1 passage has" if part.detail == 1 else f"{part.detail} passages have"
        kind = "token" if part.part == "rerank" else part.part
        told = f"{count} no {kind} vectors yet"
    hint = "kb embed makes them" if part.reason == "pending" else ""
    return {"code": part.reason, "message": told, "hint": hint}


def overlaps(methods: Mapping[str, Compared]) -> tuple[Overlap, ...]:
    """Every two methods that answered, in the order they stand."""
    found = {
        name: {hit.chunk_id for hit in each.hits}
        for name, each in methods.items()
        if each.error is None
    }
    return tuple(
        _overlap(first, second, found[first], found[second])
        for first, second in combinations(found, 2)
    )


def _overlap(first: str, second: str, one: set[int], other: set[int]) -> Overlap:
    shared, either = len(one & other), len(one | other)
    return Overlap(first, second, shared, shared / either if either else 0.0)


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
