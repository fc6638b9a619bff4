"""Dense retrieval: candidates by pgvector, then exact scores.

The candidates come from `near_vectors`, which has the vectors in half precision: by an HNSW index
if the model is large and most chunks are allowed, and otherwise by comparing all allowed vectors.
`kb.index.cosine` scores the candidates by their float32 vectors, as in the SQLite store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kb.store.model_rows import query_vector
from kb.store.postgres import embeddings, schema
from kb.store.postgres import filters as where
from kb.store.postgres.partitions import partitions
from kb.types import Filters, ScoredChunk, StoredModel, Vector, VectorMatches

if TYPE_CHECKING:
    from kb.store.postgres.connection import Database
    from kb.store.postgres.filters import Condition
    from kb.store.postgres.pool import Connection
    from kb.store.postgres.session import Session

MIN_INDEXED = 20_000  # models with fewer vectors get no HNSW index
MAX_EXACT = 20_000  # at most this many allowed chunks are searched exactly in a large model
_EF_SEARCH = 200
_MAX_INDEXED_DIMENSION = 4000  # of pgvector's HNSW over half precision
# A component in half precision differs by at most one part in 2^11, and so does the query's: two
# cosines may be in the wrong order if they differ by less than this.
_SLACK = 4 * 2.0**-11 + 1e-4
_EXACT = """
WITH near AS MATERIALIZED (
  SELECT n.chunk_id, n.vector <#> %(query)s::halfvec AS distance FROM near_vectors n
  WHERE n.model_id = %(model_id)s {visible}
), last AS (
  SELECT distance FROM near ORDER BY distance OFFSET %(limit)s - 1 LIMIT 1
)
SELECT chunk_id FROM near
WHERE distance <= coalesce((SELECT distance FROM last), 2) + %(slack)s
"""
_INDEXED = """
SELECT n.chunk_id FROM near_vectors n WHERE n.model_id = {model_id} {visible}
ORDER BY (n.vector::halfvec({dimension})) <#> %(query)s::halfvec({dimension}) LIMIT %(margin)s
"""
_ATTACHED = """
SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
WHERE inhparent = %s::regclass
"""


def nearest(
    session: Session,
    model: StoredModel,
    vector: Sequence[float],
    *,
    filters: Filters,
    now: str,
    limit: int,
    exact: bool = False,
) -> VectorMatches:
    """Search in the caller's snapshot."""
    query = query_vector(vector, model)
    visible = where.visible_condition(session, filters, now)
    if limit < 1 or not model.ready:
        return VectorMatches([], "pgvector")
    indexed = not exact and _use_index(session, model, limit)
    if indexed and not _is_selective(session, visible):
        candidates, backend = _by_index(session, model, query, visible, limit), "pgvector-hnsw"
    else:
        candidates, backend = _by_scan(session, model, query, visible, limit), "pgvector"
    vectors = embeddings.dense_vectors(session, model.model_id, candidates)
    return VectorMatches(_rescore(vectors, query, limit), backend)


def _by_scan(
    session: Session, model: StoredModel, query: Vector[float], visible: Condition | None,
    limit: int,
) -> list[int]:  # fmt: skip
    """Compare all allowed vectors; return the chunks that may be among the nearest."""
    sql, params = _visible(visible)
    rows = session.execute(
        _EXACT.format(visible=sql),
        {"query": embeddings.vector_text(query), "model_id": model.model_id, "limit": limit,
         "slack": _SLACK, **params},
    )  # fmt: skip
    return [chunk_id for (chunk_id,) in rows]


def _by_index(
    session: Session, model: StoredModel, query: Vector[float], visible: Condition | None,
    limit: int,
) -> list[int]:  # fmt: skip
    """Search the HNSW index; return the chunks that are most likely the nearest."""
    margin = limit + limit // 4 + 10
    session.execute(
        f"SET LOCAL hnsw.ef_search = {min(1000, max(_EF_SEARCH, 2 * limit))}"
        + ("; SET LOCAL hnsw.iterative_scan = relaxed_order" if _can_iterate(session) else "")
    )
    sql, params = _visible(visible)
    rows = session.execute(
        _INDEXED.format(model_id=model.model_id, dimension=model.dimension, visible=sql),
        {"query": embeddings.vector_text(query), "margin": margin, **params},
    )
    return [chunk_id for (chunk_id,) in rows]


def _visible(visible: Condition | None) -> tuple[str, dict[str, Any]]:
    """The condition on chunks with named parameters."""
    if visible is None:
        return "", {}
    names = [f"visible_{at}" for at in range(len(visible.params))]
    sql = visible.sql % tuple(f"%({name})s" for name in names)
    return (
        f"AND n.chunk_id IN ({where.CHUNKS_OF}{sql})",
        dict(zip(names, visible.params, strict=True)),
    )


def _is_selective(session: Session, visible: Condition | None) -> bool:
    """Whether so few chunks are allowed that the index, which looks for neighbors among all chunks,
    would miss most of them."""
    if visible is None:
        return False
    some = f"{where.CHUNKS_OF}{visible.sql} LIMIT {MAX_EXACT + 1}"
    count = session.value(f"SELECT count(*) FROM ({some}) AS few", visible.params)
    return int(count) <= MAX_EXACT


def _can_iterate(session: Session) -> bool:
    """Whether pgvector continues a search that filters have left with too few hits."""
    found = session.once("pgvector", lambda each: schema.extension_version(each.connection))
    return tuple(map(int, (found or "0.0").split(".")[:2])) >= (0, 8)


# --- the index ------------------------------------------------------------------------------------


def _use_index(session: Session, model: StoredModel, limit: int) -> bool:
    return (
        model.ready >= MIN_INDEXED
        and limit <= 500
        and session.once(f"hnsw {model.model_id}", lambda each: has_index(each, model.model_id))
    )


def has_index(session: Session, model_id: int) -> bool:
    """Whether the HNSW index of a model exists and is complete."""
    return bool(session.value(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
        (f'"{session.schema}".{embeddings.index_name(model_id)}',),
    ))  # fmt: skip


def _owns_table(session: Session) -> bool:
    return bool(session.value(
        "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c "
        "WHERE c.oid = to_regclass('near_vectors')"
    ))  # fmt: skip


def build_index(database: Database, model: StoredModel) -> None:
    """Create the HNSW index of a large model. Blocks neither readers nor writers. Does nothing for
    a role that does not own the table: searches work without the index."""
    if model.ready < MIN_INDEXED or model.dimension > _MAX_INDEXED_DIMENSION:
        return
    with database.reading() as session:
        if has_index(session, model.model_id) or not _owns_table(session):
            return
        parts = partitions(session, "near_vectors")
    with database.autocommit() as connection:
        key = f"kb {database.location.schema} hnsw"
        row: Any = connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (key,)
        ).fetchone()
        if not row[0]:  # another process is building it
            return
        try:
            _create(connection, model, parts)
        finally:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (key,))


def _create(connection: Connection, model: StoredModel, parts: Sequence[str]) -> None:
    """Create the index, or one in each of the partitions. An incomplete index, which a lost
    connection may have left, is replaced; those of other partitions are kept."""
    name = embeddings.index_name(model.model_id)
    what = (
        f"USING hnsw ((vector::halfvec({model.dimension})) halfvec_ip_ops) "
        f"WHERE model_id = {model.model_id}"
    )
    if not parts:
        connection.execute(f"DROP INDEX IF EXISTS {name}".encode())
        connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON near_vectors {what}".encode())
        return
    connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON ONLY near_vectors {what}".encode())
    complete = {row[0] for row in connection.execute(_ATTACHED, (name,))}
    for number, part in enumerate(parts):
        own = f"{name}_{number}"
        if own in complete:
            continue
        connection.execute(f"DROP INDEX IF EXISTS {own}".encode())
        connection.execute(f"CREATE INDEX CONCURRENTLY {own} ON {part} {what}".encode())
        connection.execute(f"ALTER INDEX {name} ATTACH PARTITION {own}".encode())


# --- scores ---------------------------------------------------------------------------------------


def _rescore(
    vectors: dict[int, Vector[float]], query: Vector[float], limit: int
) -> list[ScoredChunk]:
    """Compute the scores of candidates exactly."""
    import numpy as np

    from kb.index.rescoring import rescore

    if not vectors:
        return []
    ids = np.array(list(vectors), np.int64)
    rows = np.array([np.frombuffer(each, np.float32) for each in vectors.values()], np.float32)
    return rescore(ids, rows, np.frombuffer(query, np.float32), limit)
