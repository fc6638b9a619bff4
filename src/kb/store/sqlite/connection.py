"""Connections to the store's file: two per thread, one for reading and one for writing.

A reader sees one consistent state (`reading`). A writer takes the write lock at once (`writing`,
BEGIN IMMEDIATE), because a reader that becomes a writer fails with "locked" under load, whatever
its timeout.

If the file at the store's path is replaced or removed, open connections still refer to the old
file, which nobody will read. So each block checks for this first and opens the new file
(`_leave_old_file`).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from weakref import WeakSet

import apsw

from kb import deadline
from kb.errors import (
    InvalidRequest,
    KbError,
    StoreBusy,
    StoreError,
    StoreMissing,
    StoreReadOnly,
    StoreUnusable,
)
from kb.open_stores import hold_store, release_store
from kb.store.sqlite import column_checks, functions, schema
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import SnapshotConnection
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CACHE_KIB = 32 * 1024
LOG_BYTES = 8 << 20  # a larger write-ahead log is checkpointed and truncated
# Exceptions that values of an unexpected type or form can raise.
_DAMAGE_ERRORS = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
_MIN_FREE_PAGES = 1024  # 4 MB; fewer are kept for new documents
_VACUUM_PAGES = 2048  # freed in one transaction, so that others can write in between
_CHECKPOINT_MS = 500  # how long a checkpoint waits for readers; it blocks writers, not readers
_MAX_CHECKPOINT_MS = 5_000  # longer than searches take, even on a busy machine
_CHECK_STEPS = 250  # steps of SQLite between two checks of the deadline: at most about 30 ms
_LOG = "-wal"  # the suffix of the write-ahead log
_UNQUOTED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/")


class _Local(threading.local):
    reader: SnapshotConnection | None = None
    is_snapshot = False  # the reader does not see later writes: it serves one `reading` block
    writer: SnapshotConnection | None = None
    reading = 0  # depth of nested `reading` blocks


class Database:
    """The file and its connections. Threads may share a Database, but never a connection."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool,
        busy_timeout_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = os.fspath(path)
        self._clock = clock
        self.read_only = read_only
        self._busy_ms = int(busy_timeout_s * 1000)
        self._local = _Local()
        # Weak, so that connections are closed when their thread ends.
        self._open: WeakSet[SnapshotConnection] = WeakSet()
        self._lock = threading.Lock()
        self._was_open = False  # a store that disappears after that is not created again
        self._held = False  # this process reads the store's files through SQLite only
        self._log_lock = threading.Lock()
        self._checkpoint_at_bytes = LOG_BYTES
        self.on_replaced: list[Callable[[], None]] = []  # called when the file was replaced

    @property
    def path(self) -> Path:
        """The path of the file. Searches use its text, `file`, and do not load `pathlib`."""
        from pathlib import Path

        return Path(self.file)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A connection that sees one state of the store until the outermost block ends."""
        deadline.check()
        with self.errors():
            if self._local.reading == 0:
                self._leave_old_file()
            connection = self._reader()
            if self._local.reading == 0:
                _control(connection, "BEGIN")
                connection.cache = {}
            self._local.reading += 1
            try:
                yield connection
            finally:
                self._local.reading -= 1
                if self._local.reading == 0:
                    connection.cache = None
                    _roll_back(connection)
                    if self._local.is_snapshot:
                        connection.close()
                    if self._local.is_snapshot or self._close_if_held(connection):
                        self._local.reader, self._local.is_snapshot = None, False

    @contextmanager
    def writing(self, wait_s: float = inf) -> Iterator[apsw.Connection]:
        """A transaction that is committed at the end of the block, and rolled back after an error.
        Raises `StoreBusy` if another one does not end within `wait_s` and the store's timeout."""
        if self.read_only:
            raise StoreReadOnly(f"{self.path} was opened read-only", "open it without read_only")
        with self.errors():
            if self._local.reading == 0:
                self._leave_old_file()
            connection = self._writer()
            try:
                self._begin(connection, wait_s)
                yield connection
                if _has_moved(connection):
                    raise self._replaced_error()
                _control(connection, "COMMIT")
            except BaseException:
                _roll_back(connection)
                if self._close_if_held(connection):
                    self._local.writer = None
                raise
            self._checkpoint(connection)

    def _close_if_held(self, connection: apsw.Connection) -> bool:
        """Close the connection if an unfinished cursor still holds its snapshot, and return whether
        it did. An exception can keep such a cursor alive. The next transaction would see the old
        state, and a checkpoint would fail."""
        if connection.txn_state("main") == apsw.SQLITE_TXN_NONE:
            return False
        connection.close(True)
        return True

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead log if it is large, whichever process wrote it."""
        if not self.read_only and self.log_bytes() > LOG_BYTES:
            with self.errors():
                self._checkpoint_at_bytes = LOG_BYTES
                self._checkpoint(self._writer())

    def compact(self) -> None:
        """Rewrite the file without unused pages. FTS5 keeps entries of deleted rows until its
        segments are merged."""
        with self.writing() as connection:
            for table in ("chunks_fts", "chunks_cjk"):
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        with self.errors():
            connection = self._writer()
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
            scalar(connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    def release_free_pages(self) -> None:
        """Return unused pages to the disk if they are a large part of the file. Takes the write
        lock only for a moment at a time. Older stores, which cannot do this, need `compact`
        once."""
        before = None
        while True:
            with self.writing() as connection:
                free = int(scalar(connection, "PRAGMA freelist_count"))
                pages = int(scalar(connection, "PRAGMA page_count"))
                if free < max(_MIN_FREE_PAGES, pages // 4) or free == before:
                    return
                connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
            before = free

    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        try:
            return os.stat(self.file + _LOG).st_size
        except OSError:
            return 0

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Copy a large log into the file, and truncate it. SQLite does this by itself, but restarts
        the log only when there are no readers, which never happens while searches overlap. Here the
        write lock is held, so that new readers use the file instead of the log. If a long reader
        such as a backup does not end in time, the next attempt comes when the log has doubled, and
        waits twice as long."""
        size = self.log_bytes()
        if size <= self._checkpoint_at_bytes or self._local.reading:
            return
        connection.set_busy_timeout(checkpoint_wait_ms(size))
        try:
            busy = scalar(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        except apsw.Error:  # committed data is safe in the log
            busy = True
        finally:
            connection.set_busy_timeout(self._busy_ms)
        self._checkpoint_at_bytes = 2 * size if busy else LOG_BYTES

    def _leave_old_file(self) -> None:
        """If the file was replaced or removed, close the connections of this thread to it."""
        local = self._local
        connections = [each for each in (local.writer, local.reader) if each is not None]
        if not any(map(_has_moved, connections)):
            return
        if not all(map(self._remove_old_log, connections)):
            raise self._replaced_error()
        for each in connections:
            each.close(True)
        local.reader, local.writer, local.is_snapshot = None, None, False
        for forget in self.on_replaced:
            forget()

    def _remove_old_log(self, connection: SnapshotConnection) -> bool:
        """Copy the log into the old file, and delete the log: SQLite finds a log by its name, and
        would apply it to the new file. Returns False if others still use the old file."""
        connection.set_busy_timeout(_CHECKPOINT_MS)
        try:
            with self._log_lock:  # another thread opens the new file, with its log, only after this
                with suppress(apsw.Error):
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                logs = [path for path in self._log_paths if _identity(path) in connection.log_files]
                if self.file + _LOG in logs and self.log_bytes() > 0:
                    return False
                for path in logs:
                    with suppress(FileNotFoundError):
                        os.unlink(path)
        finally:
            connection.set_busy_timeout(self._busy_ms)
        return True

    def _replaced_error(self) -> StoreBusy:
        return StoreBusy(
            f"{self.path} was replaced while it was open; nothing was written",
            "try again; before you replace a store, stop the programs that use it",
        )

    def _begin(self, connection: apsw.Connection, wait_s: float) -> None:
        """Take the write lock. A deadline shortens the wait for it."""
        left_ms = min(deadline.remaining_s(), wait_s) * 1000
        if left_ms < self._busy_ms:
            connection.set_busy_timeout(int(left_ms))
        try:
            _control(connection, "BEGIN IMMEDIATE")
        finally:
            if left_ms < self._busy_ms:
                connection.set_busy_timeout(self._busy_ms)

    def close(self) -> None:
        """Close every connection of every thread. The last connection checkpoints the log; a large
        log is checkpointed even if other processes stay connected."""
        if self._open:
            with suppress(KbError):
                self.checkpoint()
        with self._lock:
            for connection in list(self._open):
                with suppress(apsw.Error):
                    if _has_moved(connection):
                        self._remove_old_log(connection)
                    connection.close()
            self._open.clear()
            self._was_open = False
            if self._held:
                release_store(self.file)
                self._held = False
        self._local = _Local()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate errors of SQLite into errors of kb."""
        try:
            yield
        except apsw.Error as error:
            from kb.store.sqlite import error_translation  # not needed by most searches

            translated = error_translation.translate(error, self.file)
            # SQL functions fail with a generic error if a value has the wrong type.
            if type(translated) is StoreError and (what := self._damage()):
                raise column_checks.damage_error(what) from error
            raise translated from error
        except UnicodeEncodeError as error:
            # Lone surrogates, from JSON or from bytes that are not UTF-8.
            raise InvalidRequest(f"{error.object!r} is not Unicode text", "use UTF-8") from error
        except _DAMAGE_ERRORS as error:
            if what := self._damage():
                raise column_checks.damage_error(what) from error
            raise

    def _damage(self) -> str | None:
        """A part of the store with values that kb cannot have written, if there is one: the store
        is then the cause of an error. Uses a new connection."""
        try:
            connection = apsw.Connection(
                f"{_uri(self.file)}?mode=ro",
                flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            )
        except apsw.Error:
            return None
        try:
            return column_checks.diagnosis(connection)
        finally:
            connection.close()

    # --- opening --------------------------------------------------------------------------------

    def _reader(self) -> SnapshotConnection:
        if self._local.reader is None:
            self._refuse_special_file()
            if not self._has_content():
                if self._was_open:
                    raise self._moved_error()
                raise StoreMissing(
                    f"there is no store at {self.path}", "create one with: kb ingest FOLDER"
                )
            try:
                connection = self._open_readable()
            except apsw.IOError as error:
                connection = self._open_on_full_disk(error)
            if schema.version(connection, self.file) < schema.VERSION:
                self._migrate_if_possible(connection)
            self._local.reader = self._keep(connection)
        return self._local.reader

    def _migrate_if_possible(self, connection: apsw.Connection) -> None:
        """Migrate an old store, or, if it cannot be written, read it as it is."""
        try:
            if not self.read_only:
                self._writer()
                return
        except (StoreReadOnly, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError):
            pass
        schema.add_newer_tables(connection)

    def _open_readable(self) -> SnapshotConnection:
        """Open the file as a writer would, so that the last connection removes the log; or
        read-only; or, in a folder without write permission, as a file that nobody changes."""
        uri = _uri(self.file)
        flags = apsw.SQLITE_OPEN_READONLY
        attempts = [(uri + "?mode=ro", flags), (uri + "?immutable=1", flags)]
        if not self.read_only:
            attempts.insert(0, (uri + "?mode=rw", apsw.SQLITE_OPEN_READWRITE))
        for attempt, (name, mode) in enumerate(attempts, start=1):
            connection: SnapshotConnection | None = None
            try:
                connection = self._connect(name, mode)
                connection.execute("PRAGMA query_only = ON; SELECT 1 FROM sqlite_schema LIMIT 1")
            except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError):
                if connection is not None:
                    connection.close()
                if attempt == len(attempts) or self._log_is_needed(attempt, len(attempts)):
                    raise
            else:
                return connection
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _open_on_full_disk(self, error: apsw.IOError) -> SnapshotConnection:
        """Open the file without shared memory, for which the disk has no space. This ignores the
        log, so the log must be empty; and because a writer may start as soon as there is space, the
        connection serves one block only."""
        from kb.store.sqlite import error_translation

        if not error_translation.lacks_space(error) or self.log_bytes() > 0:
            raise error
        uri = f"{_uri(self.file)}?immutable=1"
        connection = self._connect(uri, apsw.SQLITE_OPEN_READONLY)
        self._local.is_snapshot = True
        return connection

    def _log_is_needed(self, attempt: int, last: int) -> bool:
        """Whether the log has commits that would be missing if the file were opened as
        immutable."""
        return attempt == last - 1 and self.log_bytes() > 0

    @property
    def _log_paths(self) -> tuple[str, str]:
        """The log and its index in shared memory."""
        return self.file + _LOG, self.file + "-shm"

    def _writer(self) -> SnapshotConnection:
        if self._local.writer is None:
            self._refuse_special_file()
            if self._was_open and not self._has_content():
                raise self._moved_error("; nothing was written")
            self._make_parent()
            try:
                self._local.writer = self._keep(self._open_writable())
            except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
                # The log cannot be created; a read-only mount raises CantOpenError.
                if not (self._has_content() and os.access(self.path, os.R_OK)):
                    raise
                raise StoreReadOnly(
                    f"{self.path} can be read, but not written",
                    f"check its permissions, and the permissions and mount options of "
                    f"{self.path.parent}",
                ) from error
        return self._local.writer

    def _moved_error(self, consequence: str = "") -> StoreMissing:
        return StoreMissing(
            f"{self.path} was moved or deleted while it was open{consequence}",
            "move it back, or restart this program with --store and its new path",
        )

    def _open_writable(self) -> SnapshotConnection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = self._connect(self.file, flags)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        if connection.readonly("main"):
            raise StoreReadOnly(f"{self.path} cannot be written", "check the file's permissions")
        if (version := schema.version(connection, self.file)) < schema.VERSION:
            if version == 0:  # later, only VACUUM can change it
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._use_wal(connection)
            schema.migrate(connection, self.file)
        # In WAL mode, NORMAL keeps the file consistent even after a power loss.
        connection.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        # Removed texts are overwritten, so that a backup does not contain them.
        connection.execute("PRAGMA secure_delete = ON").fetchall()

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Switch to WAL mode. When several processes create a store at once, SQLite fails here
        without waiting, because two waiting processes could deadlock."""
        end = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except apsw.BusyError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.005)

    def _connect(self, name: str, flags: int) -> SnapshotConnection:
        self._check_files_beside()
        with self._lock:
            if not self._held:
                hold_store(self.file)
                self._held = True
        uri = apsw.SQLITE_OPEN_URI if name.startswith("file:") else 0
        connection = SnapshotConnection(name, flags=flags | uri)
        connection.set_busy_timeout(self._busy_ms)
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.set_progress_handler(_check_deadline, _CHECK_STEPS)
        functions.register(connection, self._clock)
        return connection

    def _keep(self, connection: SnapshotConnection) -> SnapshotConnection:
        connection.log_files = tuple(filter(None, map(_identity, self._log_paths)))
        with self._lock:
            self._open.add(connection)
            self._was_open = True
        return connection

    def _has_content(self) -> bool:
        """Whether the store was ever written: an empty file was not."""
        try:
            return os.stat(self.file).st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StoreUnusable(
                f"cannot access {self.path}: {error.strerror}", "check the folder's permissions"
            ) from error

    def _check_files_beside(self) -> None:
        """Raise `StoreUnusable` for a log or journal that is not a regular file: SQLite would wait
        for a named pipe forever."""
        for suffix in ("-journal", "-wal", "-shm"):
            path = self.file + suffix
            try:
                mode = os.stat(path, follow_symlinks=False).st_mode
            except OSError:
                continue
            if not stat.S_ISREG(mode):
                raise StoreUnusable(f"{path} is not a regular file", f"remove it: {path}")

    def _refuse_special_file(self) -> None:
        """Raise `StoreUnusable` if the store is a folder, a pipe or a device: SQLite would wait for
        a named pipe forever."""
        try:
            mode = os.stat(self.file).st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode):
            raise StoreUnusable(f"{self.path} is a folder", "give a file, or the folder above it")
        if not stat.S_ISREG(mode):
            raise StoreUnusable(
                f"{self.path} is not a regular file", "choose another file with --store"
            )

    def _make_parent(self) -> None:
        try:
            os.makedirs(os.path.dirname(self.file) or ".", exist_ok=True)
        except OSError as error:
            raise StoreUnusable(
                f"cannot create the folder {self.path.parent}: {error.strerror}",
                "choose another location with --store",
            ) from error


def checkpoint_wait_ms(log_bytes: int) -> int:
    """How long a checkpoint waits for readers: longer if the log is larger."""
    return min(_CHECKPOINT_MS * log_bytes // LOG_BYTES, _MAX_CHECKPOINT_MS)


def _check_deadline() -> bool:
    """Called by SQLite while a statement runs. An exception ends the statement, and Ctrl-C
    works."""
    deadline.check()
    return False


def _control(connection: apsw.Connection, statement: str) -> None:
    """Begin or end a transaction without checking the deadline: an exception raised by the last
    step of the statement would leave the transaction open, or report a commit as canceled."""
    connection.set_progress_handler(None)
    try:
        connection.execute(statement)
    finally:
        connection.set_progress_handler(_check_deadline, _CHECK_STEPS)


def _roll_back(connection: apsw.Connection) -> None:
    """End the transaction, if there is one: SQLite may have already rolled it back (disk full) or
    never begun it (busy), and Ctrl-C may arrive just before or after a commit."""
    if not connection.getautocommit():
        _control(connection, "ROLLBACK")


def _has_moved(connection: apsw.Connection) -> bool:
    """Whether the connection's path now leads to another file, or to none. SQLite compares inodes;
    on Windows, an open file cannot be replaced."""
    moved = array("i", [0])
    address, _ = moved.buffer_info()
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, address)
    return moved[0] != 0


def _identity(path: str) -> tuple[int, int] | None:
    """The device and the inode of a file; None if there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _uri(path: str) -> str:
    """The URI of a file. What follows two slashes would be the name of a server."""
    return f"file:{'//' if path.startswith('//') else ''}{_quote(path)}"


def _quote(path: str) -> str:
    """Percent-encode the path for a URI, like `urllib.parse.quote`, whose module loads slowly."""
    return "".join(
        [chr(byte) if byte in _UNQUOTED else f"%{byte:02X}" for byte in os.fsencode(path)]
    )
