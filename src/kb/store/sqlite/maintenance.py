"""The maintenance port over SQLite: backup, export and import; the checks are in `checks`."""

from __future__ import annotations

import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from kb import atomic
from kb.errors import DiskFull, StoreUnusable
from kb.store import export_format, import_rows
from kb.store.sqlite import embeddings, export_rows, schema, segments
from kb.store.sqlite.connection import Database
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.import_rows import SqliteTarget
from kb.store.sqlite.repair import without_triggers
from kb.types import DiskUsage, ImportReport, JsonDict

if TYPE_CHECKING:
    from kb.ports.maintenance import Check, OnProgress
    from kb.store.sqlite.integrity import Integrity
    from kb.store.sqlite.vectors import SqliteVectors
    from kb.store.sqlite.words import WordIndex

_STEP_PAGES = 1024


class SqliteMaintenance:
    """See `kb.ports.Maintenance`."""

    def __init__(self, database: Database, vectors: SqliteVectors, words: WordIndex) -> None:
        self._database = database
        self._vectors = vectors
        self._words = words

    @property
    def integrity(self) -> Integrity:
        """The SQL behind the checks."""
        from kb.store.sqlite.integrity import Integrity

        return Integrity(self._database, self._vectors.dense, self._words)

    def versions(self) -> dict[str, str]:
        with self._database.reading() as connection:
            version = schema.version(connection, str(self._database.path))
        return {"SQLite": apsw.sqlite_lib_version(), "schema": str(version)}

    def size_bytes(self) -> int:
        return self._database.path.stat().st_size

    def disk_usage(self) -> DiskUsage:
        import shutil

        usage = shutil.disk_usage(self._database.path.parent)
        log_bytes = self._database.log_bytes()
        return DiskUsage(self.size_bytes(), log_bytes, usage.free, usage.total)

    def checks(self, rechunk_note: Callable[[int], None]) -> Iterator[Check]:
        from kb.store.sqlite.checks import checks

        return checks(self.integrity, rechunk_note)

    def checkpoint(self) -> None:
        self._database.checkpoint()

    def compact(self) -> int:
        before = self.size_bytes()
        self._repack_vectors()
        self._database.compact()
        self._words.build()
        return max(0, before - self.size_bytes())

    def _repack_vectors(self) -> None:
        """Rewrite the vectors of older versions, a few thousand in a transaction."""
        for repack, limit in ((embeddings.repack, 4000), (segments.repack, 20_000)):
            last: int | None = 0
            while last is not None:
                with self._database.writing() as connection, without_triggers(connection):
                    last = repack(connection, last, limit)

    def backup(self, target: Path, *, overwrite: bool, on_progress: OnProgress) -> None:
        store = self._database.path
        atomic.check_not_store(target, store)
        with self._database.reading() as connection:
            mode = stat.S_IMODE(store.stat().st_mode)  # the copy is as private as the store
            with atomic.atomic_path(
                target, overwrite=overwrite, mode=mode, follow_links=True
            ) as part:
                copy(connection, part, on_progress)
                verify(part)

    def export(self, *, vectors: bool = False) -> Generator[bytes]:
        with self._database.reading() as connection:
            yield export_format.line(export_rows.header(connection, vectors=vectors))
            yield from export_rows.lines(connection, vectors=vectors)

    def load_in_steps(self, lines: Iterable[bytes], *, on_progress: OnProgress) -> ImportReport:
        remaining = iter(lines)
        header = export_format.header(next(remaining, b""), schema.VERSION)

        @contextmanager
        def transaction() -> Iterator[SqliteTarget]:
            with self._database.writing() as connection:
                yield SqliteTarget(connection)

        return import_rows.load_in_steps(transaction, header, remaining, on_progress=on_progress)

    def load(self, lines: Iterable[bytes], *, merge: bool, on_progress: OnProgress) -> ImportReport:
        remaining = iter(lines)
        header = export_format.header(next(remaining, b""), schema.VERSION)
        database = self._database
        if database.read_only or database.path.exists():
            return _load(database, header, remaining, merge, on_progress)
        with atomic.atomic_path(database.path) as part:  # a new store appears only when complete
            new = Database(part, read_only=False, busy_timeout_s=0)
            try:
                report = _load(new, header, remaining, merge, on_progress)
            finally:
                new.close()
            if part.with_name(part.name + "-wal").exists():  # the last checkpoint found no space
                raise _disk_full(database)
            return report


def _load(
    database: Database,
    header: JsonDict,
    lines: Iterable[bytes],
    merge: bool,
    on_progress: OnProgress,
) -> ImportReport:
    try:
        with database.writing() as connection:
            return import_rows.load(
                SqliteTarget(connection), header, lines, merge=merge, on_progress=on_progress
            )
    except DiskFull as error:
        raise _disk_full(database) from error


def _disk_full(database: Database) -> DiskFull:
    return DiskFull(
        f"the disk that holds {database.path.parent} is full: nothing was imported",
        "free some space and import again",
    )


# --- backup ---------------------------------------------------------------------------------------


def copy(source: apsw.Connection, path: Path, on_progress: OnProgress) -> None:
    """Copy the state that `source` sees to the new file `path`, page by page. The caller holds a
    transaction, so that writes of others do not restart the copy."""
    scalar(source, "SELECT changes FROM state")  # the first read begins the transaction
    target = apsw.Connection(str(path))
    try:
        # The file is discarded after any error, and synced when it is complete.
        target.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                on_progress(backup.page_count - backup.remaining, backup.page_count)
    except apsw.FullError as error:
        raise DiskFull(
            f"the disk that holds {path.parent} is full: no backup was made",
            "free some space, or choose another disk",
        ) from error
    finally:
        target.close()


def verify(path: Path) -> None:
    """Raise `StoreUnusable` if SQLite finds the copy damaged."""
    connection = apsw.Connection(str(path))
    try:
        problem = str(scalar(connection, "PRAGMA quick_check(1)"))
    except apsw.Error as error:
        problem = str(error)
    finally:
        connection.close()  # also checkpoints the log, so that the copy is one file
    if problem != "ok":
        raise StoreUnusable(
            f"the copy is damaged, like the store: {problem}",
            "to see what is wrong, run: kb doctor",
        )
