"""The store's schema: numbered migrations, and errors for databases that kb cannot use."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, sql

from kb.errors import StoreTooNew, StoreUnusable
from kb.store.postgres import partitions, shard_ids
from kb.text.timestamps import utc_timestamp

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.postgres.location import Location
    from kb.store.postgres.pool import Connection

VERSION = 3  # the newest migration
_LEAST_SERVER = 15
_LEAST_VECTOR = (0, 7)
_PATH = """
SELECT set_config('search_path', quote_ident(%s) || coalesce(
  (SELECT ', ' || quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
   WHERE extname = 'vector'), ''), false)
"""
# Not `to_regclass`, which may cache the absence of a table for the rest of a transaction.
_STATE_TABLE = """
SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = 'state'
"""


def set_path(connection: Connection, schema: str) -> str:
    """Resolve names in the store's schema, then in the schema of pgvector, and return this path."""
    row = connection.execute(_PATH, (schema,)).fetchone()
    assert row is not None
    path: str = row[0]
    return path


def use_path(connection: Connection, path: str) -> None:
    """Resolve names in the schemas of `path`, also in those that a standby does not have yet."""
    connection.execute("SELECT set_config('search_path', %s, false)", (path,))


def version(connection: Connection, location: Location) -> int | None:
    """The store's schema version; None if there is no store. Raises `StoreTooNew`."""
    if connection.execute(_STATE_TABLE, (location.schema,)).fetchone() is None:
        return None
    table = sql.SQL("SELECT max(schema_version) FROM {}.state")
    found: Any = connection.execute(table.format(sql.Identifier(location.schema))).fetchone()
    number = int(found[0] or 0)
    if number > VERSION:
        raise StoreTooNew(
            f"{location.shown} was written by a newer kb (schema {number}; this version supports "
            f"{VERSION})",
            "upgrade with: pip install -U kb-search",
        )
    return number


def lock(connection: Connection, schema: str, *, shared: bool = False, what: str = "write") -> None:
    """Take one of the store's locks until the transaction ends: `write` for writers of documents,
    `index` for those that merge segments."""
    share = "_shared" if shared else ""
    connection.execute(
        f"SELECT pg_advisory_xact_lock{share}(hashtextextended(%s, 0))", (f"kb {schema} {what}",)
    )


def try_lock(connection: Connection, schema: str, what: str) -> bool:
    """Take a lock if no other transaction has it. Returns whether it was taken."""
    row = connection.execute(
        "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (f"kb {schema} {what}",)
    ).fetchone()
    return bool(row and row[0])


def migrate(connection: Connection, location: Location, clock: Clock) -> None:
    """Create the store or migrate it to `VERSION`, in the caller's transaction. If several
    processes start at once, one of them migrates."""
    _check_server(connection)
    lock(connection, location.schema, what="migrate")
    number = version(connection, location)
    if number == VERSION:
        return
    if number is None:
        _create_schema(connection, location)
    for step in range((number or 0) + 1, VERSION + 1):
        try:
            connection.execute(_script(step))
        except errors.DuplicateTable as error:
            raise StoreUnusable(
                f"the schema {location.schema!r} contains tables of another application",
                "choose another schema: ?schema=NAME",
            ) from error
    if number is None:
        if location.partitions > 1:
            partitions.create(connection, location.partitions)
        if location.shard is not None:
            shard_ids.number_ids(connection, location.shard)
        connection.execute(
            "INSERT INTO state (schema_version, store_id, created_at) VALUES (%s, %s, %s)",
            (VERSION, uuid.uuid4().hex, utc_timestamp(clock())),
        )
    connection.execute("UPDATE state SET schema_version = %s", (VERSION,))


def _check_server(connection: Connection) -> None:
    server = connection.info.server_version // 10_000
    if server < _LEAST_SERVER:
        raise StoreUnusable(
            f"the server is PostgreSQL {server}", f"kb needs PostgreSQL {_LEAST_SERVER} or later"
        )
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise StoreUnusable(
            "the database does not store text in UTF-8",
            "create one with: createdb --encoding=UTF8 --template=template0 NAME",
        )


def _create_schema(connection: Connection, location: Location) -> None:
    name = sql.Identifier(location.schema)
    row = connection.execute(
        "SELECT 1 FROM pg_namespace WHERE nspname = %s", (location.schema,)
    ).fetchone()
    if row is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
    _require_vector(connection)
    set_path(connection, location.schema)


def _require_vector(connection: Connection) -> None:
    """Check pgvector, and add it to the database if the role is allowed to. Holds a lock, because
    another schema of this database may become a store at the same time."""
    lock(connection, "", what="extension")
    found = extension_version(connection)
    if found is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION vector SCHEMA public")
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise StoreUnusable(
                "the server has no pgvector", "install it: https://github.com/pgvector/pgvector"
            ) from error
        except errors.InsufficientPrivilege as error:
            raise StoreUnusable(
                "the database has no extension vector, and this role may not add it",
                "ask a superuser to run: CREATE EXTENSION vector",
            ) from error
        found = extension_version(connection)
    assert found is not None
    if tuple(map(int, found.split(".")[:2])) < _LEAST_VECTOR:
        raise StoreUnusable(
            f"the database has pgvector {found}",
            "kb needs 0.7 or later: install it, and run ALTER EXTENSION vector UPDATE",
        )


def extension_version(connection: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    """The version of pgvector in this database; None if it has none."""
    row = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return None if row is None else str(row[0])


def _script(number: int) -> bytes:
    from importlib import resources

    folder = resources.files("kb.store.postgres") / "migrations"
    (script,) = (item for item in folder.iterdir() if item.name.startswith(f"{number:04d}_"))
    return script.read_bytes()
