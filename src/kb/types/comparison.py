"""The results of running one query with several search methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.types.search import Degraded, Hit

# The methods that a comparison runs, in the order of its columns [002 R8].
COMPARED = (
    "fts5_only", "dense_only", "sparse_only",
    "two_way_hybrid", "three_way_hybrid", "three_way_reranked",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """The hits of one method and its latency, or its error in the shape of `error.v1`."""

    hits: tuple[Hit, ...] = ()
    latency_ms: float = 0.0
    degraded: tuple[Degraded, ...] = ()
    error: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many hits two methods share. `jaccard` is that number divided by the number of all hits
    of the two methods."""

    first: str
    second: str
    shared: int
    jaccard: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query, run with every method of `COMPARED`. `shared_ms` is the time of work that is done
    once, before the methods run, and counts for none of them: loading the model, encoding the
    query, reading indexes."""

    query: str
    top: int
    methods: Mapping[str, Compared]
    overlap: tuple[Overlap, ...]
    shared_ms: float
    wall_ms: float

    def sharing(self, chunk_id: int) -> int:
        """How many methods returned this chunk."""
        lists = (method.hits for method in self.methods.values())
        return sum(any(hit.chunk_id == chunk_id for hit in hits) for hits in lists)
