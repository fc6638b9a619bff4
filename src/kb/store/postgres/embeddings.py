"""Models and embeddings as rows. Each function runs in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import NotFound, check_choice
from kb.index import cosine, sparse_weights, token_codes
from kb.store.model_rows import (
    ATTEMPTS,
    Due,
    combine,
    mismatch,
    passage,
    read_marks,
    status_of,
    with_counts,
)
from kb.store.postgres import filters as where
from kb.store.postgres import segments
from kb.text.timestamps import utc_timestamp
from kb.types import JsonDict, PendingChunk

if TYPE_CHECKING:
    from kb.store.postgres.session import Session
    from kb.types import ExamMark, Filters, ModelSpec, StoredModel, TokenVectors, Vector

_MODELS = """
SELECT model_id, name, version, dimension, ready, (SELECT chunks FROM state) - ready - failed,
  failed, sparse, tokens, ready - sparse, ready - tokens, role, source, marks
FROM models ORDER BY role IS DISTINCT FROM 'search', model_id
"""
# Expired documents cannot be found, but exist until `kb gc`.
_EXPIRED_VECTORS = """
SELECT count(*) FILTER (WHERE e.state = 'ready'), count(*) FILTER (WHERE e.state = 'failed'),
  count(*) FILTER (WHERE e.state = 'ready' AND e.sparse IS NULL),
  count(*) FILTER (WHERE e.state = 'ready' AND e.tokens IS NULL)
FROM documents d JOIN chunks c ON c.doc_id = d.doc_id
  JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = %s
WHERE d.expires_at <= %s
"""


def _now(session: Session) -> str:
    return utc_timestamp(session.clock())


# --- models ---------------------------------------------------------------------------------------


def models(session: Session) -> list[StoredModel]:
    return list(session.once("models", _models))


def _models(session: Session) -> list[StoredModel]:
    from kb.types import StoredModel

    expired = expired_chunks(session)
    records: dict[int, StoredModel] = {}
    for *row, marks in session.execute(_MODELS).fetchall():
        model = replace(StoredModel(*row), marks=read_marks(marks))
        known = records.get(model.model_id)
        records[model.model_id] = model if known is None else combine(known, model)
    found = list(records.values())
    if len(session.shards) > 1:  # some of them may lack the model
        chunks = session.state.chunks
        found = [replace(one, pending=chunks - one.ready - one.failed) for one in found]
    if expired:
        found = [_without_expired(session, one, expired) for one in found]
    return [replace(one, pending=max(0, one.pending)) for one in found]


def expired_chunks(session: Session) -> int:
    """How many chunks belong to expired documents."""
    return session.total(
        "SELECT count(*) FROM documents d JOIN chunks c USING (doc_id) WHERE d.expires_at <= %s",
        (_now(session),),
    )


def _without_expired(session: Session, model: StoredModel, expired: int) -> StoredModel:
    """The model's counts without expired chunks, which need no vectors."""
    row = session.totals(_EXPIRED_VECTORS, (model.model_id, _now(session)))
    ready, failed, no_sparse, no_tokens = row
    return replace(
        model,
        pending=model.pending - (expired - ready - failed),
        failed=model.failed - failed,
        no_sparse=model.no_sparse - no_sparse,
        no_tokens=model.no_tokens - no_tokens,
    )


def models_within(session: Session, filters: Filters) -> list[StoredModel]:
    """The models, with the counts of the chunks that a search with these filters can return."""
    condition, params = where.condition(session, filters, _now(session))
    sql = (
        "SELECT count(*), count(*) FILTER (WHERE e.state = 'ready'), "
        "count(*) FILTER (WHERE e.state = 'failed'), "
        "count(*) FILTER (WHERE e.state = 'ready' AND e.sparse IS NOT NULL), "
        "count(*) FILTER (WHERE e.state = 'ready' AND e.tokens IS NOT NULL) "
        "FROM documents d JOIN chunks c ON c.doc_id = d.doc_id "
        "LEFT JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = %s "
        f"WHERE {condition}"
    )
    return [
        with_counts(each, session.totals(sql, (each.model_id, *params))) for each in models(session)
    ]


def set_exam_marks(session: Session, model_id: int, marks: Sequence[ExamMark] | None) -> None:
    text = None if marks is None else json.dumps(marks)
    session.execute("UPDATE models SET marks = %s WHERE model_id = %s", (text, model_id))


def model(session: Session, model_id: int) -> StoredModel:
    for known in models(session):
        if known.model_id == model_id:
            return known
    raise NotFound(f"the store has no model {model_id}", "kb status shows its model")


def use_model(session: Session, spec: ModelSpec, source: str | None = None) -> StoredModel:
    """Return the record of the search model; create it if needed. A model without vectors is
    replaced."""
    identity = (spec.name, spec.version, spec.dimension)
    for known in models(session):
        if (known.name, known.version, known.dimension) == identity and known.role == "search":
            return known
        if known.ready:
            raise mismatch(known, spec)
        delete_model(session, known.model_id)
    return add_model(session, spec, "search", source)


def add_model(
    session: Session, spec: ModelSpec, role: str, source: str | None = None
) -> StoredModel:
    model_id = session.value(
        "INSERT INTO models (name, version, dimension, token_dimension, role, source) "
        "VALUES (%s, %s, %s, %s, %s, %s) RETURNING model_id",
        (spec.name, spec.version, spec.dimension, spec.token_dimension, role, source),
    )
    return model(session, model_id)


def delete_model(session: Session, model_id: int) -> None:
    """Delete a model with all of its vectors, jobs and indexes."""
    session.execute("SELECT 1 FROM models WHERE model_id = %s FOR UPDATE", (model_id,))
    segments.lock_shared(session)
    segments.drop(session, "sparse", model_id)
    session.execute(
        "DELETE FROM leases WHERE job_id IN (SELECT job_id FROM jobs WHERE model_id = %s)",
        (model_id,),
    )
    for table in ("jobs", "near_vectors", "embeddings", "models"):
        session.execute(f"DELETE FROM {table} WHERE model_id = %s", (model_id,))
    session.execute(f"DROP INDEX IF EXISTS {index_name(model_id)}")


def index_name(model_id: int) -> str:
    """The name of a model's HNSW index."""
    return f"near_vectors_hnsw_{model_id}"


def drop(session: Session) -> int:
    """Delete all vectors and models. Returns how many vectors there were."""
    known = models(session)
    for each in known:
        delete_model(session, each.model_id)
    session.changes.vectors += 1
    return sum(each.ready for each in known)


def counts(session: Session) -> list[JsonDict]:
    """How many chunks are in each state, for each model, with the error of the last failure."""
    return [status_of(each, last_error(session, each.model_id)) for each in models(session)]


def count_missing_part(
    session: Session, model_id: int, part: str, filters: Filters | None = None
) -> int:
    """How many vectors permanently lack this part, without those of expired documents."""
    only, params = where.among(session, filters)
    return session.total(
        "SELECT count(*) FROM embeddings e JOIN chunks c USING (chunk_id) "
        "JOIN documents d USING (doc_id) WHERE e.model_id = %s AND e.state = 'ready' "
        f"AND e.attempts >= {ATTEMPTS} AND e.{part} IS NULL "
        f"AND (d.expires_at IS NULL OR d.expires_at > %s){only}",
        (model_id, _now(session), *params),
    )


_FAILING = """
model_id = %(model_id)s AND error IS NOT NULL AND (state <> 'ready'
  OR (state = 'ready' AND sparse IS NULL) OR (state = 'ready' AND tokens IS NULL))
"""


def last_error(session: Session, model_id: int) -> str | None:
    """The error of the last chunk that failed, completely or in one part."""
    error: str | None = session.value(
        f"SELECT error FROM embeddings WHERE {_FAILING} "
        "ORDER BY embedded_at DESC, chunk_id DESC LIMIT 1",
        {"model_id": model_id},
    )
    return error


def failing(
    session: Session, model_id: int, limit: int, filters: Filters | None = None
) -> list[tuple[Any, ...]]:
    """Chunks whose last attempt failed, newest first: id, path, whether they have vectors, failed
    attempts, error, time, and whether kb has given up on them."""
    only, params = where.among(session, filters)
    rows = session.execute(
        "SELECT e.chunk_id, d.doc_path, e.state = 'ready', e.attempts, e.error, e.embedded_at, "
        f"e.state = 'failed' OR e.attempts >= {ATTEMPTS} "
        f"FROM (SELECT * FROM embeddings WHERE {_FAILING % {'model_id': '%s'}}) e "
        f"JOIN chunks c USING (chunk_id) JOIN documents d USING (doc_id) WHERE true{only} "
        "ORDER BY e.embedded_at DESC, e.chunk_id LIMIT %s",
        (model_id, *params, limit),
    ).fetchall()
    rows.sort(key=itemgetter(0))
    rows.sort(key=itemgetter(5), reverse=True)
    return rows[:limit]


# --- work -----------------------------------------------------------------------------------------


_DUE = """
(%(first)s::text IS NULL OR e.attempts = 0
  OR e.embedded_at <= CASE WHEN e.attempts = 1 THEN %(first)s ELSE %(others)s END)
"""
_LIVE = """
NOT EXISTS (SELECT 1 FROM documents d WHERE d.doc_id = c.doc_id AND d.expires_at <= %(now)s)
"""
_FREE = """
NOT EXISTS (SELECT 1 FROM leases l JOIN jobs j USING (job_id)
  WHERE l.model_id = %(model_id)s AND l.chunk_id = c.chunk_id AND j.job_id <> ALL (%(over)s))
"""
_IS_WAITING = f"(e.chunk_id IS NULL OR (e.state = 'pending' AND {_DUE})) AND {_LIVE} AND {_FREE}"
_WAITING = f"""
SELECT c.chunk_id, c.heading, c.text FROM chunks c
  LEFT JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = %(model_id)s
WHERE c.chunk_id > %(after)s {{among}} AND {_IS_WAITING}
ORDER BY c.chunk_id LIMIT %(limit)s
"""
_NEWEST = f"""
SELECT c.chunk_id FROM chunks c JOIN documents owner USING (doc_id)
  LEFT JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = %(model_id)s
WHERE c.chunk_id <> ALL (%(without)s) {{among}} AND {_IS_WAITING}
ORDER BY owner.updated_at DESC, c.doc_id DESC, c.chunk_id LIMIT %(limit)s
"""
_OF_DOCUMENT = "AND c.doc_id = %(doc_id)s"
_LACKING = f"""
SELECT c.chunk_id, c.heading, c.text FROM embeddings e JOIN chunks c USING (chunk_id)
WHERE e.model_id = %(model_id)s AND e.state = 'ready' AND e.{{part}} IS NULL
  AND e.chunk_id > %(after)s {{among}} AND e.attempts < {ATTEMPTS} AND {_DUE}
  AND {_LIVE} AND {_FREE}
ORDER BY e.chunk_id LIMIT %(limit)s
"""


def waiting(
    session: Session,
    model_id: int,
    limit: int,
    *,
    among: Sequence[int] | None = None,
    after: PendingChunk | None = None,
    doc_id: int | None = None,
    lacking: Set[str] = frozenset(),
    over: Sequence[int] = (),
    due: Due | None = None,
    lock: bool = False,
) -> list[PendingChunk]:
    """Chunks that need vectors, or, with `lacking`, whose vectors lack one of these parts, and that
    no job has leased. The leases of the jobs in `over` have ended. `among` limits them to these
    chunks, in this order, `doc_id` limits them to one document, `due` leaves out recent failures.
    Expired documents are always left out. `lock` leaves out chunks that another transaction is
    leasing."""
    known = model(session, model_id)
    params = _work_params(session, model_id, limit, doc_id, over, due)
    params["after"] = 0 if after is None else after.chunk_id
    only = "" if doc_id is None else _OF_DOCUMENT
    if among is not None:
        params |= {"among": list(among), "limit": len(among)}
        only += " AND c.chunk_id = ANY (%(among)s)"
    locked = "FOR NO KEY UPDATE OF c SKIP LOCKED" if lock else ""
    if not lacking:
        # Reading every chunk is avoided if none is pending.
        sql = _WAITING.format(among=only) + locked
        rows = session.execute(sql, params).fetchall() if known.pending else []
    else:
        found: set[tuple[Any, ...]] = set()
        for part in [part for part in sorted(lacking) if known.lacks(part)]:
            found.update(session.execute(_LACKING.format(part=part, among=only) + locked, params))
        rows = sorted(found)
    if among is not None:
        place = {chunk_id: at for at, chunk_id in enumerate(among)}
        rows.sort(key=lambda row: place[row[0]])
    return [
        PendingChunk(chunk_id, passage(heading, text)) for chunk_id, heading, text in rows[:limit]
    ]


def newest(
    session: Session,
    model_id: int,
    limit: int,
    *,
    doc_id: int | None = None,
    over: Sequence[int] = (),
    without: Sequence[int] = (),
    due: Due | None = None,
) -> list[int]:
    """The ids of chunks without vectors that no job has leased, those of the documents that changed
    last first."""
    if not model(session, model_id).pending:
        return []
    params = _work_params(session, model_id, limit, doc_id, over, due)
    sql = _NEWEST.format(among="" if doc_id is None else _OF_DOCUMENT)
    rows = session.execute(sql, {**params, "without": list(without)})
    return [chunk_id for (chunk_id,) in rows]


def _work_params(
    session: Session,
    model_id: int,
    limit: int,
    doc_id: int | None,
    over: Sequence[int],
    due: Due | None,
) -> dict[str, Any]:
    first, others = due or (None, None)
    return {"model_id": model_id, "limit": max(0, limit), "over": list(over),
            "now": _now(session), "first": first, "others": others, "doc_id": doc_id}  # fmt: skip


class NewVectors(NamedTuple):
    """The vectors of an existing chunk without vectors. `error` is the reason why a part is
    missing, and counts as a failed attempt."""

    chunk_id: int
    embedded_at: str | None
    dense: bytes
    sparse: str | None
    tokens: bytes | None
    error: str | None = None


def put(session: Session, model_id: int, rows: Sequence[NewVectors]) -> None:
    """Write the vectors of chunks."""
    if not rows:
        return
    failed = session.value(
        "SELECT count(*) FROM embeddings WHERE model_id = %s AND chunk_id = ANY (%s) "
        "AND state = 'failed'",
        (model_id, [row.chunk_id for row in rows]),
    )
    session.execute_many(
        "INSERT INTO embeddings (model_id, chunk_id, state, attempts, embedded_at, error, dense, "
        "sparse, tokens) VALUES (%s, %s, 'ready', %s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (model_id, chunk_id) DO UPDATE SET state = 'ready', "
        "attempts = excluded.attempts, error = excluded.error, "
        "embedded_at = excluded.embedded_at, dense = excluded.dense, sparse = excluded.sparse, "
        "tokens = excluded.tokens",
        [(model_id, row.chunk_id, int(row.error is not None), row.embedded_at, row.error,
          row.dense, row.sparse, row.tokens) for row in rows],
    )  # fmt: skip
    session.execute_many(
        "INSERT INTO near_vectors VALUES (%s, %s, %s::halfvec) "
        "ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector",
        [(model_id, row.chunk_id, vector_text(cosine.from_bytes(row.dense))) for row in rows],
    )
    with_sparse = [row.chunk_id for row in rows if row.sparse is not None]
    counted = session.changes.models
    counted[model_id, "ready"] += len(rows)
    counted[model_id, "failed"] -= failed
    counted[model_id, "sparse"] += len(with_sparse)
    counted[model_id, "tokens"] += sum(row.tokens is not None for row in rows)
    session.changes.vectors += 1
    segments.add_pending(session, "sparse", model_id, with_sparse)


def vector_text(vector: Sequence[float]) -> str:
    """A vector in pgvector's text format."""
    return f"[{','.join([f'{value:.8g}' for value in vector])}]"


def fill(
    session: Session,
    model_id: int,
    chunk_id: int,
    now: str,
    weights: str | None,
    tokens: bytes | None,
    error: str | None,
) -> None:
    """Add missing parts and keep existing ones. An incomplete attempt is counted."""
    row: Any = session.execute(
        "SELECT sparse IS NULL, tokens IS NULL FROM embeddings "
        "WHERE model_id = %s AND chunk_id = %s FOR UPDATE",
        (model_id, chunk_id),
    ).fetchone()
    session.execute(
        "UPDATE embeddings SET sparse = coalesce(sparse, %(sparse)s), "
        "tokens = coalesce(tokens, %(tokens)s), embedded_at = %(now)s, error = %(error)s, "
        "attempts = CASE WHEN %(error)s::text IS NULL THEN 0 ELSE attempts + 1 END "
        "WHERE model_id = %(model_id)s AND chunk_id = %(chunk_id)s",
        {"sparse": weights, "tokens": tokens, "now": now, "error": error,
         "model_id": model_id, "chunk_id": chunk_id},
    )  # fmt: skip
    lacked_sparse, lacked_tokens = row
    adds_sparse = lacked_sparse and weights is not None
    adds_tokens = lacked_tokens and tokens is not None
    session.changes.models[model_id, "sparse"] += adds_sparse
    session.changes.models[model_id, "tokens"] += adds_tokens
    session.changes.vectors += adds_sparse or adds_tokens
    if adds_sparse:
        segments.add_pending(session, "sparse", model_id, [chunk_id])


def fail(session: Session, model_id: int, chunk_id: int, error: str, now: str) -> None:
    """Count a failed attempt for an existing chunk without vectors."""
    state = session.value(
        "INSERT INTO embeddings AS e (model_id, chunk_id, state, attempts, embedded_at, error) "
        "VALUES (%s, %s, 'pending', 1, %s, %s) "
        "ON CONFLICT (model_id, chunk_id) DO UPDATE SET attempts = e.attempts + 1, "
        "embedded_at = excluded.embedded_at, error = excluded.error, "
        f"state = CASE WHEN e.attempts + 1 >= {ATTEMPTS} THEN 'failed' ELSE 'pending' END "
        "WHERE e.state = 'pending' RETURNING state",
        (model_id, chunk_id, now, error),
    )
    session.changes.models[model_id, "failed"] += state == "failed"


def retry(session: Session, model_id: int, doc_id: int | None = None) -> int:
    """Make failed chunks, and vectors with permanently failed parts, pending again, in one document
    or in all. Returns how many."""
    params = {"model_id": model_id, "doc_id": doc_id}
    among = (
        "AND (%(doc_id)s::bigint IS NULL OR chunk_id IN "
        "(SELECT chunk_id FROM chunks WHERE doc_id = %(doc_id)s))"
    )
    retried = session.execute(
        "UPDATE embeddings SET state = 'pending', attempts = 0 WHERE model_id = %(model_id)s "
        f"AND state <> 'ready' AND state = 'failed' {among}",
        params,
    ).rowcount
    session.changes.models[model_id, "failed"] -= retried
    for part in ("sparse", "tokens"):
        retried += session.execute(
            "UPDATE embeddings SET attempts = 0 WHERE model_id = %(model_id)s AND state = 'ready' "
            f"AND {part} IS NULL AND attempts >= {ATTEMPTS} {among}",
            params,
        ).rowcount
    return retried


def delete(session: Session, chunk_ids: Sequence[int], model_id: int | None = None) -> int:
    """Delete the vectors of chunks, of one model or all. The caller holds the lock of the indexes.
    Returns how many rows there were."""
    ids = list(chunk_ids)
    rows = session.execute(
        "DELETE FROM embeddings WHERE chunk_id = ANY (%(ids)s) "
        "AND (%(model_id)s::bigint IS NULL OR model_id = %(model_id)s) "
        "RETURNING model_id, state, sparse IS NOT NULL, tokens IS NOT NULL",
        {"ids": ids, "model_id": model_id},
    ).fetchall()
    for each, state, has_sparse, has_tokens in rows:
        if state == "pending":
            continue
        session.changes.models[each, state] -= 1
        session.changes.models[each, "sparse"] -= state == "ready" and has_sparse
        session.changes.models[each, "tokens"] -= state == "ready" and has_tokens
    ready = [each for each, state, *_ in rows if state == "ready"]
    if ready:
        session.execute(
            "DELETE FROM near_vectors WHERE chunk_id = ANY (%s) AND model_id = ANY (%s)",
            (ids, sorted(set(ready))),
        )
        if model_id is None:
            segments.remove(session, ids, kinds=("sparse",))
        session.changes.vectors += 1
    return len(rows)


# --- reading --------------------------------------------------------------------------------------


_READY = "WHERE model_id = %s AND chunk_id = ANY (%s) AND state = 'ready'"


def dense_vectors(
    session: Session, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, Vector[float]]:
    rows = session.execute(
        f"SELECT chunk_id, dense FROM embeddings {_READY}", (model_id, list(chunk_ids))
    )
    return {chunk_id: cosine.from_bytes(dense) for chunk_id, dense in rows}


def sparse_vectors(
    session: Session, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, sparse_weights.Weights]:
    rows = session.execute(
        f"SELECT chunk_id, sparse FROM embeddings {_READY} AND sparse IS NOT NULL",
        (model_id, list(chunk_ids)),
    )
    return {chunk_id: sparse_weights.from_text_or_empty(text) for chunk_id, text in rows}


def token_vectors(
    session: Session, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, TokenVectors]:
    rows = session.execute(
        f"SELECT chunk_id, tokens FROM embeddings {_READY} AND tokens IS NOT NULL",
        (model_id, list(chunk_ids)),
    ).fetchall()
    decoded = token_codes.decode_all([data for _, data in rows])
    return dict(zip((chunk_id for chunk_id, _ in rows), decoded, strict=True))


def chunks_with(session: Session, model_id: int, part: str, chunk_ids: Iterable[int]) -> set[int]:
    """The chunks whose vector has the part. Reads no vectors."""
    column = check_choice("part", part, ("dense", "sparse", "tokens"))
    rows = session.execute(
        f"SELECT chunk_id FROM embeddings {_READY} AND {column} IS NOT NULL",
        (model_id, list(chunk_ids)),
    )
    return {chunk_id for (chunk_id,) in rows}
