"""Checks of vectors, of the indexes over them, and of what is still to be embedded."""

from __future__ import annotations

from kb.doctor import in_store
from kb.store import SqliteStore
from kb.types import Finding

_MEND = "kb doctor --fix"
_UNKNOWN = "unknown"


def rows(store: SqliteStore) -> Finding:
    looked_at, wrong = store.health.vectors.damaged(in_store.SAMPLED_CHUNKS)
    if not wrong:
        return Finding("embeddings", "ok", f"{looked_at} vectors of length 1")
    what = f"{wrong} of {looked_at} vectors are damaged"
    return Finding("embeddings", "error", what, f"{_MEND}, then kb embed")


def table(store: SqliteStore) -> Finding:
    health = store.health.vectors
    if not health.has_table():
        return Finding("chunks_vec", "ok", "there is none: sqlite-vec was not asked for")
    return _index("chunks_vec", health.table_fault(), "sqlite-vec cannot be loaded")


def file(store: SqliteStore) -> Finding:
    health = store.health.vectors
    if not health.has_file():
        return Finding("vectors", "ok", "no file beside the store yet")
    return _index("vectors", health.file_fault(), "numpy is missing")


def pending(store: SqliteStore) -> Finding:
    for model in store.health.vectors.counts()[:1]:
        what = f"{model['ready']} chunks have vectors, {model['pending']} wait for them"
        if model["failed"]:
            what += f", {model['failed']} have failed: {model['last_error']}"
        waiting = model["pending"] or model["failed"]
        return Finding("pending", "warning" if waiting else "ok", what,
                       "kb embed" if waiting else "")  # fmt: skip
    return Finding("pending", "ok", "no model has been used yet")


def _index(part: str, fault: str | None, blind: str) -> Finding:
    if fault is None:
        return Finding(part, "ok", "agrees with the vectors")
    if fault == _UNKNOWN:
        return Finding(part, "warning", f"not compared with the vectors: {blind}", "install it")
    return Finding(part, "error", f"differs from the vectors: {fault}", _MEND)
