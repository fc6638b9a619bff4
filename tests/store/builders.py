"""Helpers that write documents, for tests of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.index import token_codes
from kb.ports import Store
from kb.store.sqlite import queue
from kb.store.sqlite.store import SqliteStore
from kb.text.timestamps import utc_timestamp
from kb.types import (
    PARTS,
    Attributes,
    ChunkDraft,
    DocumentDraft,
    Encoding,
    Outcome,
    PendingChunk,
    Span,
)


def put(store: Store, path: str, *texts: str, type: str = "note", **said: Any) -> int:
    """Write a document whose chunks are `texts`, a line each; returns its id."""
    draft = DocumentDraft(
        root_id=said.pop("root_id", None),
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
    return store.catalog.write_document(draft, chunks).doc_id


FTS_TABLES = ("chunks_fts", "chunks_cjk")


def check_integrity(store: SqliteStore) -> None:
    """FTS5's own check of each index against `chunks`; it raises if they differ."""
    with store._database.writing() as connection:
        for table in FTS_TABLES:
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
        counted = connection.execute("SELECT count(*) FROM chunks").fetchone()
        assert counted == connection.execute("SELECT chunks FROM state").fetchone()


def sqlite_store(kb: KnowledgeBase) -> SqliteStore:
    """The store of `kb`, for tests that look into its tables; they are skipped for other stores."""
    store = kb._store
    if not isinstance(store, SqliteStore):
        pytest.skip("looks into tables of SQLite")
    return store


def pending_chunks(store: Store, model_id: int, *, limit: int = 1000) -> list[PendingChunk]:
    """The chunks that a job would lease now."""
    job_id = store.queue.start_job(model_id)
    try:
        return store.queue.lease(job_id, model_id, limit=limit)
    finally:
        store.queue.end_job(job_id)


def write_vectors(store: Store, model_id: int, rows: Iterable[tuple[int, Encoding]]) -> int:
    """Write the vectors of chunks in one transaction, in place of existing ones; returns how many
    chunks have vectors now."""
    outcomes = [Outcome(chunk_id, encoding, want=_ALL) for chunk_id, encoding in rows]
    replaced = [(model_id, one.chunk_id) for one in outcomes if one.encoding and one.encoding.dense]
    if not isinstance(store, SqliteStore):
        return _replace_vectors(store, model_id, outcomes)
    with store._database.writing() as connection:
        connection.executemany(
            "DELETE FROM embeddings WHERE model_id = ? AND chunk_id = ?", replaced
        )
        written = queue.finish(
            connection,
            0,
            model_id,
            outcomes,
            stamp=utc_timestamp(store._clock()),
            now=store._clock(),
            token_format=_token_format(store),
        )
        store.vectors.update_indexes(connection, model_id)
    return sum(written)


def _replace_vectors(store: Store, model_id: int, outcomes: list[Outcome]) -> int:
    from kb.store.postgres import embeddings, segments
    from kb.store.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    with store._database.writing() as session:
        segments.lock_shared(session)
        new = [one.chunk_id for one in outcomes if one.encoding and one.encoding.dense]
        embeddings.delete(session, new)
        written = store.queue._write(session, model_id, outcomes, utc_timestamp(store._clock()))
    return sum(written or ())


def _token_format(store: SqliteStore) -> str:
    return token_codes.DEFAULT if store._token_format == "none" else store._token_format


def fail_chunks(store: Store, model_id: int, chunk_ids: Iterable[int], error: str) -> None:
    """Count a failed attempt of each chunk."""
    job_id = store.queue.start_job(model_id)
    outcomes = [Outcome(chunk_id, None, error) for chunk_id in chunk_ids]
    store.queue.finish(job_id, model_id, outcomes)
    store.queue.end_job(job_id)


_ALL = frozenset(PARTS)
