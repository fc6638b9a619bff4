"""Problems with a server are reported as errors of kb with a hint."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
from kb.store.postgres import connection as connection_module
from kb.store.postgres import schema as schema_module
from kb.store.postgres import segments
from kb.store.postgres.location import Location
from kb.store.postgres.session import Session
from kb.store.postgres.store import PostgresStore
from kb.types import Filters
from tests.conformance.store.samples import EVERYTHING, SPEC, put
from tests.conftest import Clock
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
    newer = schema_module.VERSION + 1
    monkeypatch.setattr(schema_module, "VERSION", newer)
    monkeypatch.setattr(schema_module, "_script", lambda _: b"CREATE TABLE later (id bigint)")
    with pytest.raises(StoreUnusable, match="older schema"):
        open_again(read_only=True).catalog.version()
    assert len(open_again().catalog.documents(Filters(), None)) == 1
    row = sql.execute("SELECT schema_version, to_regclass('later')::text FROM state").fetchone()
    assert row == (newer, "later")


def test_a_store_that_another_process_creates_first(
    postgres: Server, open_again: Open, schema: str, clock: Clock
) -> None:
    """The second process has looked before, and begins to create the store afterwards."""
    location = Location.parse(postgres.url(schema=schema))
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("BEGIN")
        schema_module.set_path(connection, schema)
        assert schema_module.version(connection, location) is None
        put(open_again(), "a", "text")
        schema_module.migrate(connection, location, clock)
        assert schema_module.version(connection, location) == schema_module.VERSION
        connection.execute("COMMIT")
    assert len(open_again().catalog.documents(Filters(), None)) == 1


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
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
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
            store = open_store(server.url(), busy_timeout_s=2)
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


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_are_sent_as_utf8(
    postgres: Server, schema: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    for options in ({}, {"client_encoding": encoding}):
        store = open_store(postgres.url(schema=schema, **options))
        put(store, "a", "Prices › in € and 日本語")
        (document,) = store.catalog.documents(Filters(), None)
        (chunk,) = store.catalog.chunks(document.doc_id)
        assert chunk.text == "Prices › in € and 日本語"
        store.close()


def _end_connections(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_work_goes_on_when_its_connection_is_ended(
    postgres: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the connection in the middle of a transaction, as it does before a restart.
    Every kind of work of an ingest and a worker is done again; a request with a time limit is
    not, nor is a part of a snapshot."""
    put(store, "a", "text")
    spec = store.vectors.use_model(SPEC)
    ended: list[str] = []
    execute = Session.execute

    def end_once(self: Session, sql: str, params: Any = None) -> Any:
        if not ended:
            ended.append(sql)
            _end_connections(postgres)
        return execute(self, sql, params)

    monkeypatch.setattr(Session, "execute", end_once)
    (document,) = store.catalog.documents(Filters(), None)
    ids = iter([document.doc_id])
    work: list[Callable[[], Any]] = [
        lambda: store.catalog.roots(),
        lambda: store.catalog.documents_by_id(ids),
        lambda: store.catalog.ensure_root("/folder", whole=True),
        lambda: segments.flush_words(store._database),
        lambda: store.vectors.models(),
        lambda: store.vectors.use_model(SPEC),
        lambda: store.vectors.set_exam_marks(spec.model_id, None),
        lambda: store.vectors.switch(spec.model_id),
        lambda: store.vectors.drop_retired(),
        lambda: store.vectors.build_index(spec.model_id),
        lambda: store.queue.has_work(spec.model_id, frozenset()),
        lambda: store.queue.retry(spec.model_id),
        lambda: store.queue.end_job(store.queue.start_job(spec.model_id)),
    ]
    for each in work:
        ended.clear()
        each()
        assert ended
    assert [root.path for root in store.catalog.roots()] == ["/folder"]
    ended.clear()
    with pytest.raises(StoreBusy, match="lost"), Deadline(30.0):
        store.catalog.documents(Filters(), None)
    ended.clear()
    with pytest.raises(StoreBusy, match="lost"), store.snapshot():
        store.catalog.documents(Filters(), None)
    ended.clear()
    assert list(store.catalog.documents_by_id(iter([document.doc_id]))) == [document.doc_id]


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


def test_a_suspended_writer_does_not_keep_others_out(
    open_again: Open, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_IDLE_S", 0.2)
    suspended = open_again(busy_timeout_s=0.2)

    def write_slowly() -> None:
        with suspended._database.writing() as session:
            session.execute("UPDATE state SET changes = changes + 1")
            put(store, "a", "text")  # waits until the server has ended the other transaction
            session.execute("SELECT 1")

    with pytest.raises(StoreBusy, match="lost"):
        write_slowly()
    assert len(suspended.catalog.documents(Filters(), None)) == 1
    put(suspended, "b", "text")


class _Proxy:
    """Forwards connections to the server, until it is frozen: then they stay open, and silent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._frozen = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._frozen.set()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._frozen.is_set():
                    threading.Event().wait()
                target.sendall(data)


def test_a_server_that_does_not_respond_is_not_waited_for(
    postgres: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_GRACE_S", 0.1)
    url = urlsplit(postgres.url(schema=schema))
    proxy = _Proxy(url.port or 5432)
    store = open_store(url._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl())
    put(store, "a", "text")
    with Deadline(30.0), store.snapshot():
        assert len(store.catalog.documents(Filters(), None)) == 1
    proxy.freeze()
    for _ in range(2):
        with pytest.raises((DeadlineExceeded, StoreUnusable)), Deadline(0.3):
            store.catalog.documents(Filters(), None)
    with pytest.raises((DeadlineExceeded, StoreUnusable)), Deadline(0.3):
        put(store, "b", "text")
