"""What a store's schema is made of, compared with what the migrations make."""

from __future__ import annotations

from functools import cache

import apsw

from kb.store.sqlite import schema

INDEXES = ("chunks_fts", "chunks_trigram", "chunks_cjk")
_BELOW = ("data", "idx", "content", "docsize", "config")  # FTS5's own tables, below each of ours

Objects = dict[str, tuple[str, str]]  # name -> kind, SQL


def missing(connection: apsw.Connection) -> dict[str, str]:
    """Tables, indexes and triggers that are not there, or not as they should be: by name, with
    what they are."""
    found = _objects(connection)
    return {name: kind for name, (kind, sql) in _wanted().items() if found.get(name) != (kind, sql)}


def complete(connection: apsw.Connection) -> None:
    """Make indexes and triggers again, and full-text tables that are not there at all. Other
    tables hold what nothing can make again."""
    wanted, there = _wanted(), _objects(connection)
    for name, kind in missing(connection).items():
        sql = wanted[name][1]
        if kind in ("index", "trigger"):
            connection.execute(f"DROP {kind} IF EXISTS {name}")
        elif name in there or not sql.startswith("CREATE VIRTUAL"):
            continue
        connection.execute(sql)


def _objects(connection: apsw.Connection) -> Objects:
    rows = connection.execute("SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    below = {f"{table}_{part}" for table in INDEXES for part in _BELOW}
    return {
        name: (kind, sql)
        for name, kind, sql in rows
        if name not in below and not name.startswith("sqlite_")
    }


@cache
def _wanted() -> Objects:
    """Always the same, and no one changes it."""
    connection = apsw.Connection(":memory:")
    try:
        schema.migrate(connection, ":memory:")
        return _objects(connection)
    finally:
        connection.close()
