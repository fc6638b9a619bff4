"""The examination: every check in its order, and what to do with its answer.

Each check looks at one part and answers with one finding. With `fix`, a part that is not well is
mended, where a check knows how, and looked at again. No check stops the others; a file so damaged
that it cannot be opened is a finding too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from kb import __version__
from kb.config import IngestConfig
from kb.doctor import in_files, in_store, in_vectors
from kb.errors import KbError, StoreMissing, StoreReadOnly, StoreTooNew, StoreUnusable
from kb.search.standing import EncoderSource, no_encoder
from kb.store import SqliteStore
from kb.store.shape import INDEXES
from kb.types import Diagnosis, Finding

_RESTORE = "restore a backup, or remove the store and ingest again"


@dataclass(frozen=True, slots=True)
class Check:
    part: str
    look: Callable[[], Finding]
    mend: Callable[[], str | None] | None = None  # what is left to do then, if anything


def examine(
    store: SqliteStore,
    now: str,
    source: EncoderSource = no_encoder,
    ingest: IngestConfig | None = None,
    *,
    fix: bool = False,
) -> Diagnosis:
    """Look at every part of the store; `now` decides what has expired, `source` gives the encoder,
    after a look at its files, and `ingest` says which files may be read."""
    opened = _opened(store)
    findings = [opened]
    if opened.state != "error":
        checks = _checks(store, now, source, ingest or IngestConfig())
        findings += [_examined(check, fix) for check in checks]
    return Diagnosis(str(store.path), tuple(findings))


def _opened(store: SqliteStore) -> Finding:
    if not store.exists():
        raise StoreMissing(f"there is no store at {store.path}", "make one with: kb ingest FOLDER")
    try:
        versions = {"kb": __version__} | store.health.versions()
    except (StoreUnusable, StoreTooNew) as error:
        return Finding("file", "error", error.message, error.hint)
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    return Finding("file", "ok", f"opens; {said}")


def _examined(check: Check, fix: bool) -> Finding:
    found = _looked(check)
    if not fix or found.state == "ok" or check.mend is None:
        return found
    try:
        left = check.mend() or ""
    except StoreReadOnly:
        raise
    except KbError as error:
        return replace(found, to_do=f"it could not be mended: {error.message}; {_RESTORE}")
    # As below: the repairs of other parts can still be made.
    except Exception as error:  # noqa: BLE001
        return replace(found, to_do=f"it could not be mended: {error}; {_RESTORE}")
    again = _looked(check)
    return replace(found, to_do=left, fixed=True) if again.state == "ok" else again


def _looked(check: Check) -> Finding:
    try:
        return check.look()
    except KbError as error:
        return Finding(check.part, "error", error.message, error.hint)
    # What a damaged page may hold cannot be foreseen, and the other checks still tell something.
    except Exception as error:  # noqa: BLE001
        return Finding(check.part, "error", f"cannot be read: {error}", _RESTORE)


def _checks(
    store: SqliteStore, now: str, source: EncoderSource, ingest: IngestConfig
) -> Iterator[Check]:
    """In an order in which no repair spoils what another has made: indexes come last."""
    health = store.health
    yield Check("sqlite", partial(in_store.sqlite, store), partial(in_store.mend_file, store))
    yield Check("schema", partial(in_store.schema, store), health.add_missing_parts)
    yield Check("cells", partial(in_store.cells, store), partial(in_store.repair, store))
    yield Check("journal", partial(in_store.journal, store), health.use_log)
    yield Check("log", partial(in_store.log, store), health.fold_log)
    yield Check("orphans", partial(in_store.orphans, store), health.delete_orphans)
    yield Check("counters", partial(in_store.counters, store), health.recount)
    yield Check("columns", partial(in_store.columns, store), health.refill)
    yield Check("text", partial(in_store.text, store))
    for table in INDEXES:
        yield Check(table, partial(in_store.index, store, table), partial(health.rebuild, table))
    yield Check("embeddings", partial(in_vectors.rows, store), health.vectors.drop_damaged)
    yield Check("postings", partial(in_vectors.postings, store), health.vectors.rebuild_postings)
    yield Check("chunks_vec", partial(in_vectors.table, store), health.vectors.rebuild_table)
    yield Check("vectors", partial(in_vectors.file, store), health.vectors.rewrite_file)
    yield Check("pending", partial(in_vectors.pending, store))
    yield Check("model", partial(in_vectors.model, store, source))
    yield Check("files", partial(in_files.files, store, ingest))
    yield Check("roots", partial(in_files.roots, store))
    yield Check("expired", partial(in_files.expired, store, now))
    yield Check("disk", partial(in_store.disk, store))
