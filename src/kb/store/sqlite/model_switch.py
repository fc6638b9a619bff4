"""From one model's vectors to another's, without a gap. Each function runs inside a transaction
that its caller holds.

    search -> (kept, or gone)        the one that answers
    next   -> search                 the one that is built beside it

One row says which vectors answer, so a reader sees the old ones or the new ones, never both. What
has gone is dropped last and piece by piece, when no search can have begun with it.

Nobody is to lose by a change: the next vectors answer when no chunk waits for one, and when each
chunk that the old ones have is among the new ones. What the new model cannot take so holds it up,
unless a user says that it shall not.
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
    asked = (spec.name, spec.version, spec.dimension)
    known = {(one.name, one.version, one.dimension): one for one in embeddings.models(connection)}
    same = known.get(asked)
    if same is not None and same.role == "gone":
        raise NotFound(
            f"the vectors of {spec.name} {spec.version} are being dropped", "give it again"
        )
    if same is None or same.role != "next":
        _give_up_next(connection)
    if same is not None and same.role in ("search", "next"):
        return _taken_up(connection, same, source, keep_old)
    answering = next((one for one in known.values() if one.role == "search"), None)
    if answering is not None and not answering.ready:
        connection.execute("DELETE FROM models WHERE model_id = ?", (answering.model_id,))
        answering = None
    role = "search" if answering is None else "next"
    if same is None:
        same = embeddings.add_model(connection, spec, role, source)
    connection.execute("UPDATE models SET role = ? WHERE model_id = ?", (role, same.model_id))
    return _taken_up(connection, same, source, keep_old)


def _taken_up(
    connection: apsw.Connection, model: StoredModel, source: str | None, keep_old: bool
) -> StoredModel:
    connection.execute(
        "UPDATE models SET source = ?, keep_old = ? WHERE model_id = ?",
        (source, keep_old, model.model_id),
    )
    return embeddings.model(connection, model.model_id)


def _give_up_next(connection: apsw.Connection) -> None:
    """Another model was on its way. Nobody asks for what there is of it, or ever did."""
    if scalar(connection, "SELECT 1 FROM models WHERE role = 'next'"):
        _make_place(connection)
        connection.execute("UPDATE models SET role = 'gone' WHERE role = 'next'")


def _make_place(connection: apsw.Connection) -> None:
    """For one that goes: what has gone before goes wholly."""
    while drop_retired(connection, 1_000_000):
        pass


def is_ready(connection: apsw.Connection, model_id: int, *, force: bool) -> bool:
    """Whether the vectors of that model may answer. With `force`, what it has failed with does not
    count; still it must have taken something."""
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
    return not new.pending and (old is None or not _losses(connection, old, new))


def _failing(connection: apsw.Connection, model_id: int) -> int:
    """Those that have failed, and are to be tried again."""
    sql = (
        "SELECT count(*) FROM embeddings "
        "WHERE model_id = ? AND state <> 'ready' AND state = 'pending' AND attempts > 0"
    )
    return int(scalar(connection, sql, (model_id,)))


def _losses(connection: apsw.Connection, old: StoredModel, new: StoredModel) -> bool:
    """Whether a chunk that the old ones have has failed for good with the new ones."""
    sql = (
        "SELECT 1 FROM embeddings n JOIN embeddings o ON o.chunk_id = n.chunk_id "
        "WHERE n.model_id = ? AND n.state <> 'ready' AND o.model_id = ? AND o.state = 'ready'"
    )
    args = (new.model_id, old.model_id)
    return bool(new.failed and scalar(connection, f"{sql} LIMIT 1", args))


def switch(connection: apsw.Connection, model_id: int, *, force: bool) -> bool:
    if not is_ready(connection, model_id, force=force):
        return False
    if embeddings.model(connection, model_id).role == "search":
        return True
    keep_old = scalar(connection, "SELECT keep_old FROM models WHERE model_id = ?", (model_id,))
    _make_place(connection)
    connection.execute(
        "UPDATE models SET role = ? WHERE role = 'search'", (None if keep_old else "gone",)
    )
    connection.execute("UPDATE models SET role = 'search' WHERE model_id = ?", (model_id,))
    # For those that tell by it whether an answer could be another.
    connection.execute(
        "INSERT INTO vector_changes (model_id, chunk_id, stamp) VALUES (?, 0, random())",
        (model_id,),
    )
    return True


def drop_retired(connection: apsw.Connection, limit: int) -> bool:
    """The postings go first, segment by segment, so that no chunk has to be taken out of them."""
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
