"""A store as a whole: `status.v1`, which says what it holds, where it is and in which state; and
what an ingest tells of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kb.errors import KbError, StoreMissing
from kb.ingest.plan import is_missing
from kb.search.retrievers.availability import ActiveModel, EncoderSource
from kb.store import SqliteStore
from kb.types import IngestReport, JsonDict


def status(
    store: SqliteStore, source: EncoderSource, versions: Callable[[], dict[str, str]], now: str
) -> JsonDict:
    """`source` gives the encoder, after a look at its files; `versions` those of the indexes."""
    if not store.exists():
        raise StoreMissing(f"there is no store at {store.path}", "make one with: kb ingest FOLDER")
    with store.reading():
        counts = store.counts()
        vectors = ActiveModel(store, source).status("dense")
        return {
            "schema_version": "status.v1",
            "store": str(store.path),
            "size_bytes": store.path.stat().st_size,
            "documents": counts["documents"],
            "chunks": counts["chunks"],
            "expired": len(store.expired(now)),
            "by_type": counts["type"],
            "by_kind": counts["kind"],
            "by_scope": counts["scope"],
            "tags": store.tags(),
            "roots": _roots(store, counts["per_root"]),
            "index_version": versions(),
            "vectors": {
                "state": vectors.state,
                "encoder": vectors.encoder,
                "pending": vectors.pending,
                "models": counts["models"],
            },
            "degraded": [asdict(part) for part in vectors.degraded],
        }


def _roots(store: SqliteStore, documents: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": root.name,
            "path": os.fsencode(root.path).decode("utf-8", "backslashreplace"),
            "documents": documents.get(root.name, 0),
            "missing": not root.detached and is_missing(root),
            "detached": root.detached,
        }
        for root in store.roots()
    ]


def notes_on(store: SqliteStore, encoder: EncoderSource, report: IngestReport) -> tuple[str, ...]:
    """What to tell of the store as a whole, after an ingest has changed it."""
    from kb import models
    from kb.embedding.language_coverage import suggestion

    if report.dry_run or not (report.added or report.changed):
        return ()
    try:
        used = encoder()
    except KbError:  # a model that cannot be used is told elsewhere
        return ()
    if used is None:
        return ()
    told = suggestion(store.languages(), used.spec, installed=models.has_multilingual())
    return (told,) if told else ()
