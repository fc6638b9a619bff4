"""Documents made in a line, for tests of the store."""

from __future__ import annotations

from typing import Any

from kb.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Span


def put(store: SqliteStore, path: str, *texts: str, type: str = "note", **said: Any) -> int:
    """Write a document whose chunks are `texts`, a line each; returns its id."""
    draft = DocumentDraft(
        root_id=None,
        path=path,
        doc_path=path,
        title=said.pop("title", path),
        type=type,
        attributes=Attributes(**said),
        content_hash="-",
        chunker_version="test-1",
        size_bytes=1,
        mtime_ns=1,
    )
    chunks = [
        ChunkDraft(text, (), None, (Span("line", number, number),))
        for number, text in enumerate(texts, start=1)
    ]
    return store.write_document(draft, chunks).doc_id


FTS_TABLES = ("chunks_fts", "chunks_trigram", "chunks_cjk")


def check_integrity(store: SqliteStore) -> None:
    """FTS5's own check of each index against `chunks`; it raises if they differ."""
    with store._database.writing() as connection:
        for table in FTS_TABLES:
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
        counted = connection.execute("SELECT count(*) FROM chunks").fetchone()
        assert counted == connection.execute("SELECT chunks FROM state").fetchone()
