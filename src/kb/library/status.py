"""A store as a whole: `status.v1`, which says what it holds, where it is and in which state; and
what an ingest tells of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kb.errors import KbError, StoreMissing
from kb.ingest.plan import is_missing
from kb.ports import Store
from kb.search.retrievers.availability import ActiveModel, EncoderSource
from kb.types import IngestReport, JsonDict


def status(
    store: Store, source: EncoderSource, versions: Callable[[], dict[str, str]], now: str
) -> JsonDict:
    """`source` gives the encoder, after a look at its files; `versions` those of the indexes."""
    if not store.exists():
        raise StoreMissing(
            f"there is no store at {store.location}", "create one with: kb ingest FOLDER"
        )
    with store.snapshot():
        counts = store.catalog.counts()
        vectors = ActiveModel(store, source).status("dense")
        return {
            "schema_version": "status.v1",
            "store": store.location,
            "size_bytes": store.maintenance.size_bytes(),
            "documents": counts.documents,
            "chunks": counts.chunks,
            "expired": len(store.catalog.expired(now)),
            "by_type": counts.by_type,
            "by_kind": counts.by_kind,
            "by_scope": counts.by_scope,
            "tags": store.catalog.tags(),
            "roots": _roots(store, counts.by_root),
            "index_version": versions(),
            "vectors": {
                "state": vectors.state,
                "encoder": vectors.encoder,
                "pending": vectors.pending,
                "models": store.vectors.model_counts(),
            },
            "degraded": [asdict(part) for part in vectors.degraded],
        }


def _roots(store: Store, documents: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": root.name,
            "path": os.fsencode(root.path).decode("utf-8", "backslashreplace"),
            "documents": documents.get(root.name, 0),
            "missing": not root.detached and is_missing(root),
            "detached": root.detached,
        }
        for root in store.catalog.roots()
    ]


def notes_on(store: Store, encoder: EncoderSource, report: IngestReport) -> tuple[str, ...]:
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
    told = suggestion(store.catalog.languages(), used.spec, installed=models.has_multilingual())
    return (told,) if told else ()
