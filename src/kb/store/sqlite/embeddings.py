"""Models and embeddings as rows. Each function runs in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from kb.errors import NotFound, check_choice
from kb.index import cosine, dense_codes, sparse_weights, token_codes
from kb.store.model_rows import (
    ATTEMPTS,
    Due,
    mismatch,
    passage,
    read_marks,
    status_of,
    with_counts,
)
from kb.store.sqlite import column_checks, vector_pieces
from kb.store.sqlite import filters as where
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import once, store_state
from kb.types import JsonDict, PendingChunk

if TYPE_CHECKING:
    from kb.types import ExamMark, Filters, ModelSpec, StoredModel, TokenVectors, Vector

_MODELS = """
SELECT model_id, name, version, dimension, ready, (SELECT chunks FROM state) - ready - failed,
  failed, sparse, tokens, ready - sparse, ready - tokens, role, source, marks
FROM models ORDER BY role IS NOT 'search', model_id
"""
# Expired documents cannot be found, but exist until `kb gc`.
_EXPIRED = "d.expires_at <= (SELECT kb_now())"
_EXPIRED_VECTORS = f"""
SELECT sum(e.state = 'ready'), sum(e.state = 'failed'),
  sum(e.state = 'ready' AND e.sparse IS NULL), sum(e.state = 'ready' AND e.tokens IS NULL)
FROM documents d CROSS JOIN chunks c ON c.doc_id = d.doc_id
  CROSS JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = ?
WHERE {_EXPIRED}
"""


class Mark(NamedTuple):
    """A state of all vectors: the number of the last change, and its random stamp."""

    change: int
    stamp: int


_SHAPE = column_checks.Shape(
    "models",
    ("model_id", "name", "version", "dimension", "ready", "pending", "failed", "sparse", "tokens",
     "no_sparse", "no_tokens", "role", "source"),
)  # fmt: skip


# --- models ---------------------------------------------------------------------------------------


def models(connection: apsw.Connection) -> list[StoredModel]:
    return list(once(connection, "models", _models))


def _models(connection: apsw.Connection) -> list[StoredModel]:
    from kb.types import StoredModel  # a lexical search does not need it

    expired = expired_chunks(connection)
    records = []
    for *row, marks in connection.execute(_MODELS):
        _SHAPE.check(row)
        model = replace(StoredModel(*row), marks=read_marks(marks))
        records.append(_without_expired(connection, model, expired) if expired else model)
    return [replace(one, pending=max(0, one.pending)) for one in records]


def expired_chunks(connection: apsw.Connection) -> int:
    """How many chunks belong to expired documents."""
    if store_state(connection).next_expiry is None:
        return 0
    sql = "SELECT count(*) FROM documents d CROSS JOIN chunks c ON c.doc_id = d.doc_id"
    return int(scalar(connection, f"{sql} WHERE {_EXPIRED}"))


def _without_expired(connection: apsw.Connection, model: StoredModel, expired: int) -> StoredModel:
    """The model's counts without expired chunks, which need no vectors."""
    row: Any = connection.execute(_EXPIRED_VECTORS, (model.model_id,)).fetchone()
    ready, failed, no_sparse, no_tokens = (int(count or 0) for count in row)
    return replace(
        model,
        pending=model.pending - (expired - ready - failed),
        failed=model.failed - failed,
        no_sparse=model.no_sparse - no_sparse,
        no_tokens=model.no_tokens - no_tokens,
    )


def models_within(connection: apsw.Connection, filters: Filters) -> list[StoredModel]:
    """The models, with the counts of the chunks that a search with these filters can return."""
    condition, params = where.condition(connection, filters, None)
    sql = (
        "SELECT count(*), total(e.state = 'ready'), total(e.state = 'failed'), "
        "total(e.state = 'ready' AND e.sparse IS NOT NULL), "
        "total(e.state = 'ready' AND e.tokens IS NOT NULL) "
        "FROM documents d JOIN chunks c ON c.doc_id = d.doc_id "
        "LEFT JOIN embeddings e ON e.chunk_id = c.chunk_id AND e.model_id = ? "
        f"WHERE {condition} AND {_EXPIRED} IS NOT TRUE"
    )
    return [
        with_counts(each, connection.execute(sql, (each.model_id, *params)).fetchone())
        for each in models(connection)
    ]


def set_exam_marks(
    connection: apsw.Connection, model_id: int, marks: Sequence[ExamMark] | None
) -> None:
    text = None if marks is None else json.dumps(marks)
    connection.execute("UPDATE models SET marks = ? WHERE model_id = ?", (text, model_id))


def model(connection: apsw.Connection, model_id: int) -> StoredModel:
    for known in models(connection):
        if known.model_id == model_id:
            return known
    raise NotFound(f"the store has no model {model_id}", "kb status shows its model")


def use_model(
    connection: apsw.Connection, spec: ModelSpec, source: str | None = None
) -> StoredModel:
    """Return the record of the search model; create it if needed. A model without vectors is
    replaced."""
    identity = (spec.name, spec.version, spec.dimension)
    for known in models(connection):
        if (known.name, known.version, known.dimension) == identity and known.role == "search":
            return known
        if known.ready:
            raise mismatch(known, spec)
        connection.execute("DELETE FROM models WHERE model_id = ?", (known.model_id,))
    return add_model(connection, spec, "search", source)


def add_model(
    connection: apsw.Connection, spec: ModelSpec, role: str, source: str | None = None
) -> StoredModel:
    connection.execute(
        "INSERT INTO models (name, version, dimension, token_dimension, role, source) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (spec.name, spec.version, spec.dimension, spec.token_dimension, role, source),
    )
    return model(connection, connection.last_insert_rowid())


def drop(connection: apsw.Connection) -> int:
    """Delete all vectors and models. Returns how many vectors there were."""
    gone = sum(each.ready for each in models(connection))
    connection.execute("DELETE FROM embeddings")
    connection.execute("DELETE FROM models")
    return gone


def counts(connection: apsw.Connection) -> list[JsonDict]:
    """How many chunks are in each state, for each model, with the error of the last failure."""
    return [status_of(each, last_error(connection, each.model_id)) for each in models(connection)]


def count_missing_part(
    connection: apsw.Connection, model_id: int, part: str, filters: Filters | None = None
) -> int:
    """How many vectors permanently lack this part, without those of expired documents."""
    only, params = where.among(connection, filters)
    sql = (
        f"SELECT count(*) FROM embeddings JOIN chunks USING (chunk_id) JOIN documents d "
        f"USING (doc_id) WHERE model_id = ? AND state = 'ready' AND attempts >= {ATTEMPTS} "
        f"AND {part} IS NULL AND {_EXPIRED} IS NOT TRUE{only}"
    )
    return int(scalar(connection, sql, (model_id, *params)))


def last_error(connection: apsw.Connection, model_id: int) -> str | None:
    """The error of the last chunk that failed, completely or in one part."""
    error: str | None = scalar(
        connection,
        "SELECT error FROM (SELECT error, embedded_at, chunk_id FROM embeddings "
        "WHERE model_id = ?1 AND state <> 'ready' UNION ALL "
        "SELECT error, embedded_at, chunk_id FROM embeddings WHERE model_id = ?1 "
        "AND state = 'ready' AND sparse IS NULL AND error IS NOT NULL UNION ALL "
        "SELECT error, embedded_at, chunk_id FROM embeddings WHERE model_id = ?1 "
        "AND state = 'ready' AND tokens IS NULL AND error IS NOT NULL) "
        "ORDER BY embedded_at DESC, chunk_id DESC LIMIT 1",
        (model_id,),
    )
    return error


# --- work -----------------------------------------------------------------------------------------


_OF_DOCUMENT = "AND c.doc_id = :doc_id"
_DUE = "(:first IS NULL OR attempts = 0 OR embedded_at <= iif(attempts = 1, :first, :others))"
_LIVE = f"NOT EXISTS (SELECT 1 FROM documents d WHERE d.doc_id = c.doc_id AND {_EXPIRED})"
_IS_WAITING = f"""
c.chunk_id NOT IN (SELECT value FROM json_each(:out))
  AND (NOT EXISTS
      (SELECT 1 FROM embeddings e WHERE e.chunk_id = c.chunk_id AND e.model_id = :model_id)
    OR c.chunk_id IN (SELECT chunk_id FROM embeddings
      WHERE model_id = :model_id AND state <> 'ready' AND state = 'pending' AND {_DUE}))
"""
_WAITING = f"""
SELECT chunk_id, heading, text FROM chunks c WHERE chunk_id > :after {{among}}
  AND {_IS_WAITING} AND {_LIVE}
ORDER BY chunk_id LIMIT :limit
"""
_NEWEST = f"""
SELECT c.chunk_id FROM chunks c JOIN documents d USING (doc_id)
WHERE {_IS_WAITING} AND {_EXPIRED} IS NOT TRUE {{among}}
ORDER BY d.updated_at DESC, c.doc_id DESC, c.chunk_id LIMIT :limit
"""
_LACKING = f"""
SELECT chunk_id, heading, text FROM embeddings e JOIN chunks c USING (chunk_id)
WHERE e.model_id = :model_id AND e.state = 'ready' AND e.{{part}} IS NULL
  AND e.chunk_id > :after {{among}} AND attempts < {ATTEMPTS} AND {_DUE}
  AND e.chunk_id NOT IN (SELECT value FROM json_each(:out)) AND {_LIVE}
ORDER BY e.chunk_id LIMIT :limit
"""


def waiting(
    connection: apsw.Connection,
    model_id: int,
    limit: int,
    *,
    among: Sequence[int] | None = None,
    after: PendingChunk | None = None,
    doc_id: int | None = None,
    lacking: Set[str] = frozenset(),
    out: Sequence[int] = (),
    due: Due | None = None,
) -> list[PendingChunk]:
    """Chunks that need vectors, or, with `lacking`, whose vectors lack one of these parts. `among`
    limits them to these chunks, in this order, `doc_id` limits them to one document, `out` are
    chunks to leave out, and `due` leaves out recent failures. Expired documents are always left
    out."""
    known = model(connection, model_id)
    params = _work_params(model_id, limit, doc_id, out, due)
    params["after"] = 0 if after is None else after.chunk_id
    only = _OF_DOCUMENT if doc_id is not None else ""
    if among is not None:
        params |= {"among": json.dumps(list(among)), "limit": len(among)}
        only += " AND c.chunk_id IN (SELECT value FROM json_each(:among))"
    if not lacking:
        # Reading every chunk is avoided if none is pending.
        sql = _WAITING.format(among=only)
        rows: list[Any] = connection.execute(sql, params).fetchall() if known.pending else []
    else:
        parts = [part for part in lacking if known.lacks(part)]
        candidates = {row for part in parts for row in connection.execute(
            _LACKING.format(part=part, among=only), params)}  # fmt: skip
        rows = sorted(candidates)
    if among is not None:
        place = {chunk_id: at for at, chunk_id in enumerate(among)}
        rows.sort(key=lambda row: place[row[0]])
    return [
        PendingChunk(chunk_id, passage(heading, text)) for chunk_id, heading, text in rows[:limit]
    ]


def newest(
    connection: apsw.Connection,
    model_id: int,
    limit: int,
    *,
    doc_id: int | None = None,
    out: Sequence[int] = (),
    due: Due | None = None,
) -> list[int]:
    """The ids of chunks without vectors, those of the documents that changed last first."""
    if not model(connection, model_id).pending:
        return []
    sql = _NEWEST.format(among="" if doc_id is None else _OF_DOCUMENT)
    rows = connection.execute(sql, _work_params(model_id, limit, doc_id, out, due))
    return [chunk_id for (chunk_id,) in rows]


def _work_params(
    model_id: int, limit: int, doc_id: int | None, out: Sequence[int], due: Due | None
) -> dict[str, Any]:
    first, others = due or (None, None)
    return {"model_id": model_id, "limit": limit, "out": json.dumps(list(out)),
            "first": first, "others": others, "doc_id": doc_id}  # fmt: skip


def put(
    connection: apsw.Connection,
    model_id: int,
    chunk_id: int,
    now: str | None,
    dense: bytes,
    weights: str | None,
    tokens: bytes | None,
    error: str | None = None,
) -> bool:
    """Write the vectors of a chunk. `error` is the reason why a part is missing, and counts as a
    failed attempt. Returns False if the chunk is gone."""
    sparse = stored_weights(weights)
    connection.execute(
        "INSERT INTO embeddings (model_id, chunk_id, state, attempts, embedded_at, error, dense, "
        "sparse, tokens) SELECT ?1, ?2, 'ready', ?7 IS NOT NULL, ?3, ?7, ?4, ?5, ?6 "
        "WHERE EXISTS (SELECT 1 FROM chunks WHERE chunk_id = ?2) "
        "ON CONFLICT DO UPDATE SET state = 'ready', attempts = ?7 IS NOT NULL, error = ?7, "
        "embedded_at = ?3, dense = ?4, sparse = ?5, tokens = ?6",
        (model_id, chunk_id, now, dense_codes.pack(dense), vector_pieces.in_row(sparse),
         vector_pieces.in_row(tokens), error),
    )  # fmt: skip
    if not connection.changes():
        return False
    vector_pieces.write(connection, model_id, chunk_id, sparse=sparse, tokens=tokens)
    return True


def stored_weights(text: str | None) -> sparse_weights.Stored | None:
    """A sparse vector as the store keeps it."""
    return None if text is None else sparse_weights.compress(text)


def repack(connection: apsw.Connection, after: int, limit: int) -> int | None:
    """Rewrite vectors of older versions, which take more space, of `limit` embeddings after this
    one. Returns the last of them, or None if there are no more. Their numbers do not change, so the
    caller disables triggers."""
    rows: list[Any] = connection.execute(
        "SELECT embedding_id, model_id, chunk_id, dense, sparse, tokens FROM embeddings "
        "WHERE embedding_id > ? AND (length(dense) % 2 = 0 OR length(sparse) <> 4 "
        "OR length(tokens) <> 4) ORDER BY 1 LIMIT ?",
        (after, limit),
    ).fetchall()
    for embedding_id, model_id, chunk_id, dense, sparse, tokens in rows:
        parts = {"sparse": _compressed(sparse), "tokens": tokens}
        packed = dense_codes.pack(dense) if isinstance(dense, bytes) else dense
        connection.execute(
            "UPDATE embeddings SET dense = ?, sparse = ?, tokens = ? WHERE embedding_id = ?",
            (packed, *map(vector_pieces.in_row, parts.values()), embedding_id),
        )
        new = {part: value for part, value in parts.items() if vector_pieces.is_divided(value)}
        vector_pieces.write(connection, model_id, chunk_id, **new)
    return rows[-1][0] if rows else None


def _compressed(sparse: Any) -> Any:
    """A sparse vector that an older version stored as JSON, as bytes."""
    if isinstance(sparse, str):
        with suppress(ValueError, TypeError, AttributeError, RecursionError):  # damaged
            return stored_weights(sparse)
    return sparse


def fail(
    connection: apsw.Connection,
    model_id: int,
    chunk_ids: Sequence[int],
    error: str,
    now: str,
) -> None:
    """Count a failed attempt. A chunk that has vectors keeps them."""
    connection.executemany(
        "INSERT INTO embeddings (model_id, chunk_id, state, attempts, embedded_at, error) "
        "SELECT ?1, ?2, 'pending', 1, ?3, ?4 "
        "WHERE EXISTS (SELECT 1 FROM chunks WHERE chunk_id = ?2) "
        "ON CONFLICT DO UPDATE SET attempts = attempts + 1, embedded_at = ?3, error = ?4, "
        f"state = iif(attempts + 1 >= {ATTEMPTS}, 'failed', 'pending') WHERE state <> 'ready'",
        [(model_id, chunk_id, now, error) for chunk_id in chunk_ids],
    )


def retry(connection: apsw.Connection, model_id: int, doc_id: int | None = None) -> int:
    """Make failed chunks, and vectors with permanently failed parts, pending again, in one document
    or in all. Returns how many."""
    among = "AND (?2 IS NULL OR chunk_id IN (SELECT chunk_id FROM chunks WHERE doc_id = ?2))"
    connection.execute(
        "UPDATE embeddings SET state = 'pending', attempts = 0 WHERE model_id = ?1 "
        f"AND state <> 'ready' AND state = 'failed' {among}",
        (model_id, doc_id),
    )
    retried = connection.changes()
    for part in ("sparse", "tokens"):
        connection.execute(
            f"UPDATE embeddings SET attempts = 0 WHERE model_id = ?1 AND state = 'ready' "
            f"AND {part} IS NULL AND attempts >= {ATTEMPTS} {among}",
            (model_id, doc_id),
        )
        retried += connection.changes()
    return retried


# --- reading --------------------------------------------------------------------------------------


def dense_vectors(
    connection: apsw.Connection, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, Vector[float]]:
    stored = dense_bytes(connection, model_id, list(chunk_ids))
    return {
        chunk_id: cosine.from_bytes(dense_codes.unpack(dense)) for chunk_id, dense in stored.items()
    }


def dense_bytes(
    connection: apsw.Connection, model_id: int, chunk_ids: Sequence[int]
) -> dict[int, bytes]:
    """The vectors of these chunks as they are stored: see `dense_codes`."""
    rows: Any = connection.execute(
        "SELECT chunk_id, dense FROM embeddings WHERE chunk_id IN (SELECT value FROM json_each(?)) "
        "AND model_id = ? AND state = 'ready'",
        (json.dumps(chunk_ids), model_id),
    )
    return dict(rows)


def sparse_vectors(
    connection: apsw.Connection, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, sparse_weights.Weights]:
    stored = vector_pieces.read(connection, "sparse", model_id, chunk_ids)
    return {chunk_id: sparse_weights.from_text_or_empty(text) for chunk_id, text in stored.items()}


def token_vectors(
    connection: apsw.Connection, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, TokenVectors]:
    stored = vector_pieces.read(connection, "tokens", model_id, chunk_ids)
    return dict(zip(stored, token_codes.decode_all(list(stored.values())), strict=True))


def chunks_with(
    connection: apsw.Connection, model_id: int, part: str, chunk_ids: Iterable[int]
) -> set[int]:
    """The chunks whose vector has the part. Reads no vectors."""
    column = check_choice("part", part, ("dense", "sparse", "tokens"))
    rows = connection.execute(
        "SELECT chunk_id FROM embeddings WHERE chunk_id IN (SELECT value FROM json_each(?)) "
        f"AND model_id = ? AND state = 'ready' AND {column} IS NOT NULL",
        (json.dumps(list(chunk_ids)), model_id),
    )
    return {chunk_id for (chunk_id,) in rows}


def ready(connection: apsw.Connection, model_id: int) -> Iterator[tuple[int, bytes]]:
    """Every vector, ordered by chunk id."""
    rows: Iterator[Any] = connection.execute(
        "SELECT chunk_id, dense FROM embeddings WHERE model_id = ? AND state = 'ready' "
        "ORDER BY chunk_id",
        (model_id,),
    )
    return ((chunk_id, dense_codes.unpack(dense)) for chunk_id, dense in rows)


# --- changes --------------------------------------------------------------------------------------


def mark(connection: apsw.Connection) -> Mark:
    state = store_state(connection)
    if state.vector_change is None or state.vector_stamp is None:
        return Mark(0, 0)
    return Mark(state.vector_change, state.vector_stamp)


def follows(connection: apsw.Connection, earlier: Mark) -> bool:
    """Whether this state descends from `earlier` by changes that are all still recorded."""
    if earlier.change == 0:
        first = scalar(connection, "SELECT min(change) FROM vector_changes")
        return first is None or first == 1
    sql = "SELECT stamp FROM vector_changes WHERE change = ?"
    return bool(scalar(connection, sql, (earlier.change,)) == earlier.stamp)


def changed_chunks(connection: apsw.Connection, model_id: int, since: Mark) -> list[int]:
    """The chunks whose vectors were added, removed or changed, ordered by id."""
    rows = connection.execute(
        "SELECT DISTINCT chunk_id FROM vector_changes WHERE change > ? AND model_id = ? ORDER BY 1",
        (since.change, model_id),
    )
    return [chunk_id for (chunk_id,) in rows]
