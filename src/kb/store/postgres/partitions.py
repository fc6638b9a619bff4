"""Hash partitions of the tables that grow with the store, chosen when the store is created.

Texts and vectors are divided by passage, postings by segment, because statements look them up by
these columns, and because a unique key has to contain them. The statements are those of tables
without partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql

if TYPE_CHECKING:
    from kb.store.postgres.pool import Connection
    from kb.store.postgres.session import Session

_COLUMNS = {  # what each table is divided by
    "chunks": "chunk_id",
    "embeddings": "chunk_id",
    "near_vectors": "chunk_id",
    "blocks": "segment",
}
# A check is copied with its column. `p` is a primary key, `u` unique, `f` a foreign key.
_CONSTRAINTS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'f') ORDER BY contype DESC
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = %s::regclass
  AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid) ORDER BY 1
"""
_IDENTITY = """
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''
"""
_PARTITIONS = """
SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
WHERE inhparent = to_regclass(%s) ORDER BY c.oid
"""


class _Table(NamedTuple):
    """What a table without its rows consists of, besides its columns."""

    constraints: list[tuple[str, str]]
    indexes: list[str]
    identity: list[str]


def create(connection: Connection, count: int) -> None:
    """Divide the tables of a new, empty store into `count` partitions each."""
    tables = {name: _describe(connection, name) for name in _COLUMNS}
    for name in _COLUMNS:
        _run(connection, "ALTER TABLE {} RENAME TO {}", name, f"{name}_whole")
    for name, column in _COLUMNS.items():
        _run(
            connection,
            "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) "
            "PARTITION BY HASH ({})",
            name, f"{name}_whole", column,
        )  # fmt: skip
        for number in range(count):
            _run(
                connection,
                f"CREATE TABLE {{}} PARTITION OF {{}} "
                f"FOR VALUES WITH (MODULUS {count:d}, REMAINDER {number:d})",
                f"{name}_{number}", name,
            )  # fmt: skip
    for name in _COLUMNS:
        _run(connection, "DROP TABLE {} CASCADE", f"{name}_whole")
    for name, table in tables.items():
        _complete(connection, name, table)


def _describe(connection: Connection, name: str) -> _Table:
    def rows(statement: str) -> list[Any]:
        return connection.execute(statement, (name,)).fetchall()

    return _Table(
        rows(_CONSTRAINTS),
        [text for (text,) in rows(_INDEXES)],
        [column for (column,) in rows(_IDENTITY)],
    )


def _complete(connection: Connection, name: str, table: _Table) -> None:
    """Add keys, indexes and sequences, with the names that they have without partitions."""
    for constraint, definition in table.constraints:
        _run(connection, f"ALTER TABLE {{}} ADD CONSTRAINT {{}} {definition}", name, constraint)
    for definition in table.indexes:
        connection.execute(definition.encode())
    for column in table.identity:  # which partitioned tables have since PostgreSQL 17
        sequence = f"{name}_{column}_seq"
        _run(connection, "CREATE SEQUENCE {} OWNED BY {}.{}", sequence, name, column)
        default = sql.SQL("ALTER TABLE {} ALTER {} SET DEFAULT nextval({})")
        connection.execute(
            default.format(sql.Identifier(name), sql.Identifier(column), sql.Literal(sequence))
        )


def _run(connection: Connection, statement: str, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def partitions(session: Session, table: str) -> list[str]:
    """The partitions of a table; none if it is not divided."""
    rows = session.execute(_PARTITIONS, (f'"{session.schema}".{table}',))
    return [name for (name,) in rows]
