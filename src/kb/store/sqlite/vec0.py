"""Dense search by sqlite-vec: `chunks_vec`, a table derived from `embeddings`.

It is made by the first write that asks for it, and follows in the transactions that write vectors.
What has changed since (a document that was removed) is known from `vector_changes`: a search
leaves such rows of the table out, and scores what replaced them itself. So it is exact without
writing anything.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import apsw

from kb.index import cosine
from kb.store.sqlite import embeddings, visibility
from kb.store.sqlite.embeddings import Mark
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.visibility import Visible
from kb.types import StoredModel, Vector

TABLE = "chunks_vec"
_MOST = 4096  # sqlite-vec refuses a larger k
_MARGIN = 32
_MAPPED_BYTES = 1 << 30
_MANY = 1000  # rows that have changed since; more are a reason to do without the table
_HIDDEN = 100  # rows left out after the fact; more are left out by SQL


# --- the extension --------------------------------------------------------------------------------


@cache
def library() -> str | None:
    """The extension's file, found without importing its package, which imports numpy."""
    from importlib.util import find_spec

    found = find_spec("sqlite_vec")
    if found is None or found.origin is None:
        return None
    return str(Path(found.origin).with_name("vec0"))


def load(connection: apsw.Connection) -> bool:
    """Make the connection know sqlite-vec; False where that is not possible."""
    if scalar(connection, "SELECT 1 FROM pragma_module_list WHERE name = 'vec0'"):
        return True
    if (path := library()) is None:
        return False
    try:
        connection.enable_load_extension(True)
        connection.load_extension(path)
        # Every search reads the whole table: mapped, that takes half the time.
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
    except (apsw.Error, AttributeError, OSError):
        return False
    finally:
        connection.enable_load_extension(False)
    return True


# --- the table ------------------------------------------------------------------------------------


def position(connection: apsw.Connection, model_id: int) -> Mark | None:
    """How far the table has followed this model's vectors; None: it does not."""
    row = connection.execute(
        "SELECT change, stamp FROM vector_indexes WHERE name = ? AND model_id = ? "
        "AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?)",
        (TABLE, model_id, TABLE),
    ).fetchone()
    return Mark(*row) if row else None


def reason(connection: apsw.Connection, model_id: int) -> str:
    """Why the table did not answer."""
    if library() is None:
        return "sqlite-vec is not installed"
    if not load(connection):
        return "sqlite-vec cannot be loaded"
    at = position(connection, model_id)
    if at is None:
        return "sqlite-vec has no table of these vectors yet, kb embed makes it"
    if not embeddings.follows(connection, at) or (
        len(embeddings.changed(connection, model_id, at)) > _MANY
    ):
        return "sqlite-vec's table is behind, kb embed brings it up to date"
    return "sqlite-vec cannot give so many"


def exists(connection: apsw.Connection) -> bool:
    return bool(scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLE,)))


def reconcile(connection: apsw.Connection, model: StoredModel) -> None:
    """Bring the table to the vectors of now, in a transaction that writes."""
    at = position(connection, model.model_id)
    if at is not None and embeddings.follows(connection, at):
        _follow(connection, model.model_id, at)
    else:
        rebuild(connection, model)
    _note(connection, model.model_id)


def rebuild(connection: apsw.Connection, model: StoredModel) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    connection.execute(
        f"CREATE VIRTUAL TABLE {TABLE} USING vec0 (chunk_id INTEGER PRIMARY KEY, "
        f"embedding float[{model.dimension}] distance_metric=cosine)"
    )
    connection.execute(
        f"INSERT INTO {TABLE} (chunk_id, embedding) SELECT chunk_id, dense FROM embeddings "
        "WHERE model_id = ? AND state = 'ready' ORDER BY chunk_id",
        (model.model_id,),
    )
    _note(connection, model.model_id)


def _follow(connection: apsw.Connection, model_id: int, since: Mark) -> None:
    changed = [(chunk_id,) for chunk_id in embeddings.changed(connection, model_id, since)]
    connection.executemany(f"DELETE FROM {TABLE} WHERE chunk_id = ?", changed)
    connection.executemany(
        f"INSERT INTO {TABLE} (chunk_id, embedding) SELECT chunk_id, dense FROM embeddings "
        f"WHERE chunk_id = ? AND model_id = {model_id:d} AND state = 'ready'",
        changed,
    )


def _note(connection: apsw.Connection, model_id: int) -> None:
    connection.execute(
        "INSERT INTO vector_indexes VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "model_id = excluded.model_id, change = excluded.change, stamp = excluded.stamp",
        (TABLE, model_id, *embeddings.mark(connection)),
    )


# --- searching ------------------------------------------------------------------------------------


def nearest(
    connection: apsw.Connection,
    model: StoredModel,
    query: Vector[float],
    seen: Visible,
    limit: int,
) -> dict[int, Vector[float]] | None:
    """The candidates for the first `limit` places; None where the table cannot tell."""
    at = position(connection, model.model_id)
    if at is None or not embeddings.follows(connection, at) or not load(connection):
        return None
    changed = embeddings.changed(connection, model.model_id, at)
    if len(changed) > _MANY:
        return None
    if len(seen.hidden) > _HIDDEN:
        seen = seen.in_time()
    found = _unchanged(connection, query, seen, {*changed, *seen.hidden}, limit)
    if found is None:
        return None
    found += visibility.some(connection, seen, changed)
    return embeddings.dense_vectors(connection, model.model_id, found)


def _unchanged(
    connection: apsw.Connection, query: Vector[float], seen: Visible, out: set[int], limit: int
) -> list[int] | None:
    """Candidates of the table that are not `out`: all that come close to the last place, for which
    it is asked for more until the last answer is clearly behind."""
    slack = cosine.slack(len(query)) + 1e-6  # a cosine distance has a few roundings of its own
    k = limit + len(out) + _MARGIN
    while k <= _MOST:
        rows = _asked(connection, query, seen, k)
        rest = [row for row in rows if row[0] not in out]
        least = rest[limit - 1][1] + slack if len(rest) >= limit else 3.0
        if len(rows) < k or rows[-1][1] > least:
            return [chunk_id for chunk_id, distance in rest if distance <= least]
        k = min(2 * k, _MOST) if k < _MOST else _MOST + 1
    return None


def _asked(
    connection: apsw.Connection, query: Vector[float], seen: Visible, k: int
) -> list[tuple[int, float]]:
    among = "" if seen.select is None else f"AND chunk_id IN ({seen.select})"
    rows: Any = connection.execute(
        f"SELECT chunk_id, distance FROM {TABLE} WHERE embedding MATCH ? AND k = ? {among} "
        "ORDER BY distance",
        (cosine.to_bytes(query), k, *seen.params),
    )
    return list(rows)
