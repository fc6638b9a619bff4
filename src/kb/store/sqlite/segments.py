"""Writes the inverted index over sparse vectors: chunks into segments, and small segments into
large ones.

Each function runs in the transaction that writes the vectors. A posting is written about three
times: in the segment of its write, in one merged from ten such segments, and in one merged from a
hundred. Larger segments are not merged, so that every write is short.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from kb.index import sparse_blocks, sparse_weights
from kb.index.sparse_blocks import Block, invert
from kb.index.sparse_weights import Weights
from kb.store.sqlite import vector_pieces
from kb.store.sqlite.functions import scalar

FEW = 128  # with fewer pending chunks, no segment is written: searches read their vectors
FAN = 8  # this many segments of one size are merged into one of the next
_SIZES = (FEW * FAN, FEW * FAN**2)  # where the next size begins
MOST = _SIZES[-1] - 1  # chunks at a time; the positions of eight batches fit in 16 bits
_WORN = 4  # a segment is rewritten when one in this many chunks is deleted
_TERM = 0xFFFFFFFF  # the bits of a posting's key that hold the term


Blocks = dict[int, Block]  # by term id


class Segment(NamedTuple):
    """A segment, how many chunks it was built from, and how many of them are deleted."""

    segment: int
    chunks: int
    gone: int

    @property
    def size(self) -> int:
        return sum(self.chunks >= least for least in _SIZES)

    @property
    def needs_rewrite(self) -> bool:
        return self.gone * _WORN > self.chunks


# --- adding ---------------------------------------------------------------------------------------


def flush(connection: apsw.Connection, model_id: int, *, least: int | None = None) -> None:
    """Write pending chunks into a segment, if there are at least `FEW`."""
    waiting = scalar(
        connection, "SELECT count(*) FROM sparse_pending WHERE model_id = ?", (model_id,)
    )
    while waiting >= max(1, FEW if least is None else least):
        rows = connection.execute(
            "SELECT chunk_id FROM sparse_pending WHERE model_id = ? ORDER BY 1 LIMIT ?",
            (model_id, MOST),
        )
        ids = [int(str(chunk_id)) for (chunk_id,) in rows]
        stored = vector_pieces.read(connection, "sparse", model_id, ids)
        vectors = [sparse_weights.from_text_or_empty(stored.get(one)) for one in ids]
        _add(connection, model_id, ids, vectors)
        tidy(connection, model_id)
        waiting -= len(ids)


def _add(
    connection: apsw.Connection, model_id: int, chunk_ids: list[int], vectors: list[Weights]
) -> None:
    blocks = invert(vectors)
    ids = _term_ids(connection, blocks)
    _write(connection, model_id, chunk_ids, {ids[term]: block for term, block in blocks.items()})
    connection.executemany(
        "DELETE FROM sparse_pending WHERE model_id = ? AND chunk_id = ?",
        [(model_id, chunk_id) for chunk_id in chunk_ids],
    )


def _term_ids(connection: apsw.Connection, terms: Iterable[str]) -> dict[str, int]:
    wanted = json.dumps(list(terms), ensure_ascii=False)
    connection.execute(
        "INSERT INTO sparse_terms (term) SELECT value FROM json_each(?1) "
        "WHERE value NOT IN (SELECT term FROM sparse_terms)",
        (wanted,),
    )
    return dict(connection.execute(
        "SELECT term, term_id FROM json_each(?) JOIN sparse_terms ON term = value", (wanted,)
    ))  # fmt: skip


def _write(
    connection: apsw.Connection, model_id: int, chunk_ids: Sequence[int], blocks: Blocks
) -> None:
    connection.execute(
        "INSERT INTO sparse_segments (model_id, stamp, chunks, chunk_ids) "
        "VALUES (?, random(), ?, ?)",
        (model_id, len(chunk_ids), sparse_weights.pack(array("q", chunk_ids))),
    )
    segment = connection.last_insert_rowid()
    connection.executemany(
        "INSERT INTO sparse_postings VALUES (?, ?)",
        (
            (segment << 32 | term_id, sparse_blocks.compress(blocks[term_id].to_bytes()))
            for term_id in sorted(blocks)
        ),
    )
    connection.executemany(
        "INSERT INTO sparse_chunks VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET segment = excluded.segment",
        [(chunk_id, model_id, segment) for chunk_id in chunk_ids],
    )


# --- merging --------------------------------------------------------------------------------------


def tidy(connection: apsw.Connection, model_id: int) -> None:
    """Merge segments if there are too many, and rewrite those that have lost too many chunks."""
    while chosen := _to_merge(standings(connection, model_id)):
        _merge(connection, model_id, chosen)


def standings(connection: apsw.Connection, model_id: int) -> list[Segment]:
    rows = connection.execute(
        "SELECT segment, chunks, (SELECT count(*) FROM sparse_gone g WHERE g.segment = s.segment) "
        "FROM sparse_segments s INDEXED BY sparse_segments_model WHERE model_id = ? ORDER BY 1",
        (model_id,),
    )
    return [Segment(*row) for row in rows]


def _to_merge(segments: Sequence[Segment]) -> list[int]:
    for size in range(len(_SIZES)):
        same = [one.segment for one in segments if one.size == size]
        if len(same) >= FAN:
            return same[:FAN]
    return [one.segment for one in segments if one.needs_rewrite][:1]


def _merge(connection: apsw.Connection, model_id: int, chosen: Sequence[int]) -> None:
    kept = {segment: chunks_of(connection, segment) for segment in chosen}
    chunk_ids = sorted(one for ids in kept.values() for one in ids if one is not None)
    place_of = {chunk_id: place for place, chunk_id in enumerate(chunk_ids)}
    blocks: Blocks = {}
    for segment, ids in kept.items():
        moved = [-1 if one is None else place_of[one] for one in ids]
        _collect(connection, segment, moved, blocks)
    if chunk_ids:
        _write(connection, model_id, chunk_ids, blocks)
    for segment in chosen:
        connection.execute("DELETE FROM sparse_segments WHERE segment = ?", (segment,))


def chunks_of(connection: apsw.Connection, segment: int) -> list[int | None]:
    """The chunks of a segment by position; None for a deleted chunk."""
    sql = "SELECT chunk_ids FROM sparse_segments WHERE segment = ?"
    ids = sparse_weights.unpack("q", scalar(connection, sql, (segment,)))
    gone = {chunk_id for (chunk_id,) in connection.execute(
        "SELECT chunk_id FROM sparse_gone WHERE segment = ?", (segment,))}  # fmt: skip
    return [None if one in gone else one for one in ids]


def _collect(
    connection: apsw.Connection, segment: int, moved: Sequence[int], blocks: Blocks
) -> None:
    """Add the postings of a segment to `blocks`, with new positions (-1: deleted)."""
    for posting, data in postings(connection, segment):
        term_id = posting & _TERM
        if (block := blocks.get(term_id)) is None:
            block = Block(bytearray(), array("H"))
        sparse_blocks.add(block, data, moved)
        if block.places:
            blocks[term_id] = block


def postings(connection: apsw.Connection, segment: int) -> Iterator[tuple[int, bytes]]:
    rows: Iterator[Any] = connection.execute(
        "SELECT posting, block FROM sparse_postings WHERE posting BETWEEN ? AND ?",
        (segment << 32, segment << 32 | _TERM),
    )
    return ((posting, sparse_blocks.expand(block)) for posting, block in rows)


def repack(connection: apsw.Connection, after: int, limit: int) -> int | None:
    """Compress postings of older versions, at most `limit` after this one. Returns the last of
    them, or None if there are no more."""
    rows: list[Any] = connection.execute(
        "SELECT posting, block FROM sparse_postings WHERE posting > ? AND length(block) % 2 = 0 "
        "ORDER BY 1 LIMIT ?",
        (after, limit),
    ).fetchall()
    connection.executemany(
        "UPDATE sparse_postings SET block = ? WHERE posting = ?",
        [(sparse_blocks.compress(block), posting) for posting, block in rows],
    )
    return rows[-1][0] if rows else None


# --- everything -----------------------------------------------------------------------------------


def flush_all(connection: apsw.Connection) -> None:
    """Write the chunks of an import into segments, for every model."""
    sql = "SELECT DISTINCT model_id FROM sparse_pending"
    models: list[Any] = connection.execute(sql).fetchall()
    for (model_id,) in models:
        flush(connection, model_id)


def rebuild(connection: apsw.Connection) -> None:
    """Rebuild the whole index from the vectors."""
    for table in ("segments", "postings", "chunks", "gone", "terms", "pending"):
        connection.execute(f"DELETE FROM sparse_{table}")
    connection.execute(
        "INSERT INTO sparse_pending SELECT model_id, chunk_id FROM embeddings "
        "WHERE sparse IS NOT NULL AND state = 'ready'"
    )
    flush_all(connection)
