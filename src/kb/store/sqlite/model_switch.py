"""Switches from one model to another without interrupting searches. Each function runs in the
caller's transaction.

    search -> None or gone    the model that searches use; its vectors are kept or dropped
    next   -> search          the model whose vectors are built beside it

One row decides which model searches use, so that a reader sees the old vectors or the new ones,
never both. Vectors of a `gone` model are dropped later, in small steps, when no search uses them.

A switch must not lose anything: it waits until no chunk is pending and the new model has a vector
for each chunk that the old one has. Chunks that the new model cannot encode block the switch,
unless the user forces it.
"""

from __future__ import annotations

import apsw

from kb.errors import NotFound
from kb.store.sqlite import embeddings
from kb.store.sqlite.functions import scalar
from kb.types import ModelSpec, StoredModel


def begin(
    connection: apsw.Connection, spec: ModelSpec, source: str | None, *, keep_old: bool
) -> StoredModel:
    identity = (spec.name, spec.version, spec.dimension)
    known = {(one.name, one.version, one.dimension): one for one in embeddings.models(connection)}
    same = known.get(identity)
    if same is not None and same.role == "gone":
        raise NotFound(
            f"the vectors of {spec.name} {spec.version} are being dropped", "run the command again"
        )
    if same is None or same.role != "next":
        _abandon_next(connection)
    if same is not None and same.role in ("search", "next"):
        return _resume(connection, same, source, keep_old)
    answering = next((one for one in known.values() if one.role == "search"), None)
    if answering is not None and not answering.ready:
        connection.execute("DELETE FROM models WHERE model_id = ?", (answering.model_id,))
        answering = None
    role = "search" if answering is None else "next"
    if same is None:
        same = embeddings.add_model(connection, spec, role, source)
    connection.execute("UPDATE models SET role = ? WHERE model_id = ?", (role, same.model_id))
    return _resume(connection, same, source, keep_old)


def _resume(
    connection: apsw.Connection, model: StoredModel, source: str | None, keep_old: bool
) -> StoredModel:
    connection.execute(
        "UPDATE models SET source = ?, keep_old = ? WHERE model_id = ?",
        (source, keep_old, model.model_id),
    )
    return embeddings.model(connection, model.model_id)


def _abandon_next(connection: apsw.Connection) -> None:
    """Abandon an unfinished switch; its vectors were never used."""
    if scalar(connection, "SELECT 1 FROM models WHERE role = 'next'"):
        _drop_replaced(connection)
        connection.execute("UPDATE models SET role = 'gone' WHERE role = 'next'")


def _drop_replaced(connection: apsw.Connection) -> None:
    """Drop all vectors of an earlier `gone` model, because there can be only one such model."""
    while drop_retired(connection, 1_000_000):
        pass


def is_ready(connection: apsw.Connection, model_id: int, *, force: bool) -> bool:
    """Whether searches may use the model. `force` ignores chunks that it failed on, but requires at
    least one vector."""
    known = embeddings.models(connection)
    new = next((one for one in known if one.model_id == model_id), None)
    if new is None or new.role not in ("search", "next"):
        return False
    if new.role == "search":
        return True
    if force:
        is_empty = not new.ready and bool(new.pending or new.failed)
        return new.pending <= _failing(connection, model_id) and not is_empty
    old = next((one for one in known if one.role == "search"), None)
    return not new.pending and (old is None or not _has_losses(connection, old, new))


def _failing(connection: apsw.Connection, model_id: int) -> int:
    """How many chunks have failed and will be tried again."""
    sql = (
        "SELECT count(*) FROM embeddings "
        "WHERE model_id = ? AND state <> 'ready' AND state = 'pending' AND attempts > 0"
    )
    return int(scalar(connection, sql, (model_id,)))


def _has_losses(connection: apsw.Connection, old: StoredModel, new: StoredModel) -> bool:
    """Whether the new model has permanently failed on a chunk that has a vector of the old
    model."""
    sql = (
        "SELECT 1 FROM embeddings n JOIN embeddings o ON o.chunk_id = n.chunk_id "
        "WHERE n.model_id = ? AND n.state <> 'ready' AND o.model_id = ? AND o.state = 'ready'"
    )
    args = (new.model_id, old.model_id)
    return bool(new.failed and scalar(connection, f"{sql} LIMIT 1", args))


def switch(connection: apsw.Connection, model_id: int, *, force: bool) -> bool:
    """Make searches use the model, if it is ready. Returns whether they do."""
    if not is_ready(connection, model_id, force=force):
        return False
    if embeddings.model(connection, model_id).role == "search":
        return True
    keep_old = scalar(connection, "SELECT keep_old FROM models WHERE model_id = ?", (model_id,))
    _drop_replaced(connection)
    connection.execute(
        "UPDATE models SET role = ? WHERE role = 'search'", (None if keep_old else "gone",)
    )
    connection.execute("UPDATE models SET role = 'search' WHERE model_id = ?", (model_id,))
    # Changes the version of the vectors, so that caches notice the switch.
    connection.execute(
        "INSERT INTO vector_changes (model_id, chunk_id, stamp) VALUES (?, 0, random())",
        (model_id,),
    )
    return True


def drop_retired(connection: apsw.Connection, limit: int) -> bool:
    """Drop some vectors of the `gone` model. Its segments are deleted first, so that no chunk has
    to be removed from them."""
    model_id = scalar(connection, "SELECT model_id FROM models WHERE role = 'gone'")
    if model_id is None:
        return False
    segment = scalar(
        connection, "SELECT min(segment) FROM sparse_segments WHERE model_id = ?", (model_id,)
    )
    if segment is not None:
        connection.execute("DELETE FROM sparse_chunks WHERE segment = ?", (segment,))
        connection.execute("DELETE FROM sparse_segments WHERE segment = ?", (segment,))
        return True
    connection.execute(
        "DELETE FROM embeddings WHERE embedding_id IN "
        "(SELECT embedding_id FROM embeddings WHERE model_id = ? LIMIT ?)",
        (model_id, limit),
    )
    if connection.changes() < limit:
        connection.execute("DELETE FROM models WHERE model_id = ?", (model_id,))
        return False
    return True
