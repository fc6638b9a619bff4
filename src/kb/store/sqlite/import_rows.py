"""The rows that an import writes: see `kb.store.import_rows`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from kb.store.import_rows import KnownDocument
from kb.store.sqlite import documents, embeddings, files, removed_documents, segments
from kb.store.sqlite.functions import scalar
from kb.types import JsonDict, Root, StoredModel


class SqliteTarget:
    """See `kb.store.import_rows.ImportTarget`."""

    refused: tuple[type[Exception], ...] = (apsw.ConstraintError,)
    is_shard = False

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def is_empty(self) -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM roots)"
        return not scalar(self._connection, sql)

    def record_count(self) -> int:
        sql = (
            "SELECT (SELECT count(*) FROM roots) + (SELECT count(*) FROM documents) + "
            "(SELECT count(*) FROM chunks) + (SELECT count(*) FROM removed_documents)"
        )
        return int(scalar(self._connection, sql))

    def flush(self) -> None:
        """Do nothing: every row is written at once."""

    def models(self) -> list[StoredModel]:
        return embeddings.models(self._connection)

    def add_model(self, row: JsonDict) -> int:
        return self._insert("models", row)

    def roots(self) -> list[Root]:
        return files.roots(self._connection)

    def add_root(self, row: JsonDict) -> None:
        files.detach_root(self._connection, self._insert("roots", row))

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        return files.ensure_root(self._connection, path, whole=whole, detached=True)

    def next_document_id(self) -> int:
        return documents.next_id(self._connection)

    def add_document(self, row: JsonDict) -> int:
        doc_id = self._insert("documents", row)
        if row["root_id"] is not None:
            files.detach_document(self._connection, doc_id)
        return doc_id

    def replace_document(self, doc_id: int, row: JsonDict) -> None:
        assignments = ", ".join(
            f"{name} = :{name}" for name in row if name not in ("access_count", "expires_at")
        )
        self._connection.execute(
            f"UPDATE documents SET {assignments}, access_count = max(access_count, :access_count), "
            "expires_at = max(expires_at, :expires_at) WHERE doc_id = :own_id",  # NULL: never
            row | {"own_id": doc_id},
        )

    def document_at(self, root_id: int | None, doc_path: str) -> KnownDocument | None:
        row: Any = self._connection.execute(
            "SELECT doc_id, indexed_ns, root_id IS ? "
            "AND doc_id IN (SELECT doc_id FROM detached_documents) "
            "FROM documents WHERE doc_path = ?",
            (root_id, doc_path),
        ).fetchone()
        return None if row is None else KnownDocument(row[0], row[1], bool(row[2]))

    def notes(self) -> Iterable[tuple[str, str, int]]:
        rows: Any = self._connection.execute(
            "SELECT body, created_at, doc_id FROM documents "
            "WHERE root_id IS NULL AND doc_path = 'note:' || doc_id AND body IS NOT NULL"
        )
        return rows  # type: ignore[no-any-return]

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        return documents.tag_sources(self._connection, doc_id)

    def add_tags(self, doc_id: int, tags: dict[str, str]) -> None:
        self._connection.executemany(
            "INSERT INTO document_tags (doc_id, tag, source) VALUES (?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            [(doc_id, tag, source) for tag, source in tags.items()],
        )

    def remove_tags(self, doc_id: int) -> None:
        self._connection.execute("DELETE FROM document_tags WHERE doc_id = ?", (doc_id,))

    def add_chunk(self, row: JsonDict) -> int:
        return self._insert("chunks", row)

    def remove_chunks(self, doc_id: int) -> int:
        self._connection.execute("DELETE FROM chunks WHERE doc_id = ?", (doc_id,))
        return self._connection.changes()

    def add_vectors(
        self,
        model_id: int,
        chunk_id: int,
        embedded_at: str | None,
        dense: bytes,
        sparse: str | None,
        tokens: bytes | None,
    ) -> None:
        embeddings.put(self._connection, model_id, chunk_id, embedded_at, dense, sparse, tokens)

    def add_removed_document(self, row: JsonDict) -> None:
        removed_documents.add(self._connection, row)

    def restore_documents(self) -> None:
        removed_documents.restore(self._connection)

    def finish_copy(self, header: JsonDict, chunks: int) -> None:
        for table, last in header["sequences"].items():
            known = scalar(
                self._connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)
            )
            if last > (known or 0):
                self._connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                self._connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last))
        self._connection.execute(
            "UPDATE state SET chunks = ?, created_at = ?, "
            "changes = max(?, iif(changes, changes + 1, 0))",
            (chunks, header["created_at"], header["changes"]),
        )
        segments.flush_all(self._connection)

    def finish_merge(self, chunks: int) -> None:
        documents.count_change(self._connection, chunks)
        segments.flush_all(self._connection)

    def _insert(self, table: str, row: JsonDict) -> int:
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", row)
        return self._connection.last_insert_rowid()
