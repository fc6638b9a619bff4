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

from typing import TYPE_CHECKING

from kb.errors import NotFound
from kb.store.postgres import embeddings, segments
from kb.types import ModelSpec, StoredModel

if TYPE_CHECKING:
    from kb.store.postgres.session import Session


def begin(session: Session, spec: ModelSpec, source: str | None, *, keep_old: bool) -> StoredModel:
    identity = (spec.name, spec.version, spec.dimension)
    known = {(one.name, one.version, one.dimension): one for one in embeddings.models(session)}
    same = known.get(identity)
    if same is not None and same.role == "gone":
        raise NotFound(
            f"the vectors of {spec.name} {spec.version} are being dropped", "run the command again"
        )
    if same is None or same.role != "next":
        _abandon_next(session)
    if same is not None and same.role in ("search", "next"):
        return _resume(session, same, source, keep_old)
    answering = next((one for one in known.values() if one.role == "search"), None)
    if answering is not None and not answering.ready:
        embeddings.delete_model(session, answering.model_id)
        answering = None
    role = "search" if answering is None else "next"
    if same is None:
        same = embeddings.add_model(session, spec, role, source)
    session.execute("UPDATE models SET role = %s WHERE model_id = %s", (role, same.model_id))
    return _resume(session, same, source, keep_old)


def _resume(
    session: Session, model: StoredModel, source: str | None, keep_old: bool
) -> StoredModel:
    session.execute(
        "UPDATE models SET source = %s, keep_old = %s WHERE model_id = %s",
        (source, keep_old, model.model_id),
    )
    return embeddings.model(session, model.model_id)


def _abandon_next(session: Session) -> None:
    """Abandon an unfinished switch; its vectors were never used."""
    if session.value("SELECT 1 FROM models WHERE role = 'next'"):
        _drop_replaced(session)
        session.execute("UPDATE models SET role = 'gone' WHERE role = 'next'")


def _drop_replaced(session: Session) -> None:
    """Drop all vectors of an earlier `gone` model, because there can be only one such model."""
    while drop_retired(session, 1_000_000):
        pass


def is_ready(session: Session, model_id: int, *, force: bool) -> bool:
    """Whether searches may use the model. `force` ignores chunks that it failed on, but requires at
    least one vector."""
    known = embeddings.models(session)
    new = next((one for one in known if one.model_id == model_id), None)
    if new is None or new.role not in ("search", "next"):
        return False
    if new.role == "search":
        return True
    if force:
        is_empty = not new.ready and bool(new.pending or new.failed)
        return new.pending <= _failing(session, model_id) and not is_empty
    old = next((one for one in known if one.role == "search"), None)
    return not new.pending and (old is None or not _has_losses(session, old, new))


def _failing(session: Session, model_id: int) -> int:
    """How many chunks have failed and will be tried again."""
    sql = (
        "SELECT count(*) FROM embeddings "
        "WHERE model_id = %s AND state <> 'ready' AND state = 'pending' AND attempts > 0"
    )
    return int(session.value(sql, (model_id,)))


def _has_losses(session: Session, old: StoredModel, new: StoredModel) -> bool:
    """Whether the new model has permanently failed on a chunk that has a vector of the old
    model."""
    sql = (
        "SELECT 1 FROM embeddings n JOIN embeddings o ON o.chunk_id = n.chunk_id "
        "WHERE n.model_id = %s AND n.state <> 'ready' AND o.model_id = %s AND o.state = 'ready'"
    )
    args = (new.model_id, old.model_id)
    return bool(new.failed and session.value(f"{sql} LIMIT 1", args))


def switch(session: Session, model_id: int, *, force: bool) -> bool:
    """Make searches use the model, if it is ready. Returns whether they do."""
    if not is_ready(session, model_id, force=force):
        return False
    if embeddings.model(session, model_id).role == "search":
        return True
    keep_old = session.value("SELECT keep_old FROM models WHERE model_id = %s", (model_id,))
    _drop_replaced(session)
    session.execute(
        "UPDATE models SET role = %s WHERE role = 'search'", (None if keep_old else "gone",)
    )
    session.execute("UPDATE models SET role = 'search' WHERE model_id = %s", (model_id,))
    session.changes.vectors += 1  # caches notice the switch
    return True


def drop_retired(session: Session, limit: int) -> bool:
    """Drop some vectors of the `gone` model. Its indexes are dropped first, so that no chunk has to
    be removed from them."""
    model_id = session.value("SELECT model_id FROM models WHERE role = 'gone' FOR UPDATE")
    if model_id is None:
        return False
    segments.lock_shared(session)
    segments.drop(session, "sparse", model_id)
    session.execute(f"DROP INDEX IF EXISTS {embeddings.index_name(model_id)}")
    rows = session.execute(
        "SELECT chunk_id FROM embeddings WHERE model_id = %s ORDER BY chunk_id LIMIT %s",
        (model_id, limit),
    )
    chunk_ids = [chunk_id for (chunk_id,) in rows]
    embeddings.delete(session, chunk_ids, model_id)
    if len(chunk_ids) < limit:
        embeddings.delete_model(session, model_id)
        return False
    return True
