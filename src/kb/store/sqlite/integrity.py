"""The SQL behind the checks of `kb doctor`, and repairs that rebuild derived data.

No repair changes a document or a readable chunk. A chunk without a document, which no search can
find, is deleted. `repair` handles unreadable values, `vector_integrity` handles vectors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from kb.store.document_rows import content_digest
from kb.store.sqlite import (
    column_checks,
    documents,
    schema_check,
    vector_integrity,
)
from kb.store.sqlite.connection import Database
from kb.store.sqlite.dense import DenseIndex
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.repair import Repair, begin_text_changes, repair, without_triggers
from kb.store.sqlite.vector_integrity import VectorIntegrity
from kb.store.sqlite.words import WordIndex
from kb.text.normalize import subwords, unspaced_ngrams

_BATCH = 500  # rows per transaction of a repair, so that others can write too
_SEQUENCES = (
    ("roots", "root_id"), ("documents", "doc_id"), ("chunks", "chunk_id"), ("models", "model_id"),
    ("vector_changes", "change"), ("sparse_segments", "segment"), ("text_changes", "change"),
    ("removed_documents", "removed_id"),
)  # fmt: skip

DELETED = ("chunks", "tags", "roots", "embeddings", "jobs", "detached_roots",
            "detached_documents", "sparse_segments")  # fmt: skip
_ORPHANS = {
    "chunks": "FROM chunks WHERE doc_id NOT IN (SELECT doc_id FROM documents)",
    "tags": "FROM document_tags WHERE doc_id NOT IN (SELECT doc_id FROM documents)",
    "roots": "FROM roots WHERE NOT whole AND root_id NOT IN "
    "(SELECT root_id FROM documents WHERE root_id IS NOT NULL)",
    "documents": "FROM documents WHERE root_id IS NOT NULL "
    "AND root_id NOT IN (SELECT root_id FROM roots)",
    "embeddings": "FROM embeddings WHERE chunk_id NOT IN (SELECT chunk_id FROM chunks) "
    "OR model_id NOT IN (SELECT model_id FROM models)",
    "jobs": "FROM jobs WHERE model_id NOT IN (SELECT model_id FROM models)",
    "detached_roots": "FROM detached_roots WHERE root_id NOT IN (SELECT root_id FROM roots)",
    "detached_documents": "FROM detached_documents WHERE doc_id NOT IN "
    "(SELECT doc_id FROM documents)",
    "sparse_segments": "FROM sparse_segments WHERE model_id NOT IN (SELECT model_id FROM models)",
}


class Integrity:
    """Checks and repairs one store."""

    def __init__(self, database: Database, dense: DenseIndex, words: WordIndex) -> None:
        self._database = database
        self._dense = dense
        self.words = words

    @property
    def path(self) -> str:
        return str(self._database.path)

    @property
    def vectors(self) -> VectorIntegrity:
        return VectorIntegrity(self._database, self._dense)

    # --- the file ---------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Problems that SQLite itself reports, without those of the full-text tables, which
        `index_fault` finds. Uses a new connection, because on an older connection FTS5 would trust
        its cache."""
        fresh = Database(self._database.path, read_only=self._database.read_only, busy_timeout_s=1)
        try:
            with fresh.reading() as connection:
                rows = connection.execute("PRAGMA integrity_check(20)").fetchall()
        finally:
            fresh.close()
        texts = [line for (text,) in rows for line in str(text).splitlines()]
        return [text for text in texts if text != "ok" and "fts5" not in text.lower()]

    def reindex(self) -> None:
        with self._database.writing() as connection:
            connection.execute("REINDEX")

    def has_log(self) -> bool:
        """Whether the file is in WAL mode, according to its header: a read-only connection cannot
        tell."""
        with open(self._database.path, "rb") as file:
            return file.read(20)[18:] == b"\x02\x02"

    def use_log(self) -> None:
        """Switch back to WAL mode, which needs exclusive access for a moment."""
        self._database.close()
        with self._private() as connection:
            connection.pragma("journal_mode", "wal")

    def log_bytes(self) -> int:
        return self._database.log_bytes()

    def checkpoint(self) -> None:
        with self._private() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _private(self) -> Iterator[apsw.Connection]:
        """A connection outside any transaction, where these pragmas work."""
        with self._database.errors():
            connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.set_busy_timeout(1000)
                yield connection
            finally:
                connection.close()

    # --- the schema -------------------------------------------------------------------------------

    def missing_parts(self) -> dict[str, str]:
        with self._database.reading() as connection:
            return schema_check.missing(connection)

    def add_missing_parts(self) -> None:
        with self._database.writing() as connection:
            schema_check.complete(connection)

    # --- cells ------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """The cells with values that kb cannot have written."""
        with self._database.reading() as connection:
            return [str(fault) for fault in column_checks.faults(connection)]

    def repair(self) -> Repair:
        with self._database.writing() as connection:
            return repair(connection)

    # --- rows -------------------------------------------------------------------------------------

    def orphans(self) -> dict[str, int]:
        with self._database.reading() as connection:
            counts = {name: scalar(connection, f"SELECT count(*) {sql}")
                      for name, sql in _ORPHANS.items()}  # fmt: skip
            broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        # References that a later schema adds.
        known = (*_ORPHANS, "document_tags")
        for table in {row[0] for row in broken} - set(known):
            counts[str(table)] = sum(row[0] == table for row in broken)
        return {name: count for name, count in counts.items() if count}

    def delete_orphans(self) -> None:
        with self._database.writing() as connection:
            for name in DELETED:
                connection.execute(f"DELETE {_ORPHANS[name]}")
            _recount(connection)

    def counters(self) -> list[str]:
        """A description of each wrong counter."""
        with self._database.reading() as connection:
            counted = scalar(connection, "SELECT chunks FROM state")
            chunks = scalar(connection, "SELECT count(*) FROM chunks")
            wrong = [f"{counted} chunks are counted, but {chunks} exist"]
            wrong = (wrong if counted != chunks else []) + vector_integrity.count_errors(connection)
            return wrong + [
                f"the last id of {table} is {last}, but {highest} exists"
                for table, last, highest in _sequences(connection)
                if last < highest
            ]

    def recount(self) -> None:
        with self._database.writing() as connection:
            _recount(connection)
            for table, last, highest in _sequences(connection):
                if last < highest:
                    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                    connection.execute(
                        "INSERT INTO sqlite_sequence VALUES (?, ?)", (table, highest)
                    )

    # --- derived columns --------------------------------------------------------------------------

    def stale(self, limit: int) -> tuple[int, int]:
        """The number of checked chunks, about `limit` if there are more, and how many of them have
        derived columns that differ from their text."""
        with self._database.reading() as connection:
            rows = _sample(connection, "heading, text, parts, cjk", limit)
            wrong = [_derive(heading, text) != (parts, cjk) for heading, text, parts, cjk in rows]
        return len(wrong), sum(wrong)

    def altered(self, limit: int) -> tuple[int, list[str]]:
        """The number of checked chunks, and the documents of those whose text does not match their
        hash."""
        with self._database.reading() as connection:
            rows = _sample(connection, "heading, text, content_hash, doc_id", limit)
            wrong = [(content_digest(heading, text) != digest, doc_id)
                     for heading, text, digest, doc_id in rows]  # fmt: skip
            altered = documents.by_id(
                connection, {doc_id for is_wrong, doc_id in wrong if is_wrong}
            )
        return len(wrong), [one.doc_path for one in altered.values()]

    def refill(self) -> None:
        """Recompute the derived columns of every chunk. The indexes must be checked afterwards:
        triggers are disabled, because they would remove entries that were never added."""
        last = 0
        while True:
            with self._database.writing() as connection, without_triggers(connection):
                rows: list[Any] = connection.execute(
                    "SELECT chunk_id, heading, text, parts, cjk FROM chunks WHERE chunk_id > ? "
                    "ORDER BY chunk_id LIMIT ?",
                    (last, _BATCH),
                ).fetchall()
                if not rows:
                    begin_text_changes(connection)
                    documents.count_change(connection)
                    return
                last = rows[-1][0]
                connection.executemany(
                    "UPDATE chunks SET parts = ?, cjk = ? WHERE chunk_id = ?", _corrections(rows)
                )

    # --- full-text indexes ------------------------------------------------------------------------

    def index_fault(self, table: str) -> str | None:
        """What FTS5 reports when it compares the index with the chunks; None if they agree."""
        with self._database.writing() as connection:
            try:
                connection.execute(
                    f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)"
                )
            except (apsw.CorruptError, apsw.SQLError) as error:
                return str(error)
        return None

    def rebuild(self, table: str) -> None:
        with self._database.writing() as connection:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")
            documents.count_change(connection)


def _recount(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO state (only, changes, chunks, created_at, store_id) VALUES "
        "(1, 0, 0, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), lower(hex(randomblob(16)))) "
        "ON CONFLICT DO NOTHING"
    )
    connection.execute(
        "UPDATE state SET changes = changes + 1, chunks = (SELECT count(*) FROM chunks)"
    )
    vector_integrity.recount(connection)


def _sequences(connection: apsw.Connection) -> list[tuple[str, int, int]]:
    """For each table, the last id that was used and the highest one that exists."""
    last = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    return [
        (table, last.get(table, 0), scalar(connection, f"SELECT max({column}) FROM {table}") or 0)
        for table, column in _SEQUENCES
    ]


def _sample(connection: apsw.Connection, columns: str, limit: int) -> Iterator[Any]:
    """An even sample of about `limit` chunks, or all of them."""
    step = scalar(connection, "SELECT count(*) FROM chunks") // limit + 1
    sql = f"SELECT {columns} FROM chunks WHERE chunk_id % ? = ?"
    return connection.execute(sql, (step, random.randrange(step)))


def _derive(heading: str, text: str) -> tuple[str, str]:
    return subwords(heading, text), unspaced_ngrams(heading, text)


def _corrections(rows: list[Any]) -> Iterator[tuple[str, str, int]]:
    for chunk_id, heading, text, parts, cjk in rows:
        if (derived := _derive(heading, text)) != (parts, cjk):
            yield *derived, chunk_id
