"""The checks of `kb doctor` that are specific to PostgreSQL: versions, counters and indexes.

PostgreSQL itself checks types, foreign keys and unique values. That leaves the derived data: the
counters, the half-precision vectors and the segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kb.index import cosine
from kb.ports import Check
from kb.store.document_rows import content_digest
from kb.store.postgres import embeddings, schema, segments
from kb.types import Finding

if TYPE_CHECKING:
    from kb.store.postgres.connection import Database
    from kb.store.postgres.session import Session

_FIX = "kb doctor --fix"
_SAMPLED_CHUNKS = 20_000
_BATCH = 500
_COUNTS = """
SELECT m.model_id, count(*) FILTER (WHERE e.state = 'ready') AS ready,
  count(*) FILTER (WHERE e.state = 'failed') AS failed,
  count(*) FILTER (WHERE e.state = 'ready' AND e.sparse IS NOT NULL) AS sparse,
  count(*) FILTER (WHERE e.state = 'ready' AND e.tokens IS NOT NULL) AS tokens
FROM models m LEFT JOIN embeddings e USING (model_id) GROUP BY m.model_id
"""
_MISSING_NEAR = """
SELECT e.model_id, e.chunk_id, e.dense FROM embeddings e
WHERE e.state = 'ready' AND NOT EXISTS (SELECT 1 FROM near_vectors n
  WHERE n.model_id = e.model_id AND n.chunk_id = e.chunk_id)
"""
_EXTRA_NEAR = """
NOT EXISTS (SELECT 1 FROM embeddings e
  WHERE e.model_id = n.model_id AND e.chunk_id = n.chunk_id AND e.state = 'ready')
"""


def checks(database: Database) -> Iterator[Check]:
    """All checks, in an order in which no repair undoes an earlier one."""
    yield Check("server", partial(_server, database))
    yield Check("indexes", partial(_indexes, database), partial(_reindex, database))
    yield Check("text", partial(_text, database))
    yield Check("counters", partial(_counters, database), partial(_recount, database))
    yield Check("vectors", partial(_vectors, database), partial(_refill_vectors, database))
    for kind, name in (("word", "words"), ("ngram", "n-grams"), ("sparse", "sparse")):
        yield Check(
            name, partial(_segments, database, kind, name), partial(_rebuild, database, kind)
        )


def checks_of_shards(databases: Sequence[Database]) -> Iterator[Check]:
    """The checks of each shard, without repairs: a shard is repaired by its own URL."""
    for number, database in enumerate(databases, start=1):
        for each in checks(database):
            part = f"shard {number}: {each.part}"
            yield Check(part, partial(_of_shard, each, part))


def _of_shard(check: Check, part: str) -> Finding:
    return replace(check.run(), part=part)


def _server(database: Database) -> Finding:
    with database.reading() as session:
        found = schema.extension_version(session.connection)
    if found is None:
        return Finding("server", "error", "the extension vector is missing", "CREATE EXTENSION")
    return Finding("server", "ok", f"pgvector {found}")


def _indexes(database: Database) -> Finding:
    names = _invalid(database)
    if names:
        return Finding("indexes", "warning", f"incomplete: {', '.join(names)}", _FIX)
    return Finding("indexes", "ok", "every index is complete")


def _invalid(database: Database) -> list[str]:
    with database.reading() as session:
        rows = session.execute(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND NOT i.indisvalid ORDER BY 1",
            (session.schema,),
        )
        return [name for (name,) in rows]


def _reindex(database: Database) -> None:
    """Rebuild incomplete indexes; the next `build_index` creates those of vectors."""
    for name in _invalid(database):
        with database.autocommit() as connection:
            is_of_vectors = name.startswith("near_vectors_hnsw")
            command = "DROP INDEX IF EXISTS" if is_of_vectors else "REINDEX INDEX"
            connection.execute(f'{command} "{name}"'.encode())


def _text(database: Database) -> Finding:
    with database.reading() as session:
        rows = session.stream(
            "SELECT heading, text, content_hash FROM chunks ORDER BY random() LIMIT %s",
            (_SAMPLED_CHUNKS,),
        )
        wrong = sum(
            content_digest(heading, text) != digest
            for heading, text, digest in rows
            if "\ufffd" not in heading + text  # may have been U+0000 (see `texts`)
        )
    if wrong:
        return Finding(
            "text", "warning", f"{wrong} passages differ from their digest",
            "read the files again with: kb ingest --force",
        )  # fmt: skip
    return Finding("text", "ok", "passages agree with their digests")


# --- counters -------------------------------------------------------------------------------------


def _counters(database: Database) -> Finding:
    with database.reading() as session:
        chunks = session.value("SELECT count(*) FROM chunks")
        wrong = [] if chunks == session.state.chunks else ["chunks"]
        known = {
            row[0]: row
            for row in session.execute("SELECT model_id, ready, failed, sparse, tokens FROM models")
        }
        if any(known[row[0]] != row for row in session.execute(_COUNTS)):
            wrong.append("vectors")
    if wrong:
        return Finding("counters", "error", f"wrong: {', '.join(wrong)}", _FIX)
    return Finding("counters", "ok", "the counters are correct")


def _recount(database: Database) -> None:
    with database.writing() as session:
        session.execute("LOCK TABLE embeddings IN SHARE ROW EXCLUSIVE MODE")
        session.execute("UPDATE state SET chunks = (SELECT count(*) FROM chunks)")
        session.execute(
            "UPDATE models m SET ready = c.ready, failed = c.failed, sparse = c.sparse, "
            f"tokens = c.tokens FROM ({_COUNTS}) c WHERE c.model_id = m.model_id"
        )


# --- vectors --------------------------------------------------------------------------------------


def _vectors(database: Database) -> Finding:
    with database.reading() as session:
        missing = session.value(f"SELECT count(*) FROM ({_MISSING_NEAR}) AS missing")
        extra = session.value(f"SELECT count(*) FROM near_vectors n WHERE {_EXTRA_NEAR}")
    if missing or extra:
        what = f"near_vectors lacks {missing} entries and has {extra} too many"
        return Finding("vectors", "error", what, _FIX)
    return Finding("vectors", "ok", "the vector index is complete")


def _refill_vectors(database: Database) -> None:
    with database.writing() as session:
        session.execute("LOCK TABLE embeddings IN SHARE ROW EXCLUSIVE MODE")
        session.execute(f"DELETE FROM near_vectors n WHERE {_EXTRA_NEAR}")
        while rows := session.execute(f"{_MISSING_NEAR} LIMIT {_BATCH}").fetchall():
            session.execute_many(
                "INSERT INTO near_vectors VALUES (%s, %s, %s::halfvec)",
                [(model_id, chunk_id, embeddings.vector_text(cosine.from_bytes(dense)))
                 for model_id, chunk_id, dense in rows],
            )  # fmt: skip
        session.changes.vectors += 1


# --- segments -------------------------------------------------------------------------------------


def _segments(database: Database, kind: str, name: str) -> Finding:
    with database.reading() as session:
        wrong = [fault for _, fault in _faults(session, kind)]
    if wrong:
        return Finding(name, "error", "; ".join(wrong), _FIX)
    return Finding(name, "ok", "every passage is indexed once")


def _faults(session: Session, kind: str) -> Iterator[tuple[int, str]]:
    """The models whose index disagrees with the texts or vectors, and how. The model of a text
    index is 0."""
    import numpy as np

    for model_id, sql in _expected_chunks(session, kind):
        expected = {chunk_id for (chunk_id,) in session.execute(sql)}
        stored = list(segments.read_segments(session, segments.numbers(session, kind, model_id)))
        gone = segments.read_deleted(session, [one.segment for one in stored])
        found: list[int] = segments.read_pending(session, kind, model_id)
        for one in stored:
            mask = segments.gone_mask(one.ids, gone[one.segment])
            found += one.ids.tolist() if mask is None else one.ids[~mask].tolist()
        if len(found) != len(set(found)) or set(found) != expected:
            off = len(expected.symmetric_difference(found)) + len(found) - len(set(found))
            yield model_id, f"{off} passages are missing from the index, duplicated or out of place"
            continue
        for one in stored:
            fault = _block_fault(session, kind, one.segment, len(one.ids), np.iinfo(np.uint16).max)
            if fault:
                yield model_id, fault
                break


def _expected_chunks(session: Session, kind: str) -> list[tuple[int, str]]:
    """The models, and a query for the chunks that their index must have."""
    if kind != "sparse":
        some = "WHERE cjk <> ''" if kind == "ngram" else ""
        return [(0, f"SELECT chunk_id FROM chunks {some}")]
    rows = session.execute("SELECT model_id FROM models WHERE role IS DISTINCT FROM 'gone'")
    return [
        (model_id, "SELECT chunk_id FROM embeddings WHERE state = 'ready' AND sparse IS NOT NULL "
         f"AND model_id = {model_id}")
        for (model_id,) in rows.fetchall()
    ]  # fmt: skip


def _block_fault(session: Session, kind: str, segment: int, chunks: int, most: int) -> str | None:
    """What is wrong with the blocks of a segment; None if nothing is."""
    from kb.index import word_blocks

    rows: Any = session.execute("SELECT term, postings FROM blocks WHERE segment = %s", (segment,))
    for term, data in rows:
        try:
            if kind == "sparse":
                places = _sparse_places(data)
            else:
                places = word_blocks.decode(data).places.tolist()
        except ValueError as error:
            return f"the block of {term!r} is damaged: {error}"
        if places and max(places) >= min(chunks, most + 1):
            return f"the block of {term!r} names a passage that its segment does not have"
    return None


def _sparse_places(data: bytes) -> list[int]:
    from kb.index import sparse_weights

    count, rest = divmod(len(data), 6)
    if rest:
        raise ValueError("a truncated block")
    return list(sparse_weights.unpack("H", data[4 * count :]))


def _rebuild(database: Database, kind: str) -> None:
    with database.writing() as session:
        schema.lock(session.connection, session.schema, what="index")
        for model_id, _ in list(_faults(session, kind)):
            segments.rebuild(session, kind, model_id)
