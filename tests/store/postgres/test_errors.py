"""What goes wrong with a server is reported as an error of kb that says what to do."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kb.deadline import Deadline
from kb.errors import (
    DeadlineExceeded,
    DiskFull,
    InvalidRequest,
    StoreBusy,
    StoreMissing,
    StoreReadOnly,
    StoreTooNew,
    StoreUnusable,
)
from kb.store import open_store
from kb.store.postgres import schema as schema_module
from kb.store.postgres.store import PostgresStore
from kb.types import Filters
from tests.conformance.store.samples import EVERYTHING, put
from tests.postgres import Server
from tests.store.postgres.conftest import Open

Sql = psycopg.Connection[tuple[Any, ...]]


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        store = open_store(f"postgresql://kb:secret@127.0.0.1:{port}/team")
        with pytest.raises(StoreUnusable, match="cannot be reached") as error:
            store.exists()
    assert "secret" not in error.value.message
    assert "host and the port" in error.value.hint


def test_a_wrong_password(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS locked_out")
        connection.execute("CREATE ROLE locked_out LOGIN PASSWORD 'right'")
        hba = Path(str(connection.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]
        before = hba.read_text()
        hba.write_text(f"host all locked_out 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        try:
            for user in ("locked_out:wrong", "locked_out"):
                store = open_store(postgres.url(user=user))
                with pytest.raises(StoreUnusable, match="password") as error:
                    store.exists()
                assert "PGPASSWORD" in error.value.hint
        finally:
            hba.write_text(before)
            connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    ("change", "hint"),
    [({"database": "nosuch"}, "createdb"), ({"user": "nosuch"}, "pg_hba.conf")],
)
def test_an_unknown_database_or_user(postgres: Server, change: dict[str, str], hint: str) -> None:
    with pytest.raises(StoreUnusable, match="nosuch") as error:
        open_store(postgres.url(**change)).exists()
    assert hint in error.value.hint


def test_an_unknown_parameter(postgres: Server) -> None:
    with pytest.raises(InvalidRequest, match="colour"):
        open_store(postgres.url(colour="blue")).exists()


@pytest.fixture
def bare(postgres: Server, schema: str) -> Iterator[str]:
    """The URL of a database without pgvector, for a role that may not add it."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {schema} LOGIN".encode())
        connection.execute(f"CREATE DATABASE {schema} OWNER {schema}".encode())
        yield postgres.url(database=schema, user=schema)
        connection.execute(f"DROP DATABASE {schema} WITH (FORCE)".encode())
        connection.execute(f"DROP ROLE {schema}".encode())


def test_a_missing_extension(bare: str) -> None:
    store = open_store(bare)
    with pytest.raises(StoreUnusable, match="extension vector") as error:
        store.create()
    assert "CREATE EXTENSION vector" in error.value.hint
    assert not store.exists()
    store.close()


def test_a_newer_schema(store: PostgresStore, open_again: Open, sql: Sql) -> None:
    sql.execute("UPDATE state SET schema_version = 99")
    for options in ({}, {"read_only": True}):
        again = open_again(**options)
        with pytest.raises(StoreTooNew, match="99") as error:
            again.catalog.version()
        assert "upgrade" in error.value.hint
    with pytest.raises(StoreTooNew):
        open_again().create()


def test_an_older_schema_is_migrated(
    store: PostgresStore, open_again: Open, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "a", "text")
    monkeypatch.setattr(schema_module, "VERSION", 2)
    monkeypatch.setattr(schema_module, "_script", lambda _: b"CREATE TABLE later (id bigint)")
    with pytest.raises(StoreUnusable, match="older schema"):
        open_again(read_only=True).catalog.version()
    assert len(open_again().catalog.documents(Filters(), None)) == 1
    row = sql.execute("SELECT schema_version, to_regclass('later')::text FROM state").fetchone()
    assert row == (2, "later")


def test_a_schema_of_another_application(open_again: Open, sql: Sql, schema: str) -> None:
    sql.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.documents (id int)".encode())
    with pytest.raises(StoreUnusable, match="another application") as error:
        open_again().create()
    assert "?schema=" in error.value.hint
    assert sql.execute("SELECT to_regclass('chunks')").fetchone() == (None,)


def test_a_role_that_may_only_read(postgres: Server, store: PostgresStore, schema: str) -> None:
    put(store, "a", "text")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}; "
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}".encode()
        )
        reader = open_store(postgres.url(user=schema, schema=schema))
        assert len(reader.catalog.documents(Filters(), None)) == 1
        assert reader.fulltext.match_substrings(["tex"], **EVERYTHING).chunks
        with pytest.raises(StoreReadOnly, match="permission denied") as error:
            put(reader, "b", "text")
        assert "role" in error.value.hint
        reader.close()
        connection.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}".encode())


def test_a_store_that_was_dropped(store: PostgresStore, sql: Sql, schema: str) -> None:
    put(store, "a", "text")
    sql.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    with pytest.raises(StoreMissing):
        store.catalog.version()
    put(store, "b", "text")
    assert [one.doc_path for one in store.catalog.documents(Filters(), None)] == ["b"]


def test_a_lock_that_is_not_released(store: PostgresStore, open_again: Open) -> None:
    impatient = open_again(busy_timeout_s=0.05)
    impatient.catalog.version()
    with store._database.writing(), pytest.raises(StoreBusy) as error:
        put(impatient, "a", "text")
    assert "busy_timeout_s" in error.value.hint
    put(impatient, "a", "text")


def test_a_connection_that_is_cut(store: PostgresStore, sql: Sql) -> None:
    """Idle connections are replaced; one that is in use is reported."""
    put(store, "a", "text")
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'kb' AND pid <> pg_backend_pid()"
    )
    sql.execute(cut.encode())
    put(store, "b", "text")
    assert len(store.catalog.documents(Filters(), None)) == 2

    def write_in_two_steps() -> None:
        with store._database.writing() as session:
            session.execute("UPDATE documents SET title = 'x'")
            sql.execute(cut.encode())
            session.execute("UPDATE documents SET title = 'y'")

    with pytest.raises(StoreBusy, match="lost") as error:
        write_in_two_steps()
    assert "again" in error.value.hint
    assert {one.title for one in store.catalog.documents(Filters(), None)} == {"a", "b"}


def test_a_server_that_restarts() -> None:
    with tempfile.TemporaryDirectory(prefix="kb-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server")
        try:
            store = open_store(server.url())
            put(store, "a", "text")
            with store.snapshot():
                store.catalog.version()
            server.stop("fast")
            with pytest.raises((StoreUnusable, StoreBusy)):
                store.catalog.version()
            server.start()
            put(store, "b", "text")
            assert len(store.catalog.documents(Filters(), None)) == 2
            store.close()
        finally:
            server.stop()


def test_a_deadline_ends_a_statement(store: PostgresStore) -> None:
    with (
        pytest.raises(DeadlineExceeded),
        Deadline(0.1),
        store._database.reading() as session,
    ):
        session.execute("SELECT pg_sleep(60)")
    assert store.catalog.counts().documents == 0


def test_a_full_disk(store: PostgresStore, sql: Sql) -> None:
    """The server refuses a row as it does when a disk is full: the error is clear, and everything
    written before is kept."""
    put(store, "a", "salt water")
    sql.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file: No space left on device' "
        "USING ERRCODE = 'disk_full'; END $$"
    )
    sql.execute("CREATE TRIGGER full_disk BEFORE INSERT ON chunks EXECUTE FUNCTION refuse()")
    with pytest.raises(DiskFull, match="No space left"):
        put(store, "b", "fresh water")
    assert [each.doc_path for each in store.catalog.documents(Filters(), None)] == ["a"]
    sql.execute("DROP TRIGGER full_disk ON chunks")
    put(store, "b", "fresh water")
    assert store.catalog.counts().documents == 2
