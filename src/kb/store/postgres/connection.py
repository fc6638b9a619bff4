"""Database: transactions on pooled connections, and translated errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import ceil, inf
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from kb import deadline
from kb.errors import (
    DiskFull,
    InvalidRequest,
    KbError,
    SnapshotLost,
    StoreBusy,
    StoreError,
    StoreMissing,
    StoreReadOnly,
    StoreUnusable,
)
from kb.snapshots import repeat_if_lost
from kb.store.postgres import schema
from kb.store.postgres.location import Location
from kb.store.postgres.pool import Connection, Pool
from kb.store.postgres.session import Session
from kb.store.postgres.standbys import Standbys, is_conflict
from kb.store.postgres.texts import register_text
from kb.store.postgres.watchdog import Watchdog

_CONNECTIONS = 16  # for readers, and as many for writers, in each process
_CONNECT_TIMEOUT_S = 10
_GRACE_S = 1.0  # extra time in which the server may end a statement itself
_IDLE_S = 60.0  # how long a writing transaction may wait for its client
_KEEPALIVES: dict[str, Any] = {
    "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}  # fmt: skip
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0  # between attempts
_Value = TypeVar("_Value")


class _Local(threading.local):
    session: Session | None = None  # of the outermost `reading` block
    depth = 0


class Database:
    """The database and its connections. Threads may share it; each reads in its own snapshot."""

    def __init__(
        self,
        location: Location,
        *,
        read_only: bool,
        busy_timeout_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.location = location
        self.read_only = read_only
        self._busy_s = busy_timeout_s
        self.clock = clock
        self._local = _Local()
        # Two pools, so that threads that write inside a snapshot cannot deadlock.
        self._readers = Pool(self.connect, _CONNECTIONS)
        self._writers = Pool(self.connect, _CONNECTIONS)
        self._standbys = None
        if location.standby_dsn is not None:
            self._standbys = Standbys(Pool(self._connect_standby, _CONNECTIONS))
        self._is_current = False  # the store exists, with the newest schema
        self._path: str | None = None  # the schemas in which names are resolved, once it exists
        self._watchdog = Watchdog()

    @property
    def databases(self) -> Sequence[Database]:
        """The database of each shard."""
        return (self,)

    def exists(self) -> bool:
        """Whether the store has been created."""
        if self._is_current:
            return True
        with self.errors(), self._connection(self._readers) as connection:
            return schema.version(connection, self.location) is not None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the store until the outermost block ends."""
        deadline.check()
        if self._local.session is not None:
            with self.errors():
                yield self._local.session
            return
        with self.errors(), self._snapshot() as (connection, lag_s):
            session = Session(connection, self.location, self.clock, reads=True)
            session.lag_s, session.on_standby = lag_s or 0.0, lag_s is not None
            self._local.session = session
            try:
                yield session
            finally:
                self._local.session = None
                _roll_back(connection)

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[Connection, float | None]]:
        """A connection in a new snapshot, and by how many seconds the state of a standby may lag;
        None for the primary. A standby is used if it has everything that this process has
        written. If it ends the read, `SnapshotLost` is raised, and the primary is read for now."""
        standbys = self._standbys
        if standbys is not None and self._is_current and not standbys.is_resting:
            with self._connection(standbys.pool, _READ) as connection:
                if (lag_s := standbys.lag_s(connection)) is not None:
                    try:
                        yield connection, lag_s
                    except (psycopg.Error, StoreError) as error:
                        if not self._is_lost(error):
                            raise
                        standbys.rest()
                        raise self._snapshot_lost() from error
                    return
                _roll_back(connection)
        with self._connection(self._readers, _READ) as connection:
            yield connection, None

    def _is_lost(self, error: BaseException) -> bool:
        """Whether the standby has ended the read that raised this error."""
        cause = error.__cause__ if isinstance(error, StoreError) else error
        return is_conflict(cause) or is_connection_error(cause) or isinstance(error, SnapshotLost)

    def _snapshot_lost(self) -> SnapshotLost:
        return SnapshotLost(f"a standby of {self.location.shown} ended the read", "try again")

    @contextmanager
    def writing(
        self, *, wait_s: float = inf, exclusive: bool = True, create: bool = True
    ) -> Iterator[Session]:
        """A transaction that is committed at the end of the block, and rolled back after an error.
        The first one creates the store. Writers of documents are `exclusive`: one at a time. Raises
        `StoreBusy` if a lock is not released within `wait_s` and the store's timeout."""
        if self.read_only:
            raise StoreReadOnly(
                f"{self.location.shown} was opened read-only", "open it without read_only"
            )
        wait_s = min(wait_s, self._busy_s, deadline.remaining_s())
        idle_s = max(_IDLE_S, self._busy_s)  # a suspended process must not block others
        begin = (
            f"BEGIN; SET LOCAL lock_timeout = {max(1, int(wait_s * 1000))}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(idle_s * 1000)}"
        )
        with self.errors(), self._connection(self._writers, begin) as connection:
            try:
                if not self._is_current:
                    self._prepare(connection, create=create)
                if exclusive:
                    schema.lock(connection, self.location.schema)
                session = Session(connection, self.location, self.clock)
                yield session
                session.count_changes()
                connection.execute("COMMIT")
                if self._standbys is not None:
                    self._standbys.wrote(connection)
            except BaseException:
                _roll_back(connection)
                raise
            if not self._is_current:
                self._use_current(connection)

    def read(self, work: Callable[[Session], _Value]) -> _Value:
        """Run `work` in a snapshot, and retry it if the connection is lost (see `retry`). Requests
        with a time limit are not retried, except on the primary if a standby has ended the read.
        Neither is a part of an outer snapshot, which ends with its connection."""

        @repeat_if_lost
        def attempt() -> _Value:
            with self.reading() as session:
                return work(session)

        if self._local.session is not None:
            with self.reading() as session:
                return work(session)
        if deadline.remaining_s() < inf:
            return attempt()
        return self.retry(attempt)

    def repeat(
        self, work: Callable[[Session], _Value], *, exclusive: bool = True, create: bool = True
    ) -> _Value:
        """Run `work` in a transaction, and retry it if the connection is lost (see `retry`)."""

        def attempt() -> _Value:
            with self.writing(exclusive=exclusive, create=create) as session:
                return work(session)

        return self.retry(attempt)

    def retry(self, attempt: Callable[[], _Value]) -> _Value:
        """Call `attempt`, which opens its own transaction, until the connection is not lost, or
        until the store's timeout. Only for idempotent work: a commit that seems to have failed may
        have succeeded."""
        end, wait_s = time.monotonic() + self._busy_s, _FIRST_WAIT_S
        while True:
            try:
                return attempt()
            except StoreError as error:
                is_lost = self._is_current and is_connection_error(error.__cause__)
                if not is_lost or time.monotonic() + wait_s > end:
                    raise
            deadline.check()
            self._readers.drop_idle()
            self._writers.drop_idle()
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """A connection outside any transaction, for statements that cannot run in one."""
        with self.errors(), self._connection(self._writers) as connection:
            yield connection

    def close(self) -> None:
        """Close every connection of every thread."""
        self._readers.close()
        self._writers.close()
        if self._standbys is not None:
            self._standbys.pool.close()
        self._is_current = False

    # --- connecting -------------------------------------------------------------------------------

    @contextmanager
    def _connection(self, pool: Pool, begin: str = "") -> Iterator[Connection]:
        """A pooled connection on which the statement `begin` was run. A connection that the server
        has closed, for instance by a restart, is replaced once."""
        connection = pool.take(min(self._busy_s, deadline.remaining_s()))
        begun = True
        try:
            with self._watch(connection):
                self._begin(connection, begin)
        except psycopg.OperationalError:
            lost = connection.broken
            pool.give(connection)
            if not lost:
                raise
            pool.drop_idle()
            deadline.check()
            connection = pool.take(min(self._busy_s, deadline.remaining_s()))
            begun = False
        except BaseException:
            pool.give(connection)
            raise
        try:
            with self._watch(connection):
                if not begun:
                    self._begin(connection, begin)
                yield connection
        finally:
            pool.give(connection)

    def _watch(self, connection: Connection) -> AbstractContextManager[None]:
        """End the wait for a server that does not respond within the deadline of this thread."""
        left_s = deadline.remaining_s()
        if left_s == inf:
            return nullcontext()
        return self._watchdog.watching(connection.fileno(), left_s + _GRACE_S)

    def _begin(self, connection: Connection, begin: str) -> None:
        if begin == _READ and not self._is_current:
            self._check(connection)
        left_s = deadline.remaining_s()
        # Rounded up: a statement that the server ends must be late here too.
        limit_ms = 0 if left_s == inf else max(1, ceil(left_s * 1000))
        scope = "LOCAL " if begin else ""
        connection.execute(
            f"{begin or 'SELECT 1'}; SET {scope}statement_timeout = {limit_ms}".encode()
        )

    def _check(self, connection: Connection) -> None:
        """Raise `StoreMissing` if there is no store; migrate an older one."""
        number = schema.version(connection, self.location)
        if number is None:
            raise self._missing()
        if number < schema.VERSION:
            if self.read_only:
                raise StoreUnusable(
                    f"{self.location.shown} has an older schema ({number})",
                    "run kb status once with a role that may change the schema",
                )
            with self.writing():
                pass
        self._use_current(connection)

    def _prepare(self, connection: Connection, *, create: bool) -> None:
        number = schema.version(connection, self.location)
        if number is None and not create:
            raise self._missing()
        if number != schema.VERSION:
            schema.migrate(connection, self.location, self.clock)
        schema.set_path(connection, self.location.schema)

    def _use_current(self, connection: Connection) -> None:
        """Skip further checks. Drop the connections opened before the store existed: they may not
        have found the schema of pgvector."""
        self._path = schema.set_path(connection, self.location.schema)
        self._readers.drop_idle()
        self._writers.drop_idle()
        self._is_current = True

    def _missing(self) -> StoreMissing:
        return StoreMissing(
            f"there is no store at {self.location.shown}", "create one with: kb ingest FOLDER"
        )

    def connect(self) -> Connection:
        """A new connection to the server that accepts writes."""
        return self._connect(self.location.dsn)

    def _connect_standby(self) -> Connection:
        return self._connect(self.location.standby_dsn or self.location.dsn)

    def _connect(self, dsn: str) -> Connection:
        try:
            given = conninfo_to_dict(self.location.dsn)
            connection: Connection = psycopg.connect(
                dsn,
                **{name: value for name, value in _KEEPALIVES.items() if name not in given},
                client_encoding="utf8",  # overrides the URL and the environment
                autocommit=True,  # transactions begin and end by explicit statements
                connect_timeout=max(1, int(min(_CONNECT_TIMEOUT_S, deadline.remaining_s()))),
                fallback_application_name="kb",
            )
        except psycopg.OperationalError as error:
            raise self._unreachable(error) from error
        except psycopg.ProgrammingError as error:
            raise InvalidRequest(
                "the URL of the store cannot be used: "
                + self.location.without_secrets(_text(error)),
                "use postgresql://USER@HOST/DATABASE?schema=NAME",
            ) from error
        try:
            register_text(connection)
            if self._path is None:
                schema.set_path(connection, self.location.schema)
            else:
                schema.use_path(connection, self._path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _unreachable(self, error: psycopg.OperationalError) -> StoreError:
        text, shown = self.location.without_secrets(_text(error)), self.location.shown
        if "password authentication failed" in text or "no password supplied" in text:
            return StoreUnusable(
                f"{shown}: {text}", "check the user and the password: ~/.pgpass or PGPASSWORD"
            )
        if "does not exist" in text and "database" in text:
            return StoreUnusable(f"{shown}: {text}", "create it with: createdb NAME")
        if "does not exist" in text or "pg_hba.conf" in text:
            return StoreUnusable(f"{shown}: {text}", "check the user, and the server's pg_hba.conf")
        if "session is read-only" in str(error) or "is not primary" in str(error):
            return StoreBusy(
                f"{shown}: none of the servers accepts writes",
                "wait for the failover, or promote a standby",
            )
        if "too many" in text or "starting up" in text or "shutting down" in text:
            return StoreBusy(f"{shown}: {text}", "try again in a moment")
        return StoreUnusable(
            f"{shown} cannot be reached: {text}",
            "check the host and the port, and that the server is running",
        )

    # --- errors -----------------------------------------------------------------------------------

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate errors of psycopg into errors of kb."""
        try:
            yield
        except errors.QueryCanceled as error:
            deadline.check()  # raises DeadlineExceeded or Cancelled
            raise StoreBusy(f"{self.location.shown}: {_text(error)}", "try again") from error
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            if not self._is_current:
                raise self._translate(error) from error
            self._is_current = False
            raise self._missing() from error
        except psycopg.OperationalError as error:
            deadline.check()
            raise self._translate(error) from error
        except psycopg.Error as error:
            raise self._translate(error) from error
        except UnicodeEncodeError as error:  # lone surrogates
            raise InvalidRequest(f"{error.object!r} is not Unicode text", "use UTF-8") from error

    def _translate(self, error: psycopg.Error) -> KbError:
        text, shown = _text(error), self.location.shown
        session = self._local.session
        if session is not None and session.on_standby and self._is_lost(error):
            return self._snapshot_lost()
        if isinstance(
            error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure
        ):
            return StoreBusy(
                f"{shown} is being written by another process",
                "try again, or raise store.busy_timeout_s",
            )
        if isinstance(error, errors.DiskFull | errors.InsufficientResources):
            return DiskFull(
                f"the server of {shown} has no space left: {text}",
                "free some space on the server and run the command again; "
                "what was already written is kept",
            )
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return StoreReadOnly(
                f"{shown}: {text}",
                "connect to the primary, with a role that may write",
            )
        if isinstance(
            error,
            psycopg.OperationalError
            | psycopg.InterfaceError
            | errors.IdleInTransactionSessionTimeout,
        ):
            return StoreBusy(
                f"the connection to {shown} was lost: {text}",
                "run the command again; what was already committed is kept",
            )
        return StoreError(
            f"{shown}: {type(error).__name__}: {text}", "if it happens again, run: kb doctor"
        )


def is_connection_error(error: BaseException | None) -> bool:
    """Whether the server was lost, has ended the connection, is restarting, or has become a
    standby."""
    if not isinstance(
        error,
        psycopg.OperationalError
        | psycopg.InterfaceError
        | errors.ReadOnlySqlTransaction
        | errors.IdleInTransactionSessionTimeout,
    ):
        return False
    state = error.sqlstate
    return state is None or state[:2] == "08" or state[:3] == "57P" or state in ("25006", "25P03")


def _roll_back(connection: Connection) -> None:
    """End the transaction, if there is one. A broken connection has none."""
    with suppress(psycopg.Error):
        if not connection.closed:
            connection.rollback()


def _text(error: BaseException) -> str:
    """The first line of a message. The others repeat the statement, or list every address that was
    tried."""
    text: Any = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
