"""Exports rows as lines: reads a store one row at a time, in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw

from kb import __version__
from kb.index import dense_codes, sparse_weights
from kb.store import export_format
from kb.store.sqlite import vector_pieces
from kb.store.sqlite.functions import scalar
from kb.types import JsonDict


def header(connection: apsw.Connection, *, vectors: bool) -> JsonDict:
    """The first line. It contains no time, so that equal stores have equal exports."""
    changes, created_at = next(connection.execute("SELECT changes, created_at FROM state"))
    last = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    tables = export_format.TABLES.values()
    return {
        "schema_version": export_format.SCHEMA,
        "kb": __version__,
        "store_schema": int(connection.pragma("user_version")),  # may be an older one
        "created_at": created_at,
        "changes": changes,
        "counts": {name: scalar(connection, f"SELECT count(*) FROM {name}") for name in tables},
        "sequences": {name: last.get(name, 0) for name in tables},
        "models": _models(connection) if vectors else [],
    }


def lines(connection: apsw.Connection, *, vectors: bool) -> Iterator[bytes]:
    """All lines after the header."""
    for kind in export_format.RECORDS:
        for row in _rows(connection, kind):
            record = export_format.from_row(kind, row)
            if kind == "document":
                record["tags"] = _tags(connection, record["doc_id"])
            if kind == "chunk" and vectors:
                record["embeddings"] = _embeddings(connection, record["chunk_id"])
            yield export_format.line(record)


def _rows(connection: apsw.Connection, kind: str) -> Iterator[tuple[Any, ...]]:
    """Rows ordered by id, which is also the fastest order for an import."""
    columns = ", ".join(export_format.RECORDS[kind])
    return connection.execute(f"SELECT {columns} FROM {export_format.TABLES[kind]} ORDER BY rowid")


def _tags(connection: apsw.Connection, doc_id: int) -> dict[str, str]:
    return dict(
        connection.execute(
            "SELECT tag, source FROM document_tags WHERE doc_id = ? ORDER BY tag", (doc_id,)
        )
    )


def _models(connection: apsw.Connection) -> list[JsonDict]:
    rows = connection.execute(
        f"SELECT {', '.join(export_format.MODEL)} FROM models ORDER BY model_id"
    )
    models = [dict(zip(export_format.MODEL, row, strict=True)) for row in rows]
    for each in models:
        each["marks"] = None if each["marks"] is None else json.loads(each["marks"])
    return models


def _embeddings(connection: apsw.Connection, chunk_id: int) -> list[JsonDict]:
    """The complete vectors of a chunk, by model."""
    rows = connection.execute(
        f"SELECT {', '.join(export_format.EMBEDDING)} FROM embeddings "
        "WHERE chunk_id = ? AND state = 'ready' ORDER BY model_id",
        (chunk_id,),
    )
    embeddings = [dict(zip(export_format.EMBEDDING, row, strict=True)) for row in rows]
    for each in embeddings:
        each["dense"] = dense_codes.unpack(each["dense"])
        for part in ("sparse", "tokens"):
            if vector_pieces.is_checksum(each[part]):
                pieces = vector_pieces.read(connection, part, each["model_id"], [chunk_id])
                each[part] = pieces[chunk_id]
        stored = each["sparse"]
        weights = {} if stored is None else sparse_weights.decimals(stored)
        each["sparse"] = None if stored is None else dict(sorted(weights.items()))
    return embeddings
