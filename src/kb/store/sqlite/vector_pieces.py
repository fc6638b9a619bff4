"""Sparse and token vectors in pieces of at most 500 bytes. Each function runs in the caller's
transaction.

SQLite starts a new page for the part of a row that does not fit: with all vectors of a chunk, a row
of `embeddings` takes 2 to 5 kB, and a fifth of the space in pages would be unused. Pieces
fill pages to 95 %, and three rows with only a dense vector share a page.

In place of a part, the row has its checksum in four bytes, so that triggers notice changes. (A part
is longer: its header alone takes more.) The pieces contain the part, or a byte 255 and the deflated
part if that is shorter: token vectors of real texts then take a sixth less. Searches read the
parts rarely: sparse vectors are in the inverted index, and token vectors are for rerankers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

import apsw

_BYTES = 500  # of a piece
_MAX_BYTES = 32 * _BYTES  # longer parts stay in the row, where they fill their pages well
_WINDOW = -15  # of zlib, without a header
_DEFLATED = b"\xff"  # sparse and token vectors begin with the number of their format
_BITS = 7  # of a piece's number in its key
_FIRST = {"sparse": 0, "tokens": 64}  # the number of the first piece
_EACH = 64
_READ = f"""
SELECT e.chunk_id, e.{{part}}, p.piece, p.data
FROM embeddings e
  LEFT JOIN vector_pieces p ON length(e.{{part}}) = 4 AND p.piece BETWEEN
    (e.embedding_id << {_BITS}) + {{first}} AND (e.embedding_id << {_BITS}) + {{last}}
WHERE e.chunk_id IN (SELECT value FROM json_each(?)) AND e.model_id = ? AND e.state = 'ready'
  AND e.{{part}} IS NOT NULL
"""
_READS = {
    part: _READ.format(part=part, first=first, last=first + _EACH - 1)
    for part, first in _FIRST.items()
}


def is_divided(part: object) -> bool:
    """Whether a part is stored in pieces."""
    return isinstance(part, bytes) and 0 < len(part) <= _MAX_BYTES


def split(part: Any) -> list[bytes]:
    """The pieces of a part, of about the same length; none if it stays in the row."""
    if not is_divided(part):
        return []
    deflate = zlib.compressobj(wbits=_WINDOW)
    deflated = _DEFLATED + deflate.compress(part) + deflate.flush()
    is_shorter = len(deflated) < len(part)
    data = deflated if is_shorter or part[:1] == _DEFLATED else part
    length = -(-len(data) // -(-len(data) // _BYTES))
    return [data[start : start + length] for start in range(0, len(data), length)]


def _join(pieces: Iterable[bytes]) -> bytes:
    """The part that was split; nothing if it is damaged."""
    data = b"".join(pieces)
    if data[:1] != _DEFLATED:
        return data
    try:
        return zlib.decompressobj(_WINDOW).decompress(data[1:], _MAX_BYTES)
    except zlib.error:
        return b""


def in_row(part: Any) -> Any:
    """The value in the row for a part: its checksum if it is in pieces, or the part itself."""
    return _checksum(part) if is_divided(part) else part


def is_checksum(value: object) -> bool:
    """Whether the row has only the checksum of a part."""
    return isinstance(value, bytes) and len(value) == 4


def _checksum(part: bytes) -> bytes:
    return zlib.crc32(part).to_bytes(4, "little")


def write(connection: apsw.Connection, model_id: int, chunk_id: int, **parts: object) -> None:
    """Replace the pieces of these parts: `sparse`, `tokens` or both."""
    row: Any = connection.execute(
        "SELECT embedding_id FROM embeddings WHERE chunk_id = ? AND model_id = ?",
        (chunk_id, model_id),
    ).fetchone()
    for part, value in parts.items():
        first = (row[0] << _BITS) + _FIRST[part]
        connection.execute(
            "DELETE FROM vector_pieces WHERE piece BETWEEN ? AND ?", (first, first + _EACH - 1)
        )
        connection.executemany(
            "INSERT INTO vector_pieces (piece, data) VALUES (?, ?)",
            [(first + number, data) for number, data in enumerate(split(value))],
        )


def read(
    connection: apsw.Connection, part: str, model_id: int, chunk_ids: Iterable[int]
) -> dict[int, Any]:
    """The `sparse` or `tokens` of these chunks, as they were written, ordered by chunk. A part with
    damaged or missing pieces is empty."""
    rows: Any = connection.execute(_READS[part], (json.dumps(list(chunk_ids)), model_id))
    parts: dict[int, Any] = {}
    pieces: dict[int, list[tuple[int, bytes]]] = {}
    for chunk_id, value, number, data in rows:
        parts[chunk_id] = value
        if is_checksum(value):
            pieces.setdefault(chunk_id, []).append((number, data))
    for chunk_id, of_chunk in pieces.items():
        of_chunk.sort()  # in SQL, the bytes would be copied to be sorted
        joined = _join([data for _, data in of_chunk if isinstance(data, bytes)])
        parts[chunk_id] = joined if _checksum(joined) == parts[chunk_id] else b""
    return dict(sorted(parts.items()))


def delete_unused(connection: apsw.Connection) -> None:
    """Delete the pieces of embeddings that were deleted without triggers."""
    connection.execute(
        f"DELETE FROM vector_pieces WHERE piece >> {_BITS} NOT IN (SELECT embedding_id "
        "FROM embeddings WHERE 4 IN (length(sparse), length(tokens)))"
    )
