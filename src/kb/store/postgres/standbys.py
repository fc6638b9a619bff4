"""Reads from a standby: its lag, and whether it has what this process has written."""

from __future__ import annotations

import threading
import time

from psycopg import errors

from kb.store.postgres.pool import Connection, Pool

# A standby that has replayed everything it received has no known lag, unless it has lost the
# primary. A primary has none.
_POSITION = """
SELECT pg_is_in_recovery(),
  NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %s::pg_lsn,
  CASE WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
      AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver) THEN 0
    ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END
"""
_NOTHING = "0/0"
_REST_S = 10.0
_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.InFailedSqlTransaction)


def is_conflict(error: BaseException | None) -> bool:
    """Whether a standby has ended a read, because it conflicts with a change to be replayed; or
    whether this is a later statement of such a read."""
    return isinstance(error, _CONFLICTS)


class Standbys:
    """The connections for reads, and the last write of this process. Threads may share it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._lock = threading.Lock()
        self._written = _NOTHING  # the position in the log; standbys that lack it are not read
        self._rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether the primary should be read for now."""
        return time.monotonic() < self._rests_until

    def rest(self) -> None:
        """Read the primary for a while, because the standby has ended a read."""
        self._rests_until = time.monotonic() + _REST_S
        self.pool.drop_idle()

    def wrote(self, connection: Connection) -> None:
        """Record the position in the log after a commit."""
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        with self._lock:
            self._written = _NOTHING if row is None else row[0]

    def lag_s(self, connection: Connection) -> float | None:
        """The lag of this connection's server in seconds, at the start of its snapshot; None if it
        lacks a write of this process."""
        row = connection.execute(_POSITION, (self._written,)).fetchone()
        if row is None or not row[1]:
            return None
        return float(row[2])
