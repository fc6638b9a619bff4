"""Checks of vectors, of the indexes over them, and of what is still to be embedded."""

from __future__ import annotations

from kb.errors import KbError, ModelBroken
from kb.library.doctor import store_checks
from kb.search.retrievers.availability import EncoderSource
from kb.store import SqliteStore
from kb.types import Finding

_MEND = "kb doctor --fix"
_UNKNOWN = "unknown"


def rows(store: SqliteStore) -> Finding:
    looked_at, wrong = store.health.vectors.damaged(store_checks.SAMPLED_CHUNKS)
    if not wrong:
        what = f"{looked_at} {'vector' if looked_at == 1 else 'vectors'} of length 1"
        return Finding("embeddings", "ok", what)
    what = f"{wrong} of {looked_at} vectors are damaged"
    return Finding("embeddings", "error", what, f"{_MEND}, then kb embed")


def postings(store: SqliteStore) -> Finding:
    return _index("postings", store.health.vectors.postings_fault(), "")


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
        ready, waiting, failed = model["ready"], model["pending"], model["failed"]
        have = "1 chunk has" if ready == 1 else f"{ready} chunks have"
        parts = f"(sparse {model['sparse']}, tokens {model['tokens']})"
        what = f"{have} vectors {parts}, {waiting} {'waits' if waiting == 1 else 'wait'} for them"
        if failed:
            has = "has" if failed == 1 else "have"
            what += f", {failed} {has} failed for good: {model['last_error']}"
        to_do = "kb embed --retry" if failed else "kb embed" if waiting else ""
        return Finding("pending", "warning" if to_do else "ok", what, to_do)
    return Finding("pending", "ok", "no model has been used yet")


def model(store: SqliteStore, source: EncoderSource) -> Finding:
    """Whether there is a model to ask the vectors with. Words answer without one: where there are
    no vectors, a model that is missing is no fault of the store."""
    stored = next((one for one in store.models() if one.ready), None)
    try:
        encoder = source()
    except KbError as error:
        grave = stored is not None or isinstance(error, ModelBroken)
        return Finding("model", "error" if grave else "warning", error.message, error.hint)
    if encoder is None:
        return Finding("model", "ok", "switched off: words answer")
    spec = encoder.spec
    if stored is None or (stored.name, stored.version) == (spec.name, spec.version):
        return Finding("model", "ok", f"{spec.name} {spec.version}")
    what = f"the vectors are of {stored.name} {stored.version}, not of {spec.name} {spec.version}"
    return Finding("model", "warning", f"{what}: words answer", "kb embed --anew")


def _index(part: str, fault: str | None, blind: str) -> Finding:
    if fault is None:
        return Finding(part, "ok", "agrees with the vectors")
    if fault == _UNKNOWN:
        return Finding(part, "warning", f"not compared with the vectors: {blind}", "install it")
    return Finding(part, "error", f"differs from the vectors: {fault}", _MEND)
