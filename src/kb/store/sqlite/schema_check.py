"""Compares a store's schema with the schema that the migrations create."""

from __future__ import annotations

from functools import cache

import apsw

from kb.store.sqlite import schema

INDEXES = ("chunks_fts", "chunks_cjk")
_BELOW = ("data", "idx", "content", "docsize", "config")  # the shadow tables of each FTS5 table

Objects = dict[str, tuple[str, str]]  # name -> kind, SQL


def missing(connection: apsw.Connection) -> dict[str, str]:
    """Tables, indexes and triggers that are missing or differ: their kind by name."""
    actual = _objects(connection)
    return {
        name: kind
        for name, (kind, sql) in _expected_schema().items()
        if actual.get(name) != (kind, sql)
    }


def complete(connection: apsw.Connection) -> None:
    """Create missing indexes, triggers and full-text tables. Other tables cannot be restored."""
    wanted, there = _expected_schema(), _objects(connection)
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
def _expected_schema() -> Objects:
    """The schema that the migrations create."""
    connection = apsw.Connection(":memory:")
    try:
        schema.migrate(connection, ":memory:")
        return _objects(connection)
    finally:
        connection.close()
