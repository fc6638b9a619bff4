"""Documents, models and vectors for the conformance suite."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from kb.ports import Store
from kb.types import (
    Attributes,
    ChunkDraft,
    DocumentDraft,
    EmbedCounts,
    Encoding,
    Filters,
    ModelSpec,
    Outcome,
    Span,
    TokenVectors,
)

NOW = "2026-05-28T20:26:40Z"  # the time of the tests' clock
EVERYTHING: dict[str, Any] = {"filters": Filters(), "now": NOW, "limit": 10}
PARTS = frozenset({"sparse", "tokens"})
SPEC = ModelSpec("tiny", "1", 3, PARTS | {"dense"}, token_dimension=2)
OTHER = ModelSpec("other", "1", 2, frozenset({"dense"}))
TOKENS = TokenVectors(2, array("f", [0.6, 0.8]))


def draft(path: str, **fields: Any) -> DocumentDraft:
    """A document draft. Keyword arguments that are not fields of a draft become attributes."""
    names = DocumentDraft.__dataclass_fields__
    attributes = {name: fields.pop(name) for name in set(fields) - set(names)}
    values: dict[str, Any] = {
        "root_id": None,
        "path": path,
        "doc_path": path,
        "title": path,
        "type": "note",
        "attributes": Attributes(**attributes),
        "content_hash": "-",
        "chunker_version": "test-1",
        "size_bytes": 1,
        "mtime_ns": 1,
    }
    return DocumentDraft(**(values | fields))


def chunks(*texts: str) -> list[ChunkDraft]:
    return [
        ChunkDraft(text, (), None, (Span("line", line, line),))
        for line, text in enumerate(texts, start=1)
    ]


def put(store: Store, path: str, *texts: str, **fields: Any) -> int:
    """Write a document with one chunk for each text; returns its id."""
    return store.catalog.write_document(draft(path, **fields), chunks(*texts)).doc_id


def chunk_ids(store: Store, doc_id: int) -> list[int]:
    return [chunk.chunk_id for chunk in store.catalog.chunks(doc_id)]


def encoding(*dense: float, **parts: Any) -> Encoding:
    return Encoding(dense=array("f", dense), **parts)


def outcome(chunk_id: int, *dense: float, error: str | None = None, **parts: Any) -> Outcome:
    """Vectors with all parts, unless `parts` leave some out."""
    given: dict[str, Any] = {"sparse": {"a": 1.0}, "tokens": TOKENS} | parts
    return Outcome(chunk_id, encoding(*dense or (1, 0, 0), **given), error, PARTS | {"dense"})


def failure(chunk_id: int, error: str = "too long") -> Outcome:
    return Outcome(chunk_id, None, error, PARTS | {"dense"})


def finish(store: Store, model_id: int, outcomes: Iterable[Outcome]) -> EmbedCounts:
    """Write outcomes by a job that exists for this call only."""
    job_id = store.queue.start_job(model_id)
    try:
        return store.queue.finish(job_id, model_id, list(outcomes))
    finally:
        store.queue.end_job(job_id)


def embed(store: Store, spec: ModelSpec = SPEC) -> int:
    """Write a vector for every chunk, and return the id of the model."""
    model_id = store.vectors.use_model(spec).model_id
    job_id = store.queue.start_job(model_id)
    leased = store.queue.lease(job_id, model_id, limit=1000)
    dense = (1.0, *(0.0 for _ in range(spec.dimension - 1)))
    store.queue.finish(job_id, model_id, [outcome(one.chunk_id, *dense) for one in leased])
    store.queue.end_job(job_id)
    return model_id
