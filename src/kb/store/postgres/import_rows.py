"""The rows that an import writes: see `kb.store.import_rows`. Chunks and vectors are written in
batches, since every statement takes a round trip to the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import psycopg

from kb.errors import InvalidRequest
from kb.store.import_rows import KnownDocument
from kb.store.postgres import documents, embeddings, files, removed_documents, segments, shard_ids
from kb.store.postgres.embeddings import NewVectors
from kb.store.postgres.export_rows import ID_COLUMNS, last_id

if TYPE_CHECKING:
    from kb.store.postgres.session import Session
    from kb.types import JsonDict, Root, StoredModel

_BATCH = 500
_CHUNK = ("chunk_id", *documents.NEW_COLUMNS)


class PostgresTarget:
    """See `kb.store.import_rows.ImportTarget`."""

    refused: tuple[type[Exception], ...] = (psycopg.IntegrityError, psycopg.DataError)

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids: list[int] = []  # free ids of chunks, the lowest last
        self._chunks: list[tuple[Any, ...]] = []
        self._vectors: dict[int, list[NewVectors]] = {}
        self._shard = shard_ids.shard_of(session)
        self.is_shard = self._shard != (1, 1)

    def is_empty(self) -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM roots)"
        return not self._session.value(sql)

    def record_count(self) -> int:
        sql = (
            "SELECT (SELECT count(*) FROM roots) + (SELECT count(*) FROM documents) + "
            "(SELECT count(*) FROM chunks) + (SELECT count(*) FROM removed_documents)"
        )
        return int(self._session.value(sql))

    def flush(self) -> None:
        self._write()

    def models(self) -> list[StoredModel]:
        return embeddings.models(self._session)

    def add_model(self, row: JsonDict) -> int:
        documents.insert(self._session, "models", row)
        _raise_sequence(self._session, "models", "model_id", row["model_id"])
        return int(row["model_id"])

    def roots(self) -> list[Root]:
        return files.roots(self._session)

    def add_root(self, row: JsonDict) -> None:
        self._check_id(row["root_id"])
        path = row["path"]
        raw = path if isinstance(path, bytes) else os.fsencode(path)
        changed = {"path": raw, "whole": bool(row["whole"]), "detached": True}
        documents.insert(self._session, "roots", row | changed)

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        return files.ensure_root(self._session, path, whole=whole, detached=True)

    def next_document_id(self) -> int:
        return documents.next_id(self._session)

    def add_document(self, row: JsonDict) -> int:
        doc_id = row.get("doc_id") or documents.next_id(self._session)
        self._check_id(doc_id)
        detached = row["root_id"] is not None
        documents.insert(self._session, "documents", row | {"doc_id": doc_id, "detached": detached})
        return int(doc_id)

    def replace_document(self, doc_id: int, row: JsonDict) -> None:
        assignments = ", ".join(
            f"{name} = %({name})s" for name in row if name not in ("access_count", "expires_at")
        )
        self._session.execute(
            f"UPDATE documents SET {assignments}, "
            "access_count = greatest(access_count, %(access_count)s), "
            "expires_at = CASE WHEN expires_at IS NOT NULL AND %(expires_at)s::text IS NOT NULL "
            "THEN greatest(expires_at, %(expires_at)s) END WHERE doc_id = %(own_id)s",
            row | {"own_id": doc_id},
        )

    def document_at(self, root_id: int | None, doc_path: str) -> KnownDocument | None:
        row: Any = self._session.execute(
            "SELECT doc_id, indexed_ns, root_id IS NOT DISTINCT FROM %s AND detached "
            "FROM documents WHERE md5(doc_path) = md5(%s) AND doc_path = %s",
            (root_id, doc_path, doc_path),
        ).fetchone()
        return None if row is None else KnownDocument(*row)

    def notes(self) -> Iterable[tuple[str, str, int]]:
        rows: Any = self._session.execute(
            "SELECT body, created_at, doc_id FROM documents "
            "WHERE root_id IS NULL AND doc_path = 'note:' || doc_id AND body IS NOT NULL"
        )
        return rows  # type: ignore[no-any-return]

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        return documents.tag_sources(self._session, doc_id)

    def add_tags(self, doc_id: int, tags: dict[str, str]) -> None:
        documents.add_tags(self._session, doc_id, tags)

    def remove_tags(self, doc_id: int) -> None:
        self._session.execute("DELETE FROM document_tags WHERE doc_id = %s", (doc_id,))

    def add_chunk(self, row: JsonDict) -> int:
        chunk_id = row.get("chunk_id") or self._next_chunk_id()
        self._check_id(chunk_id)
        self._chunks.append(tuple((row | {"chunk_id": chunk_id})[name] for name in _CHUNK))
        if len(self._chunks) >= _BATCH:
            self._write()
        return int(chunk_id)

    def _check_id(self, number: int) -> None:
        """Refuse an id that belongs to another shard."""
        first, count = self._shard
        if (number - first) % count:
            raise InvalidRequest(
                f"this store is shard {first}/{count}, which cannot have the id {number}",
                "copy into it with new ids: kb export, then kb import --merge",
            )

    def _next_chunk_id(self) -> int:
        if not self._ids:
            self._ids = documents.next_chunk_ids(self._session, _BATCH)[::-1]
        return self._ids.pop()

    def remove_chunks(self, doc_id: int) -> int:
        self._write()
        rows = self._session.execute("SELECT chunk_id FROM chunks WHERE doc_id = %s", (doc_id,))
        chunk_ids = [chunk_id for (chunk_id,) in rows]
        documents.delete_chunks(self._session, chunk_ids)
        return len(chunk_ids)

    def add_vectors(
        self,
        model_id: int,
        chunk_id: int,
        embedded_at: str | None,
        dense: bytes,
        sparse: str | None,
        tokens: bytes | None,
    ) -> None:
        new = NewVectors(chunk_id, embedded_at, dense, sparse, tokens)
        self._vectors.setdefault(model_id, []).append(new)

    def _write(self) -> None:
        if self._chunks:
            documents.insert_chunks(self._session, self._chunks)
        self._chunks = []
        # Chunks come first, because vectors refer to them.
        for model_id, rows in self._vectors.items():
            embeddings.put(self._session, model_id, rows)
        self._vectors = {}

    def add_removed_document(self, row: JsonDict) -> None:
        path = row["root_path"]
        raw = path if isinstance(path, bytes) else os.fsencode(path)
        tags = json.loads(row["user_tags"])
        removed_documents.add(self._session, row | {"root_path": raw, "user_tags": tags})

    def restore_documents(self) -> None:
        removed_documents.restore(self._session)

    def finish_copy(self, header: JsonDict, chunks: int) -> None:
        self._write()
        for table, last in header["sequences"].items():
            _raise_sequence(self._session, table, ID_COLUMNS[table], last)
            highest = self._session.value(f"SELECT max({ID_COLUMNS[table]}) FROM {table}")
            _raise_sequence(self._session, table, ID_COLUMNS[table], highest or 0)
        own = self._session.state.changes
        self._session.execute("UPDATE state SET created_at = %s", (header["created_at"],))
        made = self._session.changes
        made.changes = max(header["changes"], own + 1 if own else 0) - own
        made.chunks = chunks - self._session.state.chunks
        self._flush()

    def finish_merge(self, chunks: int) -> None:
        self._write()
        documents.count_change(self._session, chunks)
        self._flush()

    def _flush(self) -> None:
        """Write the segments in the same transaction, so that the first search need not read every
        new text."""
        for kind, model_id in segments.pending_indexes(self._session):
            segments.flush_all(self._session, kind, model_id)


def _raise_sequence(session: Session, table: str, column: str, least: int) -> None:
    """Make new ids greater than `least`."""
    if table in ID_COLUMNS and last_id(session, table) >= least:
        return
    if least > 0:  # a shard has every nth number
        session.execute(
            "SELECT setval(seqrelid::regclass, "
            "least + mod(mod(seqstart - least, seqincrement) + seqincrement, seqincrement)) "
            "FROM pg_sequence, "
            f"(SELECT greatest(%s, (SELECT coalesce(max({column}), 1) FROM {table})) AS least) ids "
            "WHERE seqrelid = pg_get_serial_sequence(%s, %s)::regclass",
            (least, table, column),
        )
