"""Which chunks a search over arrays may return, selected by the same SQL as in full-text search."""

from __future__ import annotations

import json

import apsw

from kb.store.sqlite import filters as where
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import store_state
from kb.types import Filters
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_FILTERS = 8


class Visible(NamedTuple):
    """The chunks of `select` (None: all chunks) without the `hidden` ones, which have expired.

    Expiry is separate from the filters, so that the chunks of a filter can be cached.
    """

    select: str | None
    params: tuple[Any, ...]
    hidden: list[int]
    now: str

    def exclude_expired(self) -> Visible:
        """The same chunks, where `select` excludes the expired ones instead of `hidden`."""
        select = self.select or where.CHUNKS_OF + "1"
        select += " AND (d.expires_at IS NULL OR d.expires_at > ?)"
        return Visible(select, (*self.params, self.now), [], self.now)


def visible(connection: apsw.Connection, filters: Filters, now: str) -> Visible:
    sql = where.CHUNKS_OF + "d.expires_at <= ?"
    hidden = []
    if store_state(connection).has_expired(now):
        hidden = [chunk_id for (chunk_id,) in connection.execute(sql, (now,))]
    if not filters:
        return Visible(None, (), hidden, now)
    condition, params = where.condition(connection, filters, None)
    return Visible(where.CHUNKS_OF + condition, tuple(params), hidden, now)


def chunk_ids(connection: apsw.Connection, seen: Visible) -> list[int]:
    """The ids of the chunks of `select`, in order."""
    assert seen.select is not None
    rows = connection.execute(f"{seen.select} ORDER BY 1", seen.params)
    return [chunk_id for (chunk_id,) in rows]


class FilterCache:
    """Caches the chunks of the latest filters until a document changes. Threads may share it."""

    def __init__(self) -> None:
        self._filtered: dict[tuple[Any, ...], NDArray[np.int64]] = {}

    def forget(self) -> None:
        """Clear the cache."""
        self._filtered = {}

    def chunk_ids(self, connection: apsw.Connection, seen: Visible) -> NDArray[np.int64]:
        """The ids of the chunks of `select`, in order."""
        import numpy as np

        version = scalar(connection, "SELECT store_id || changes FROM state")
        key = (version, seen.select, seen.params)
        if (known := self._filtered.get(key)) is None:
            known = np.array(chunk_ids(connection, seen), np.int64)
            kept = [item for item in self._filtered.items() if item[0][0] == version]
            self._filtered = {**dict(kept[1 - _MAX_FILTERS :]), key: known}
        return known


def filter_visible(connection: apsw.Connection, seen: Visible, chunk_ids: list[int]) -> list[int]:
    """The chunks of `chunk_ids` that may be returned."""
    ids = set(chunk_ids) - set(seen.hidden)
    if seen.select is None or not ids:
        return sorted(ids)
    rows = connection.execute(
        f"{seen.select} AND c.chunk_id IN (SELECT value FROM json_each(?))",
        (*seen.params, json.dumps(sorted(ids))),
    )
    return [chunk_id for (chunk_id,) in rows]
