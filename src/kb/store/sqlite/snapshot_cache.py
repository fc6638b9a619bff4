"""Values that a snapshot reads only once, however many queries need them."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_STATE = """
SELECT chunks, changes,
  (SELECT min(expires_at) FROM documents WHERE expires_at IS NOT NULL),
  (SELECT change FROM vector_changes ORDER BY change DESC LIMIT 1),
  (SELECT stamp FROM vector_changes ORDER BY change DESC LIMIT 1),
  (SELECT json_group_array(json_array(model_id, segment, stamp)) FROM sparse_segments)
FROM state
"""


class SnapshotConnection(apsw.Connection):
    """A connection with a cache, which exists while a snapshot is open. `log_files` are the device
    and inode of the log and of its index, when the connection was opened."""

    cache: dict[str, Any] | None = None
    log_files: tuple[tuple[int, int], ...] = ()


def once(connection: apsw.Connection, key: str, read: Callable[[apsw.Connection], T]) -> T:
    """Call `read` once per snapshot, or each time if no snapshot is open."""
    cache: dict[str, Any] | None = getattr(connection, "cache", None)
    if cache is None:
        return read(connection)
    if key not in cache:
        cache[key] = read(connection)
    value: T = cache[key]
    return value


class StoreState(NamedTuple):
    """The counters of the store. `next_expiry` is the earliest time at which a document expires, in
    the past if one has expired already. The last three identify the vectors: the last change, its
    stamp, and the segments of sparse vectors, as JSON arrays of model, segment and stamp."""

    chunks: int
    changes: int
    next_expiry: str | None
    vector_change: int | None = None
    vector_stamp: int | None = None
    segments: str = "[]"

    def has_expired(self, now: str) -> bool:
        """Whether any document has expired by `now`."""
        if isinstance(self.next_expiry, str):
            return self.next_expiry <= now
        # A damaged value, which SQLite sorts before texts.
        return isinstance(self.next_expiry, int | float)


def store_state(connection: apsw.Connection) -> StoreState:
    """The state of the store; all counts are 0 if its row is missing, which `kb doctor` reports."""
    return once(connection, "state", _read_state)


def _read_state(connection: apsw.Connection) -> StoreState:
    row: Any = connection.execute(_STATE).fetchone()
    return StoreState(0, 0, None) if row is None else StoreState(*row)
