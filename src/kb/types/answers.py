"""What questions other than a search are answered with: a comparison, a passage opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.types.documents import Document
from kb.types.places import Citation
from kb.types.search import Degraded, Hit

# The methods that a comparison sets side by side [002 R8].
COMPARED = (
    "fts5_only", "dense_only", "sparse_only",
    "two_way_hybrid", "three_way_hybrid", "three_way_reranked",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """What one method found, in which time; or the error (as `error.v1`) that kept it from it."""

    hits: tuple[Hit, ...] = ()
    latency_ms: float = 0.0
    degraded: tuple[Degraded, ...] = ()
    error: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many hits two methods share; `jaccard` is their part of all that either found."""

    first: str
    second: str
    shared: int
    jaccard: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query by every method of `COMPARED`. `shared_ms` is what was done once before and counts
    for none of them: a model loaded, the query encoded, indexes read."""

    query: str
    top: int
    methods: Mapping[str, Compared]
    overlap: tuple[Overlap, ...]
    shared_ms: float
    wall_ms: float

    def sharing(self, chunk_id: int) -> int:
        """How many methods found this chunk."""
        found = (method.hits for method in self.methods.values())
        return sum(any(hit.chunk_id == chunk_id for hit in hits) for hits in found)


@dataclass(frozen=True, slots=True)
class Passage:
    """What a citation opens: the text there now, and whether it is still what was indexed.

    `state` is `exact`, `moved` (the indexed text stands elsewhere in the file, and `citation` says
    where) or `stale` (it is gone; `text` is what was indexed). A whole document is `stale` when its
    file has changed; `text` is then what the file says now, or, if it is gone, what was indexed.
    """

    document: Document
    citation: Citation
    text: str
    state: str
    reason: str | None = None  # why the file itself was not read
