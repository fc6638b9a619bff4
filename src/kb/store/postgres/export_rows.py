"""Exports rows as lines, in the caller's snapshot. The lines are those of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kb import __version__
from kb.index import sparse_weights
from kb.store import export_format

if TYPE_CHECKING:
    from kb.store.postgres.session import Session
    from kb.types import JsonDict

_BATCH = 500  # chunks whose vectors are read at a time


def header(session: Session, *, vectors: bool) -> JsonDict:
    """The first line. It contains no time, so that equal stores have equal exports."""
    tables = export_format.TABLES
    return {
        "schema_version": export_format.SCHEMA,
        "kb": __version__,
        "store_schema": export_format.STORE_SCHEMA,
        "created_at": session.state.created_at,
        "changes": session.state.changes,
        "counts": {name: session.value(f"SELECT count(*) FROM {name}") for name in tables.values()},
        "sequences": {table: last_id(session, table) for table in tables.values()},
        "models": _models(session) if vectors else [],
    }


def last_id(session: Session, table: str) -> int:
    """The last id that a table has assigned."""
    column = ID_COLUMNS[table]
    sequence = session.value("SELECT pg_get_serial_sequence(%s, %s)", (table, column))
    return int(session.value(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END "
                             f"FROM {sequence}"))  # fmt: skip


ID_COLUMNS = {
    "roots": "root_id",
    "documents": "doc_id",
    "chunks": "chunk_id",
    "removed_documents": "removed_id",
}


def lines(session: Session, *, vectors: bool) -> Iterator[bytes]:
    """All lines after the header."""
    for kind in export_format.RECORDS:
        rows = _rows(session, kind)
        while batch := list(islice(rows, _BATCH)):
            records = [_record(kind, row) for row in batch]
            if kind == "chunk" and vectors:
                found = _embeddings(session, [record["chunk_id"] for record in records])
                for record in records:
                    record["embeddings"] = found.get(record["chunk_id"], [])
            yield from map(export_format.line, records)


def _rows(session: Session, kind: str) -> Iterator[tuple[Any, ...]]:
    """Rows ordered by id; those of documents end with tags and their sources."""
    table = export_format.TABLES[kind]
    columns = [f"{name}::int" if name == "whole" else name for name in export_format.RECORDS[kind]]
    if kind == "document":
        columns += [
            f"ARRAY(SELECT {name} FROM document_tags t WHERE t.doc_id = d.doc_id ORDER BY tag)"
            for name in ("tag", "source")
        ]
    alias = " d" if kind == "document" else ""
    return session.stream(f"SELECT {', '.join(columns)} FROM {table}{alias} ORDER BY 1")


def _record(kind: str, row: tuple[Any, ...]) -> JsonDict:
    if kind == "document":
        *columns, tags, sources = row
        record = export_format.from_row(kind, tuple(columns))
        record["tags"] = dict(zip(tags, sources, strict=True))
        return record
    if kind == "root":
        root_id, name, path, whole = row
        row = (root_id, name, _text_or_bytes(path), whole)
    if kind == "removed_document":
        removed_id, root_path, path, accesses, tags = row
        row = (removed_id, _text_or_bytes(root_path), path, accesses, json.dumps(tags))
    return export_format.from_row(kind, row)


def _text_or_bytes(path: bytes) -> str | bytes:
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return path


def _models(session: Session) -> list[JsonDict]:
    rows = session.execute(f"SELECT {', '.join(export_format.MODEL)} FROM models ORDER BY model_id")
    models = [dict(zip(export_format.MODEL, row, strict=True)) for row in rows]
    for each in models:
        each["marks"] = None if each["marks"] is None else json.loads(each["marks"])
    return models


def _embeddings(session: Session, chunk_ids: list[int]) -> dict[int, list[JsonDict]]:
    """The complete vectors of chunks, by model."""
    rows = session.execute(
        f"SELECT chunk_id, {', '.join(export_format.EMBEDDING)} FROM embeddings "
        "WHERE chunk_id = ANY (%s) AND state = 'ready' ORDER BY chunk_id, model_id",
        (chunk_ids,),
    )
    found: dict[int, list[JsonDict]] = {}
    for chunk_id, *values in rows:
        each = dict(zip(export_format.EMBEDDING, values, strict=True))
        stored = each["sparse"]
        each["sparse"] = stored and dict(sorted(sparse_weights.decimals(stored).items()))
        found.setdefault(chunk_id, []).append(each)
    return found
