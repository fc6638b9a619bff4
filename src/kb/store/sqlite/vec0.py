"""The sqlite-vec backend: `chunks_vec`, a table derived from `embeddings`.

The first write with this backend creates the table, and writes of vectors update it in their
transaction. `vector_changes` records what has changed since, such as deleted documents. A search
ignores these rows of the table and scores their replacements itself, so that it is exact without
writing.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_MOST = 4096  # the largest k that sqlite-vec accepts
_MARGIN = 32
_MAPPED_BYTES = 1 << 30
_MANY = 1000  # with more changed rows, the table is ignored
_HIDDEN = 100  # up to this many rows are excluded in Python, more by SQL


# --- the extension --------------------------------------------------------------------------------


@cache
def library() -> str | None:
    """The file of the extension, found without importing its package, which imports numpy."""
    from importlib.util import find_spec

    spec = find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).with_name("vec0"))


def load(connection: apsw.Connection) -> bool:
    """Load sqlite-vec into the connection. Returns False if that is not possible."""
    if scalar(connection, "SELECT 1 FROM pragma_module_list WHERE name = 'vec0'"):
        return True
    if (path := library()) is None:
        return False
    try:
        connection.enable_load_extension(True)
        connection.load_extension(path)
        # A search reads the whole table, in half the time if it is memory-mapped.
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
    except (apsw.Error, AttributeError, OSError):
        return False
    finally:
        connection.enable_load_extension(False)
    return True


# --- the table ------------------------------------------------------------------------------------


def position(connection: apsw.Connection, model_id: int) -> Mark | None:
    """The state of the model's vectors that the table reflects; None if there is no table for the
    model."""
    row = connection.execute(
        "SELECT change, stamp FROM vector_indexes WHERE name = ? AND model_id = ? "
        "AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?)",
        (TABLE, model_id, TABLE),
    ).fetchone()
    return Mark(*row) if row else None


def reason(connection: apsw.Connection, model_id: int) -> str:
    """Why the table could not be used."""
    if library() is None:
        return "sqlite-vec is not installed"
    if not load(connection):
        return "sqlite-vec cannot be loaded"
    at = position(connection, model_id)
    if at is None:
        return "sqlite-vec has no table of these vectors yet (kb embed creates it)"
    if not embeddings.follows(connection, at) or (
        len(embeddings.changed_chunks(connection, model_id, at)) > _MANY
    ):
        return "sqlite-vec's table is out of date (kb embed updates it)"
    return "sqlite-vec cannot return that many results"


def exists(connection: apsw.Connection) -> bool:
    return bool(scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLE,)))


def reconcile(connection: apsw.Connection, model: StoredModel) -> None:
    """Update the table to the current vectors, in a transaction that writes."""
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
    _insert(connection, embeddings.ready(connection, model.model_id))
    _note(connection, model.model_id)


def _follow(connection: apsw.Connection, model_id: int, since: Mark) -> None:
    changed = embeddings.changed_chunks(connection, model_id, since)
    connection.executemany(
        f"DELETE FROM {TABLE} WHERE chunk_id = ?", [(chunk_id,) for chunk_id in changed]
    )
    vectors = embeddings.dense_vectors(connection, model_id, changed)
    rows = ((chunk_id, cosine.to_bytes(vector)) for chunk_id, vector in vectors.items())
    _insert(connection, rows)


def _insert(connection: apsw.Connection, vectors: Iterable[tuple[int, bytes]]) -> None:
    connection.executemany(f"INSERT INTO {TABLE} (chunk_id, embedding) VALUES (?, ?)", vectors)


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
    """The candidates for the first `limit` hits; None if the table cannot be used."""
    at = position(connection, model.model_id)
    if at is None or not embeddings.follows(connection, at) or not load(connection):
        return None
    changed = embeddings.changed_chunks(connection, model.model_id, at)
    if len(changed) > _MANY:
        return None
    if len(seen.hidden) > _HIDDEN:
        seen = seen.exclude_expired()
    candidates = _table_candidates(connection, query, seen, {*changed, *seen.hidden}, limit)
    if candidates is None:
        return None
    candidates += visibility.filter_visible(connection, seen, changed)
    return embeddings.dense_vectors(connection, model.model_id, candidates)


def _table_candidates(
    connection: apsw.Connection, query: Vector[float], seen: Visible, out: set[int], limit: int
) -> list[int] | None:
    """Candidates from the table that are not in `out`. More are requested until the last one is
    clearly below the limit."""
    slack = cosine.slack(len(query)) + 1e-6  # cosine distances have rounding errors
    k = limit + len(out) + _MARGIN
    while k <= _MOST:
        rows = _nearest_rows(connection, query, seen, k)
        rest = [row for row in rows if row[0] not in out]
        least = rest[limit - 1][1] + slack if len(rest) >= limit else 3.0
        if len(rows) < k or rows[-1][1] > least:
            return [chunk_id for chunk_id, distance in rest if distance <= least]
        k = min(2 * k, _MOST) if k < _MOST else _MOST + 1
    return None


def _nearest_rows(
    connection: apsw.Connection, query: Vector[float], seen: Visible, k: int
) -> list[tuple[int, float]]:
    among = "" if seen.select is None else f"AND chunk_id IN ({seen.select})"
    rows: Any = connection.execute(
        f"SELECT chunk_id, distance FROM {TABLE} WHERE embedding MATCH ? AND k = ? {among} "
        "ORDER BY distance",
        (cosine.to_bytes(query), k, *seen.params),
    )
    return list(rows)
