"""Repairs cells with values that kb cannot have written (see `column_checks`).

Derived values are recomputed. Values that another column or a file still has are taken from there,
or marked so that the next `kb ingest` reads the file again. Anything else is lost: it is reported,
and replaced with a neutral value, so that the rest can be used. The indexes have to be compared
with the text afterwards, which `kb doctor` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from kb.store.sqlite import column_checks, documents, segments, vector_integrity, vector_pieces
from kb.store.sqlite.column_checks import Fault
from kb.store.sqlite.functions import scalar

_NEVER = "1970-01-01T00:00:00Z"
# Replacements for values of documents that cannot be restored.
_NEUTRAL: dict[str, Any] = {
    "kind": None, "scope": "global", "lang": None, "trust": "primary", "expires_at": None,
    "date": _NEVER, "created_at": _NEVER, "updated_at": _NEVER, "indexed_at": _NEVER,
    "indexed_ns": 0, "access_count": 0, "content_hash": "", "chunker_version": "", "size_bytes": 0,
    "mtime_ns": 0, "ctime_ns": 0, "device": None, "os_path": None, "metadata": "{}", "body": None,
}  # fmt: skip
_VITAL = ("name", "version", "dimension")  # a model without these is unusable
_DERIVED = ("sparse_terms", "sparse_segments", "sparse_postings", "sparse_chunks", "sparse_gone",
            "sparse_pending")  # fmt: skip


class Repair(NamedTuple):
    """What is left to do after a repair: `notes` that must be chunked again, whether files must be
    read again, and descriptions of what is `lost`."""

    notes: list[int]
    read_again: bool
    lost: list[str]


def repair(connection: apsw.Connection) -> Repair:
    """Give every cell a readable value, in the caller's transaction."""
    faults: dict[str, list[Fault]] = defaultdict(list)
    for fault in column_checks.faults(connection):
        faults[fault.table].append(fault)
    with without_triggers(connection):
        return _repair(connection, faults)


@contextmanager
def without_triggers(connection: apsw.Connection) -> Iterator[None]:
    """Disable triggers, which would remove index entries that were never added."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        yield
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


def _repair(connection: apsw.Connection, faults: dict[str, list[Fault]]) -> Repair:
    work = Repair([], False, [])
    _state(connection, faults["state"])
    _sequences(connection, faults["sqlite_sequence"])
    _models(connection, faults["models"])
    _delete(connection, "jobs", "job_id", faults["jobs"])
    _delete(connection, "embeddings", "embedding_id", faults["embeddings"])
    _delete(connection, "vector_pieces", "piece", faults["vector_pieces"])
    lost = _roots(connection, faults["roots"])
    lost += _documents(connection, faults["documents"])
    notes, ownerless = _chunks(connection, faults["chunks"])
    lost += _tags(connection, faults["document_tags"])
    _delete(connection, "removed_documents", "removed_id", faults["removed_documents"])
    if count := len({fault.key for fault in faults["removed_documents"]}):
        lost.append(f"the tags of {count} removed {'file' if count == 1 else 'files'}")
    if faults["vector_changes"] or faults["vector_indexes"] or faults["embeddings"]:
        _begin_changes(connection)
    if faults["embeddings"] or faults["models"] or any(faults[table] for table in _DERIVED):
        segments.rebuild(connection)
    if ownerless or faults["document_tags"]:
        _read_again(connection, "root_id IS NOT NULL")
    vector_pieces.delete_unused(connection)
    begin_text_changes(connection)
    vector_integrity.recount(connection)
    documents.count_change(connection)
    files = bool(faults["documents"] or faults["chunks"] or faults["document_tags"])
    return work._replace(notes=notes, read_again=files and _has_files(connection), lost=lost)


def _has_files(connection: apsw.Connection) -> bool:
    return bool(scalar(connection, "SELECT 1 FROM documents WHERE root_id IS NOT NULL LIMIT 1"))


# --- derived values -------------------------------------------------------------------------------


def _state(connection: apsw.Connection, faults: Iterable[Fault]) -> None:
    fresh = {
        "changes": "CAST(strftime('%s', 'now') AS INTEGER)",  # higher than all earlier ones
        "chunks": "0",  # counted below
        "created_at": "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')",
        "store_id": "lower(hex(randomblob(16)))",
    }
    connection.execute("UPDATE OR IGNORE state SET only = 1")
    for fault in faults:
        connection.execute(f"UPDATE state SET {fault.column} = {fresh[fault.column]}")
    connection.execute("UPDATE state SET chunks = (SELECT count(*) FROM chunks)")


def _sequences(connection: apsw.Connection, faults: Iterable[Fault]) -> None:
    """Delete damaged rows; SQLite then continues after the highest existing id."""
    connection.executemany(
        "DELETE FROM sqlite_sequence WHERE rowid = ?", [(fault.key,) for fault in faults]
    )


def _models(connection: apsw.Connection, faults: Iterable[Fault]) -> None:
    for fault in faults:
        if fault.column in _VITAL:
            for table in ("embeddings", "sparse_segments", "models"):
                connection.execute(f"DELETE FROM {table} WHERE model_id = ?", (fault.key,))
        else:
            counted = fault.column in ("ready", "failed", "sparse", "tokens", "keep_old")
            connection.execute(
                f"UPDATE models SET {fault.column} = ? WHERE model_id = ?",
                (0 if counted else None, fault.key),
            )
    if not scalar(connection, "SELECT 1 FROM models WHERE role = 'search'"):
        connection.execute(
            "UPDATE models SET role = 'search' WHERE model_id = (SELECT min(model_id) FROM models)"
        )


def _delete(connection: apsw.Connection, table: str, key: str, faults: Iterable[Fault]) -> None:
    keys = {(fault.key,) for fault in faults}
    connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", keys)


def _begin_changes(connection: apsw.Connection) -> None:
    """Reset the log of changes, so that all indexes over vectors are rebuilt."""
    connection.execute("DELETE FROM vector_changes; DELETE FROM vector_indexes")
    connection.execute(
        "INSERT INTO vector_changes (model_id, chunk_id, stamp) VALUES (0, 0, random())"
    )


def begin_text_changes(connection: apsw.Connection) -> None:
    """Reset the log of changed texts, so that the word index is rebuilt."""
    connection.execute("DELETE FROM text_changes")
    connection.execute("INSERT INTO text_changes (chunk_id, stamp) VALUES (0, random())")


# --- documents and chunks -------------------------------------------------------------------------


def _roots(connection: apsw.Connection, faults: Iterable[Fault]) -> list[str]:
    lost = []
    for fault in sorted(faults, key=lambda one: one.column):  # names before paths
        if fault.column == "name":
            named = scalar(
                connection,
                "SELECT substr(doc_path, 1, length(doc_path) - length(path) - 1) FROM documents "
                "WHERE root_id = ? AND typeof(doc_path) = 'text' AND typeof(path) = 'text' LIMIT 1",
                (fault.key,),
            )
            _set(connection, "roots", fault, named or f"root-{fault.key}")
        elif fault.column == "whole":
            _set(connection, "roots", fault, 1)
        else:
            name = scalar(connection, "SELECT name FROM roots WHERE root_id = ?", (fault.key,))
            _set(connection, "roots", fault, f"unknown/{name}")
            lost.append(f"the folder of {name}/ (kb rm {name}/, then ingest that folder)")
    return lost


def _documents(connection: apsw.Connection, faults: Iterable[Fault]) -> list[str]:
    of_each: dict[int, list[str]] = defaultdict(list)
    for fault in faults:
        of_each[fault.key or 0].append(fault.column)
    lost = []
    for doc_id, columns in of_each.items():
        for column in columns:
            if column in _NEUTRAL:
                connection.execute(
                    f"UPDATE documents SET {column} = ? WHERE doc_id = ?",
                    (_NEUTRAL[column], doc_id),
                )
        _name(connection, doc_id, columns)
        if "body" in columns:
            _body(connection, doc_id)
        _read_again(connection, f"doc_id = {doc_id:d} AND root_id IS NOT NULL")
        row: Any = connection.execute(
            "SELECT doc_path, root_id FROM documents WHERE doc_id = ?", (doc_id,)
        ).fetchone()
        if row[1] is None:
            lost.append(f"{', '.join(columns)} of {row[0]}")
    return lost


def _name(connection: apsw.Connection, doc_id: int, columns: list[str]) -> None:
    """Restore paths, root, title and type from each other."""
    if "root_id" in columns:
        connection.execute(
            "UPDATE documents SET root_id = (SELECT root_id FROM roots r WHERE "
            "substr(doc_path, 1, length(r.name) + 1) = r.name || '/') WHERE doc_id = ?",
            (doc_id,),
        )
    root = "(SELECT name FROM roots r WHERE r.root_id = documents.root_id)"
    for column, value in {
        "path": f"iif('doc_path' IN ({_quote_names(columns)}) OR root_id IS NULL, "
        f"iif(root_id IS NULL, 'note:', 'lost-') || doc_id, substr(doc_path, length({root}) + 2))",
        "doc_path": f"iif(root_id IS NULL, 'note:' || doc_id, {root} || '/' || path)",
        "title": "path",
        "type": "'note'",
    }.items():
        if column in columns:
            connection.execute(
                f"UPDATE OR REPLACE documents SET {column} = coalesce({value}, "
                "'lost-' || doc_id) WHERE doc_id = ?",
                (doc_id,),
            )


def _quote_names(columns: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in columns)  # names from this module


def _body(connection: apsw.Connection, doc_id: int) -> None:
    """Restore a note's text from its passages."""
    rows: Iterable[Any] = connection.execute(
        "SELECT CAST(text AS BLOB) FROM chunks WHERE doc_id = ? AND typeof(text) = 'text' "
        "ORDER BY ordinal",
        (doc_id,),
    )
    text = "\n\n".join(raw.decode("utf-8", "replace") for (raw,) in rows)
    connection.execute(
        "UPDATE documents SET body = ? WHERE doc_id = ? AND root_id IS NULL", (text, doc_id)
    )


def _chunks(connection: apsw.Connection, faults: Iterable[Fault]) -> tuple[list[int], bool]:
    """Delete damaged passages, whose text is in the document's file or note. Returns the notes that
    lost passages, and whether any passage had an unknown document."""
    keys = {fault.key for fault in faults}
    owners: set[int] = set()
    ownerless = False
    for key in keys:
        owner = scalar(connection, "SELECT doc_id FROM chunks WHERE chunk_id = ?", (key,))
        known = isinstance(owner, int) and scalar(
            connection, "SELECT 1 FROM documents WHERE doc_id = ?", (owner,)
        )
        owners |= {owner} if known else set()
        ownerless = ownerless or not known
        connection.execute("DELETE FROM chunks WHERE chunk_id = ?", (key,))
        connection.execute("DELETE FROM embeddings WHERE chunk_id = ?", (key,))
    notes = "root_id IS NULL"
    if not ownerless:
        notes += f" AND doc_id IN ({', '.join(map(str, owners)) or 'NULL'})"
    for doc_id in owners:
        _read_again(connection, f"doc_id = {doc_id:d} AND root_id IS NOT NULL")
    rows = connection.execute(f"SELECT doc_id FROM documents WHERE {notes} AND body IS NOT NULL")
    return ([int(str(doc_id)) for (doc_id,) in rows] if keys else []), ownerless


def _tags(connection: apsw.Connection, faults: Iterable[Fault]) -> list[str]:
    count = 0
    for fault in faults:
        connection.execute(
            f"DELETE FROM document_tags WHERE CAST({fault.column} AS BLOB) IS CAST(? AS BLOB)",
            (fault.raw,),
        )
        count += connection.changes()
    return [f"{count} {'tag' if count == 1 else 'tags'}, unless a file names them"] if count else []


def _read_again(connection: apsw.Connection, which: str) -> None:
    """Make the next ingest treat the file as changed."""
    connection.execute(
        f"UPDATE documents SET content_hash = '', mtime_ns = 0, indexed_ns = 0 WHERE {which}"
    )


def _set(connection: apsw.Connection, table: str, fault: Fault, value: object) -> None:
    connection.execute(
        f"UPDATE OR IGNORE {table} SET {fault.column} = ? WHERE rowid = ?",
        (str(value) if not isinstance(value, int) else value, fault.key),
    )
