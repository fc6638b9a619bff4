"""From one model's vectors to another's, without a gap. Each function runs inside a transaction
that its caller holds.

    search -> (kept, or gone)        the one that answers
    next   -> search                 the one that is built beside it

One row says which vectors answer, so a reader sees the old ones or the new ones, never both. What
has gone is dropped last and piece by piece, when no search can have begun with it.
"""

from __future__ import annotations

import apsw

from kb.errors import NotFound
from kb.store import embeddings
from kb.store.functions import scalar
from kb.types import ModelSpec, StoredModel


def begin(connection: apsw.Connection, spec: ModelSpec, source: str | None) -> StoredModel:
    asked = (spec.name, spec.version, spec.dimension)
    known = {(one.name, one.version, one.dimension): one for one in embeddings.models(connection)}
    same = known.get(asked)
    if same is not None and same.role == "gone":
        raise NotFound(
            f"the vectors of {spec.name} {spec.version} are being dropped", "give it again"
        )
    if same is not None and same.role in ("search", "next"):
        return _from_source(connection, same, source)
    _give_up_next(connection)
    answering = next((one for one in known.values() if one.role == "search"), None)
    if answering is not None and not answering.ready:
        connection.execute("DELETE FROM models WHERE model_id = ?", (answering.model_id,))
        answering = None
    role = "search" if answering is None else "next"
    if same is None:
        return embeddings.add_model(connection, spec, role, source)
    connection.execute("UPDATE models SET role = ? WHERE model_id = ?", (role, same.model_id))
    return _from_source(connection, same, source)


def _from_source(
    connection: apsw.Connection, model: StoredModel, source: str | None
) -> StoredModel:
    connection.execute("UPDATE models SET source = ? WHERE model_id = ?", (source, model.model_id))
    return embeddings.model(connection, model.model_id)


def _give_up_next(connection: apsw.Connection) -> None:
    """Another model was on its way. What there is of it is kept: it may be asked for again."""
    connection.execute("UPDATE models SET role = NULL WHERE role = 'next'")


def to(connection: apsw.Connection, model_id: int, *, keep_old: bool) -> bool:
    new = embeddings.model(connection, model_id)
    if new.role == "search":
        return True
    if new.role != "next" or new.pending:
        return False
    while drop_some(connection, 1_000_000):
        pass  # what has gone before: there is one place for it
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


def drop_some(connection: apsw.Connection, limit: int) -> bool:
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
