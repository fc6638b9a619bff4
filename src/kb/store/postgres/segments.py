"""Inverted indexes in segments: of words, of n-grams, and of the sparse vectors of each model.

A write only lists its chunks as pending; `flush` writes them into a segment later, in a separate
transaction. Searches read pending chunks as well, so that they are always exact. A posting is
written about three times: in its first segment, in one merged from eight such segments, and in one
merged from eight of those.

Removing chunks takes the lock `index` in shared mode, and writing segments takes it exclusively:
otherwise a segment could bring back a chunk that is removed while the segment is written.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import sparse_blocks, sparse_weights
from kb.index.sparse_blocks import Block
from kb.store.postgres import schema
from kb.text.tokenize import split_ngrams, split_words, stem_word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.word_pairs import Signatures
    from kb.index.word_postings import Postings
    from kb.index.word_pruning import PhrasePostings
    from kb.store.postgres.connection import Database
    from kb.store.postgres.session import Session

FEW = 128  # with fewer pending chunks, no segment is written: searches read their texts or vectors
FAN = 8  # this many segments of one size are merged into one of the next size
_SIZES = (FEW * FAN, FEW * FAN**2)  # where the next size begins
MOST = _SIZES[-1] - 1  # chunks at a time; the positions of eight batches fit in 16 bits
_WORN = 4  # a segment is rewritten when one in this many chunks is deleted
_MAX_TERM_BYTES = 1000  # PostgreSQL limits an index entry to 2,700 bytes
_COUNTER = {"word": "texts", "ngram": "texts", "sparse": "sparse"}


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


def term_key(term: str) -> str:
    """The key of a term's blocks: the term itself, or a digest of a very long one."""
    data = term.encode()
    if len(data) <= _MAX_TERM_BYTES:
        return term
    return f" {hashlib.blake2b(data, digest_size=16).hexdigest()}"  # no term has a space


# --- pending and deleted chunks -------------------------------------------------------------------


def add_pending(session: Session, kind: str, model_id: int, chunk_ids: Sequence[int]) -> None:
    """List chunks as pending: searches read them until they are in a segment."""
    if chunk_ids:
        session.execute(
            "INSERT INTO pending SELECT %s, %s, each FROM unnest(%s::bigint[]) AS each "
            "ON CONFLICT DO NOTHING",
            (kind, model_id, list(chunk_ids)),
        )
        _count(session, kind)


def lock_shared(session: Session) -> None:
    """Take the lock `index` in shared mode: nobody writes segments until the transaction ends."""
    schema.lock(session.connection, session.schema, shared=True, what="index")


def remove(session: Session, chunk_ids: Sequence[int], kinds: Iterable[str]) -> None:
    """Remove chunks from the indexes of these kinds. The caller holds the lock."""
    names, ids = list(kinds), list(chunk_ids)
    session.execute(
        "DELETE FROM pending WHERE kind = ANY (%s) AND chunk_id = ANY (%s)", (names, ids)
    )
    session.execute(
        "INSERT INTO gone SELECT s.segment, each FROM segments s JOIN unnest(%s::bigint[]) AS each "
        "ON each BETWEEN s.first_id AND s.last_id WHERE s.kind = ANY (%s) ON CONFLICT DO NOTHING",
        (ids, names),
    )
    for kind in names:
        _count(session, kind)


def drop(session: Session, kind: str, model_id: int) -> None:
    """Remove the whole index of a model. The caller holds the lock."""
    where = "WHERE kind = %s AND model_id = %s"
    session.execute(f"DELETE FROM pending {where}", (kind, model_id))
    rows = session.execute(f"SELECT segment FROM segments {where}", (kind, model_id)).fetchall()
    _delete(session, [segment for (segment,) in rows])
    _count(session, kind)


def _count(session: Session, kind: str) -> None:
    counter = _COUNTER[kind]
    setattr(session.changes, counter, getattr(session.changes, counter) + 1)


# --- writing --------------------------------------------------------------------------------------


def flush_words(database: Database) -> None:
    """Write pending chunks into segments of words and n-grams, if there are enough."""
    for kind in ("word", "ngram"):
        flush(database, kind, 0)


def flush(database: Database, kind: str, model_id: int) -> None:
    """Write pending chunks into segments if there are at least `FEW` and no other process is
    already doing so."""

    def write(session: Session) -> None:
        if _pending_count(session, kind, model_id, FEW) >= FEW and schema.try_lock(
            session.connection, session.schema, "index"
        ):
            flush_all(session, kind, model_id)

    database.repeat(write, exclusive=False, create=False)


def flush_all(session: Session, kind: str, model_id: int) -> None:
    """Write pending chunks into segments until few are left. The caller holds the exclusive
    lock."""
    while _pending_count(session, kind, model_id, FEW) >= FEW:
        _flush(session, kind, model_id)
        tidy(session, kind, model_id)


def indexes(session: Session) -> list[tuple[str, int]]:
    """Every index, by its kind and its model (0 for text indexes)."""
    rows: Any = session.execute("SELECT DISTINCT kind, model_id FROM segments ORDER BY 1, 2")
    return rows.fetchall()  # type: ignore[no-any-return]


def pending_indexes(session: Session) -> list[tuple[str, int]]:
    """Every index with chunks that are in no segment yet."""
    rows: Any = session.execute("SELECT DISTINCT kind, model_id FROM pending ORDER BY 1, 2")
    return rows.fetchall()  # type: ignore[no-any-return]


def rebuild(session: Session, kind: str, model_id: int) -> None:
    """Rebuild the whole index from texts or vectors. The caller holds the exclusive lock."""
    drop(session, kind, model_id)
    if kind == "sparse":
        session.execute(
            "INSERT INTO pending SELECT 'sparse', model_id, chunk_id FROM embeddings "
            "WHERE model_id = %s AND state = 'ready' AND sparse IS NOT NULL",
            (model_id,),
        )
    else:
        some = "WHERE cjk <> ''" if kind == "ngram" else ""
        session.execute(f"INSERT INTO pending SELECT %s, 0, chunk_id FROM chunks {some}", (kind,))
    flush_all(session, kind, model_id)


def _pending_count(session: Session, kind: str, model_id: int, most: int) -> int:
    return int(session.value(
        "SELECT count(*) FROM "
        "(SELECT 1 FROM pending WHERE kind = %s AND model_id = %s LIMIT %s) AS few",
        (kind, model_id, max(1, most)),
    ))  # fmt: skip


def _flush(session: Session, kind: str, model_id: int) -> None:
    rows = session.execute(
        "DELETE FROM pending WHERE kind = %(kind)s AND model_id = %(model_id)s AND chunk_id IN "
        "(SELECT chunk_id FROM pending WHERE kind = %(kind)s AND model_id = %(model_id)s "
        "ORDER BY chunk_id LIMIT %(limit)s) RETURNING chunk_id",
        {"kind": kind, "model_id": model_id, "limit": MOST},
    )
    chunk_ids = sorted(chunk_id for (chunk_id,) in rows)
    if kind == "sparse":
        _write_sparse(session, model_id, invert(session, model_id, chunk_ids))
    else:
        _write_words(session, kind, read_postings(session, kind, chunk_ids))
    _count(session, kind)


def read_postings(session: Session, kind: str, chunk_ids: Sequence[int]) -> Postings:
    """The postings of chunks, from their texts."""
    from kb.index.word_postings import build

    texts = "heading, text, parts" if kind == "word" else "'', cjk, ''"
    rows: Any = session.execute(
        f"SELECT chunk_id, {texts} FROM chunks WHERE chunk_id = ANY (%s)",
        (list(chunk_ids),),
    )
    rows = sorted(rows)  # several shards have one order each
    if kind == "word":
        return build(rows, split=split_words, stem=stem_word)
    return build(rows, split=split_ngrams, stem=str)


class InvertedVectors(NamedTuple):
    """The sparse vectors of chunks, inverted: postings by term. `chunk_ids` maps positions to
    chunks."""

    chunk_ids: list[int]
    blocks: dict[str, Block]


def invert(session: Session, model_id: int, chunk_ids: Sequence[int]) -> InvertedVectors:
    rows = session.execute(
        "SELECT chunk_id, sparse FROM embeddings WHERE model_id = %s AND chunk_id = ANY (%s) "
        "AND state = 'ready' AND sparse IS NOT NULL ORDER BY chunk_id",
        (model_id, list(chunk_ids)),
    ).fetchall()
    vectors = (sparse_weights.from_text_or_empty(text) for _, text in rows)
    return InvertedVectors([chunk_id for chunk_id, _ in rows], sparse_blocks.invert(vectors))


def _write_sparse(session: Session, model_id: int, made: InvertedVectors) -> None:
    if made.chunk_ids:
        ids = array("q", made.chunk_ids)
        segment = _insert(session, "sparse", model_id, ids, (None, None, None))
        blocks = ((term, block.to_bytes()) for term, block in made.blocks.items())
        _write_blocks(session, segment, blocks)


def _write_words(session: Session, kind: str, made: Postings) -> None:
    from kb.index import word_blocks

    if len(made.ids):
        lengths = made.lengths.astype("<u4").tobytes()
        pairs = made.pair_bits.tobytes(), made.pair_ends.astype("<i8").tobytes()
        segment = _insert(session, kind, 0, array("q", made.ids.tolist()), (lengths, *pairs))
        _write_blocks(session, segment, word_blocks.blocks(made))


def _insert(
    session: Session,
    kind: str,
    model_id: int,
    ids: array[int],
    rest: tuple[bytes | None, bytes | None, bytes | None],
) -> int:
    return int(session.value(
        "INSERT INTO segments (kind, model_id, chunks, first_id, last_id, chunk_ids, lengths, "
        "pair_bits, pair_ends) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING segment",
        (kind, model_id, len(ids), min(ids), max(ids), sparse_weights.pack(ids), *rest),
    ))  # fmt: skip


def _write_blocks(session: Session, segment: int, blocks: Iterable[tuple[str, bytes]]) -> None:
    session.copy(
        "blocks (segment, term, postings)",
        ((segment, term_key(term), data) for term, data in blocks),
        ("int8", "text", "bytea"),
    )


def _delete(session: Session, segments: Sequence[int]) -> None:
    for table in ("blocks", "gone", "segments"):
        session.execute(f"DELETE FROM {table} WHERE segment = ANY (%s)", (list(segments),))


# --- merging --------------------------------------------------------------------------------------


def tidy(session: Session, kind: str, model_id: int) -> None:
    """Merge segments if there are too many, and rewrite those that have lost too many chunks."""
    while chosen := _to_merge(standings(session, kind, model_id)):
        if kind == "sparse":
            _merge_sparse(session, model_id, chosen)
        else:
            _merge_words(session, kind, chosen)
        _delete(session, chosen)
        _count(session, kind)


def standings(session: Session, kind: str, model_id: int) -> list[Segment]:
    rows = session.execute(
        "SELECT segment, chunks, (SELECT count(*) FROM gone g WHERE g.segment = s.segment) "
        "FROM segments s WHERE kind = %s AND model_id = %s ORDER BY 1",
        (kind, model_id),
    )
    return [Segment(*row) for row in rows]


def _to_merge(segments: Sequence[Segment]) -> list[int]:
    for size in range(len(_SIZES)):
        same = [one.segment for one in segments if one.size == size]
        if len(same) >= FAN:
            return same[:FAN]
    return [one.segment for one in segments if one.needs_rewrite][:1]


def _merge_words(session: Session, kind: str, chosen: Sequence[int]) -> None:
    from kb.index import word_blocks
    from kb.index.bm25 import Part

    parts = []
    for stored in read_segments(session, chosen):
        stored.load_signatures(session)
        gone = gone_mask(stored.ids, read_deleted(session, [stored.segment])[stored.segment])
        parts.append((Part(stored, gone), _blocks_of(session, stored.segment)))
    _write_words(session, kind, word_blocks.merge(parts))


def _merge_sparse(session: Session, model_id: int, chosen: Sequence[int]) -> None:
    merged = InvertedVectors([], {})
    for stored in read_segments(session, chosen):
        gone = read_deleted(session, [stored.segment])[stored.segment]
        moved = []
        for chunk_id in stored.ids.tolist():
            moved.append(-1 if chunk_id in gone else len(merged.chunk_ids))
            if chunk_id not in gone:
                merged.chunk_ids.append(chunk_id)
        for term, data in _blocks_of(session, stored.segment):
            block = merged.blocks.get(term) or Block(bytearray(), array("H"))
            sparse_blocks.add(block, data, moved)
            if block.places:
                merged.blocks[term] = block
    _write_sparse(session, model_id, merged)


def _blocks_of(session: Session, segment: int) -> list[tuple[str, bytes]]:
    rows: Any = session.execute(
        "SELECT term, postings FROM blocks WHERE segment = %s ORDER BY term", (segment,)
    ).fetchall()
    return rows  # type: ignore[no-any-return]


# --- reading --------------------------------------------------------------------------------------


class StoredSegment:
    """The chunks of a segment, which is never changed; its blocks are read on demand."""

    def __init__(self, segment: int, ids: NDArray[np.int64], lengths: NDArray[np.uint32]) -> None:
        self.segment = segment
        self.ids = ids
        self.lengths = lengths
        self._signatures: Signatures | None = None

    @property
    def signatures(self) -> Signatures:
        assert self._signatures is not None, "loaded before phrases are looked up"
        return self._signatures

    def load_signatures(self, session: Session) -> None:
        """Read the signatures of adjacent words, which only phrases need."""
        import numpy as np

        from kb.index.word_pairs import Signatures

        if self._signatures is None:
            row: Any = session.execute(
                "SELECT pair_bits, pair_ends FROM segments WHERE segment = %s", (self.segment,)
            ).fetchone()
            self._signatures = Signatures(
                np.frombuffer(row[0], np.uint8), np.frombuffer(row[1], "<i8")
            )

    def of(self, term: str) -> PhrasePostings:
        raise NotImplementedError("the blocks of a segment are in the store")


def numbers(session: Session, kind: str, model_id: int) -> list[int]:
    """The segments of an index, oldest first."""
    rows = session.execute(
        "SELECT segment FROM segments WHERE kind = %s AND model_id = %s ORDER BY 1",
        (kind, model_id),
    )
    return [segment for (segment,) in rows]


def read_segments(session: Session, segments: Sequence[int]) -> Iterator[StoredSegment]:
    """The chunks of segments, in the order of their numbers."""
    import numpy as np

    rows = session.execute(
        "SELECT segment, chunk_ids, coalesce(lengths, '') FROM segments WHERE segment = ANY (%s) "
        "ORDER BY 1",
        (list(segments),),
    )
    for segment, ids, lengths in rows:
        yield StoredSegment(segment, np.frombuffer(ids, "<i8"), np.frombuffer(lengths, "<u4"))


def read_deleted(session: Session, segments: Sequence[int]) -> dict[int, set[int]]:
    """The deleted chunks of each segment; they may include chunks that it never had."""
    gone: dict[int, set[int]] = {segment: set() for segment in segments}
    rows = session.execute(
        "SELECT segment, chunk_id FROM gone WHERE segment = ANY (%s)", (list(segments),)
    )
    for segment, chunk_id in rows:
        gone[segment].add(chunk_id)
    return gone


def gone_mask(ids: NDArray[np.int64], gone: set[int]) -> NDArray[np.bool_] | None:
    """A mask of the deleted chunks; None if all exist."""
    import numpy as np

    if not gone:
        return None
    mask: NDArray[np.bool_] = np.isin(ids, np.array(sorted(gone), np.int64))
    return mask if mask.any() else None


def read_pending(session: Session, kind: str, model_id: int) -> list[int]:
    """The chunks that are in no segment yet."""
    rows = session.execute(
        "SELECT chunk_id FROM pending WHERE kind = %s AND model_id = %s ORDER BY 1",
        (kind, model_id),
    )
    return [chunk_id for (chunk_id,) in rows]
