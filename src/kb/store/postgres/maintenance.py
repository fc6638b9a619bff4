"""The maintenance port over PostgreSQL: backup, export and import; the checks are in `checks`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import atomic
from kb.errors import InvalidRequest
from kb.store import export_format, import_rows
from kb.store.postgres import export_rows, schema, segments
from kb.store.postgres.import_rows import PostgresTarget
from kb.types import DiskUsage, ImportReport

if TYPE_CHECKING:
    from kb.ports.maintenance import Check, OnProgress
    from kb.store.postgres.connection import Database
    from kb.store.postgres.fulltext import PostgresFulltext
    from kb.store.postgres.vectors import PostgresVectors

_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'
"""
_TABLES = """
SELECT quote_ident(relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY 1
"""


class PostgresMaintenance:
    """See `kb.ports.Maintenance`."""

    def __init__(
        self, database: Database, fulltext: PostgresFulltext, vectors: PostgresVectors
    ) -> None:
        self._database = database
        self._fulltext = fulltext
        self._vectors = vectors

    def versions(self) -> dict[str, str]:
        with self._database.databases[0].reading() as session:
            return {
                "PostgreSQL": str(session.value("SHOW server_version")),
                "pgvector": schema.extension_version(session.connection) or "missing",
                "schema": str(schema.version(session.connection, self._database.location)),
            }

    def size_bytes(self) -> int:
        with self._database.reading() as session:
            return sum(each.total(_SIZE, (each.schema,)) for each in session.shards)

    def disk_usage(self) -> DiskUsage:
        return DiskUsage(self.size_bytes(), 0, None, None)

    def checks(self, rechunk_note: Callable[[int], None]) -> Iterator[Check]:  # noqa: ARG002
        from kb.store.postgres.checks import checks, checks_of_shards

        if len(self._database.databases) > 1:
            return checks_of_shards(self._database.databases)
        return checks(self._database)

    def checkpoint(self) -> None:
        """Do nothing: the server makes its own checkpoints."""

    def compact(self) -> int:
        """Rewrite every table. A table can be neither read nor written while it is rewritten."""
        before = self.size_bytes()
        with self._database.writing() as session:
            schema.lock(session.connection, session.schema, what="index")
            for kind, model_id in segments.indexes(session):
                segments.tidy(session, kind, model_id)
            rows: Any = session.execute(_TABLES, (session.schema,)).fetchall()
        with self._database.autocommit() as connection:
            for (table,) in rows:
                connection.execute(f"VACUUM (FULL, ANALYZE) {table}".encode())
        return max(0, before - self.size_bytes())

    def backup(self, target: Path, *, overwrite: bool, on_progress: OnProgress) -> None:
        """Write the store to one SQLite file, which is a store itself."""
        from kb.store import open_store

        with atomic.atomic_path(target, overwrite=overwrite, mode=0o600, follow_links=True) as part:
            copy = open_store(part)
            try:
                lines = self.export(vectors=True)
                copy.maintenance.load(lines, merge=False, on_progress=on_progress)
            finally:
                copy.close()

    def export(self, *, vectors: bool = False) -> Generator[bytes]:
        if len(self._database.databases) > 1:
            raise InvalidRequest(
                "the shards of a store are exported one by one",
                "give the URL of one shard: --store URL",
            )
        with self._database.reading() as session:
            yield export_format.line(export_rows.header(session, vectors=vectors))
            yield from export_rows.lines(session, vectors=vectors)

    def load_in_steps(self, lines: Iterable[bytes], *, on_progress: OnProgress) -> ImportReport:
        remaining = iter(lines)
        header = export_format.header(next(remaining, b""), export_format.STORE_SCHEMA)

        @contextmanager
        def transaction() -> Iterator[PostgresTarget]:
            with self._database.writing() as session:
                schema.lock(session.connection, session.schema, what="index")
                yield PostgresTarget(session)

        return import_rows.load_in_steps(transaction, header, remaining, on_progress=on_progress)

    def load(self, lines: Iterable[bytes], *, merge: bool, on_progress: OnProgress) -> ImportReport:
        remaining = iter(lines)
        header = export_format.header(next(remaining, b""), export_format.STORE_SCHEMA)
        with self._database.writing() as session:
            schema.lock(session.connection, session.schema, what="index")
            return import_rows.load(
                PostgresTarget(session), header, remaining, merge=merge, on_progress=on_progress
            )
