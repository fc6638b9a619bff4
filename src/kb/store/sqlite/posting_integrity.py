"""Compares the whole inverted index with the sparse vectors.

The postings of a chunk are reduced to one number, a sum over its terms, so that only the numbers of
one segment are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from kb.index import cosine, sparse_weights
from kb.store.sqlite import segments, vector_pieces
from kb.store.sqlite.functions import scalar

# Chunks with a sparse vector that are not in exactly one segment, and the reverse.
_LOST = """
SELECT count(*) FROM embeddings e WHERE e.sparse IS NOT NULL AND e.state = 'ready' AND 1 <>
  (SELECT count(*) FROM sparse_chunks c WHERE c.chunk_id = e.chunk_id AND c.model_id = e.model_id) +
  (SELECT count(*) FROM sparse_pending p WHERE p.chunk_id = e.chunk_id AND p.model_id = e.model_id)
"""
_LEFT_OVER = """
SELECT count(*) FROM
  (SELECT chunk_id, model_id FROM sparse_chunks
   UNION ALL SELECT chunk_id, model_id FROM sparse_pending) f
WHERE NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.chunk_id = f.chunk_id
  AND e.model_id = f.model_id AND e.sparse IS NOT NULL AND e.state = 'ready')
"""
_STRAY = """
SELECT (SELECT count(*) FROM sparse_postings
        WHERE posting >> 32 NOT IN (SELECT segment FROM sparse_segments)) +
       (SELECT count(*) FROM sparse_chunks
        WHERE segment NOT IN (SELECT segment FROM sparse_segments)) +
       (SELECT count(*) FROM sparse_gone
        WHERE segment NOT IN (SELECT segment FROM sparse_segments))
"""


def fault(connection: apsw.Connection) -> str | None:
    """A description of the difference; None if there is none."""
    for sql, what in (
        (_LOST, "chunks are missing"),
        (_LEFT_OVER, "chunks no longer have a sparse vector"),
        (_STRAY, "rows belong to no segment"),
    ):
        if count := scalar(connection, sql):
            return f"{count} {what}"
    names: dict[int, str] = dict(connection.execute("SELECT term_id, term FROM sparse_terms"))
    sql = "SELECT segment, model_id FROM sparse_segments"
    rows: list[Any] = connection.execute(sql).fetchall()
    differing = sum(_differing(connection, segment, model_id, names) for segment, model_id in rows)
    return f"{differing} chunks have postings that differ from their vectors" if differing else None


def _differing(
    connection: apsw.Connection, segment: int, model_id: int, names: Mapping[int, str]
) -> int:
    """How many chunks of a segment have postings that differ from their vectors."""
    ids = segments.chunks_of(connection, segment)
    sums = _sums(connection, segment, len(ids), names)
    live = {one: total for one, total in zip(ids, sums, strict=True) if one is not None}
    wanted = _expected_sums(connection, segment, model_id)
    return sum(live.get(one) != wanted.get(one) for one in live.keys() | wanted.keys())


def _sums(
    connection: apsw.Connection, segment: int, size: int, names: Mapping[int, str]
) -> list[int]:
    sums = [0] * size
    for posting, data in segments.postings(connection, segment):
        count = len(data) // 6
        weights = cosine.from_bytes(data[: 4 * count])
        places = sparse_weights.unpack("H", data[4 * count :])
        term = names.get(posting & 0xFFFFFFFF)
        for weight, place in zip(weights, places, strict=True):
            sums[place] += hash((term, weight))
    return sums


def _expected_sums(connection: apsw.Connection, segment: int, model_id: int) -> dict[int, int]:
    rows = connection.execute(
        "SELECT chunk_id FROM sparse_chunks WHERE segment = ? AND model_id = ?", (segment, model_id)
    )
    ids = [int(str(chunk_id)) for (chunk_id,) in rows]
    stored = vector_pieces.read(connection, "sparse", model_id, ids)
    return {
        chunk_id: sum(hash(pair) for pair in sparse_weights.from_text_or_empty(text).items())
        for chunk_id, text in stored.items()
    }
