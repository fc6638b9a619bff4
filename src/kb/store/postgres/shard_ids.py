"""The ids of a shard: those of shard 1 of 2 are odd, those of shard 2 are even, so that they are
distinct without any coordination. See `kb.store.postgres.shards`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.store.postgres.pool import Connection
    from kb.store.postgres.session import Session

_COLUMNS = {
    "roots": "root_id",
    "documents": "doc_id",
    "chunks": "chunk_id",
    "removed_documents": "removed_id",
    "segments": "segment",
}
NUMBERS = """
SELECT seqstart, seqincrement FROM pg_sequence
WHERE seqrelid = pg_get_serial_sequence('documents', 'doc_id')::regclass
"""


def number_ids(connection: Connection, shard: tuple[int, int]) -> None:
    """Give a new store the ids of one shard: its number, and how many shards there are."""
    number, count = shard
    for table, column in _COLUMNS.items():
        row: Any = connection.execute(
            "SELECT pg_get_serial_sequence(%s, %s)", (table, column)
        ).fetchone()
        connection.execute(
            f"ALTER SEQUENCE {row[0]} INCREMENT BY {count:d} START WITH {number:d} "
            f"RESTART WITH {number:d}".encode()
        )


def shard_of(session: Session) -> tuple[int, int]:
    """The number of a shard, and how many there are; (1, 1) for any other store."""
    row: Any = session.execute(NUMBERS).fetchone()
    return row[0], row[1]
