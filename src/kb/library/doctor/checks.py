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
from kb.errors import KbError, StoreMissing, StoreReadOnly, StoreTooNew, StoreUnusable
from kb.library.doctor import file_checks, store_checks, vector_checks
from kb.search.retrievers.availability import EncoderSource, no_encoder
from kb.store import SqliteStore
from kb.store.sqlite.schema_check import INDEXES
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
    yield Check(
        "sqlite", partial(store_checks.sqlite, store), partial(store_checks.mend_file, store)
    )
    yield Check("schema", partial(store_checks.schema, store), health.add_missing_parts)
    yield Check("cells", partial(store_checks.cells, store), partial(store_checks.repair, store))
    yield Check("journal", partial(store_checks.journal, store), health.use_log)
    yield Check("log", partial(store_checks.log, store), health.fold_log)
    yield Check("orphans", partial(store_checks.orphans, store), health.delete_orphans)
    yield Check("counters", partial(store_checks.counters, store), health.recount)
    yield Check("columns", partial(store_checks.columns, store), health.refill)
    yield Check("text", partial(store_checks.text, store))
    for table in INDEXES:
        yield Check(
            table, partial(store_checks.index, store, table), partial(health.rebuild, table)
        )
    yield Check("embeddings", partial(vector_checks.rows, store), health.vectors.drop_damaged)
    yield Check("postings", partial(vector_checks.postings, store), health.vectors.rebuild_postings)
    yield Check("chunks_vec", partial(vector_checks.table, store), health.vectors.rebuild_table)
    yield Check("vectors", partial(vector_checks.file, store), health.vectors.rewrite_file)
    yield Check("pending", partial(vector_checks.pending, store))
    yield Check("model", partial(vector_checks.model, store, source))
    yield Check("files", partial(file_checks.files, store, ingest))
    yield Check("roots", partial(file_checks.roots, store))
    yield Check("expired", partial(file_checks.expired, store, now))
    yield Check("disk", partial(store_checks.disk, store))
