"""The state of a store as `status.v1`: its contents, its vectors and its folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kb.errors import StoreMissing
from kb.ingest.plan import is_missing
from kb.ports import Encoder, Store
from kb.search.retrievers.availability import ActiveModel, EncoderSource
from kb.snapshots import repeat_if_lost
from kb.types import JsonDict


@repeat_if_lost
def status(
    store: Store, source: EncoderSource, versions: Callable[[], dict[str, str]], now: str
) -> JsonDict:
    """Describe the store. `source` returns the encoder, whose files are checked; `versions` returns
    the versions of the indexes, and `now` decides which documents have expired."""
    if not store.exists():
        raise StoreMissing(
            f"there is no store at {store.location}", "create one with: kb ingest FOLDER"
        )
    with store.snapshot():
        counts = store.catalog.counts()
        vectors = ActiveModel(store, lambda: checked_encoder(source)).status("dense")
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
            "degraded": [asdict(part) for part in (*vectors.degraded, *store.degraded())],
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


def checked_encoder(source: EncoderSource) -> Encoder | None:
    """The encoder, after a check of its files. Raises `ModelError`."""
    from kb.ports import traits_of

    encoder = source()
    if encoder is not None:
        traits_of(encoder).check()
    return encoder
