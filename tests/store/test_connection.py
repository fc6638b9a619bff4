"""The file and its connections: refused files, crashes, and waiting writers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from kb import Deadline, KnowledgeBase
from kb.errors import (
    DeadlineExceeded,
    DiskFull,
    StoreBusy,
    StoreMissing,
    StoreTooNew,
    StoreUnusable,
)
from kb.store.sqlite import connection as connection_module
from kb.store.sqlite import schema
from kb.store.sqlite.connection import Database
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import SnapshotConnection
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import check_integrity, put


def test_reading_creates_no_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite")
    with pytest.raises(StoreMissing) as error:
        store.catalog.version()
    assert "kb ingest" in error.value.hint
    assert not list(tmp_path.iterdir())


def test_the_first_write_creates_the_store_and_its_folders(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "deep" / "er" / "kb.sqlite")
    put(store, "a", "text")
    assert [document.doc_path for document in store.catalog.documents(Filters(), None)] == ["a"]


def test_one_file_is_left_when_all_is_closed(store: SqliteStore) -> None:
    put(store, "a", "text")
    store.catalog.version()
    store.close()
    assert [path.name for path in store.path.parent.iterdir()] == ["kb.sqlite"]


def test_a_file_that_is_not_sqlite_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.write_bytes(b"this is a letter, and a long one: " * 100)
    for use in (SqliteStore(path).catalog.version, SqliteStore(path).create):
        with pytest.raises(StoreUnusable, match="not an SQLite file"):
            use()
    assert path.read_bytes().startswith(b"this is a letter")


def test_an_sqlite_file_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    for use in (SqliteStore(path).catalog.version, SqliteStore(path).create):
        with pytest.raises(StoreUnusable, match="not a kb store"):
            use()
    assert path.read_bytes() == before


def test_a_store_written_by_a_newer_kb_is_refused(store: SqliteStore) -> None:
    put(store, "a", "text")
    store.close()
    connection = apsw.Connection(str(store.path))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    for use in (SqliteStore(store.path).catalog.version, SqliteStore(store.path).create):
        with pytest.raises(StoreTooNew) as error:
            use()
        assert "999" in error.value.message
        assert "upgrade" in error.value.hint


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is a folder"):
        SqliteStore(tmp_path).create()


def test_a_damaged_store_is_named_so(store: SqliteStore) -> None:
    for number in range(50):
        put(store, f"{number}", "some words " * 200)
    store.close()
    raw = bytearray(store.path.read_bytes())
    raw[4096:] = b"\xff" * (len(raw) - 4096)
    store.path.write_bytes(raw)
    with pytest.raises(StoreUnusable, match="damaged"):
        SqliteStore(store.path).catalog.documents(Filters(), None)


def test_a_full_disk_loses_nothing_that_was_written(store: SqliteStore) -> None:
    put(store, "kept", "these words are kept")
    with store._database.writing() as connection:
        pages = connection.pragma("page_count")
        connection.pragma("max_page_count", pages + 2)
    with pytest.raises(DiskFull) as error:
        put(store, "lost", *("a long text with many words " * 100 for _ in range(50)))
    assert "free some space" in error.value.hint
    assert "change" in error.value.message  # a removal fails in the same way
    assert [document.doc_path for document in store.catalog.documents(Filters(), None)] == ["kept"]
    check_integrity(store)


def test_a_writer_that_waits_too_long_fails_with_store_busy(store: SqliteStore) -> None:
    put(store, "a", "text")
    impatient = SqliteStore(store.path, busy_timeout_s=0.01)
    with store._database.writing(), pytest.raises(StoreBusy):
        impatient.create()
    impatient.create()
    impatient.close()


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced there")
@pytest.mark.parametrize("in_log", [False, True])
@pytest.mark.parametrize("first", ["read", "write"])
def test_a_file_that_is_replaced_is_opened_again(tmp_path: Path, in_log: bool, first: str) -> None:
    """The log of the old file stays out of the new one: SQLite finds it by its name."""
    path, newer = tmp_path / "kb.sqlite", tmp_path / "newer.sqlite"
    with KnowledgeBase(newer, encoder="none") as kb:
        kb.add("a note of the new file")
    with KnowledgeBase(path, encoder="none") as kb:
        for number in range(20):
            kb.add(f"note {number} of the old file")
        if not in_log:
            kb._store._database._writer().execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        os.link(path, tmp_path / "old.sqlite")
        os.replace(newer, path)
        if first == "read":
            assert [each.doc_path for each in kb.documents()] == ["note:1"]
        kb.add("written after the change")
        assert len(kb.search("note of the old file").hits) == 1
    for file, count in ((path, 2), (tmp_path / "old.sqlite", 20)):
        with KnowledgeBase(file, encoder="none") as kb:
            assert len(kb.documents()) == count
            assert kb.doctor().healthy


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced there")
def test_a_file_that_is_replaced_during_a_transaction_gets_no_answer_that_is_lost(
    store: SqliteStore, tmp_path: Path
) -> None:
    put(store, "a", "text")
    newer = SqliteStore(tmp_path / "newer.sqlite")
    put(newer, "b", "text")
    newer.close()
    with pytest.raises(StoreBusy), store._database.writing() as connection:  # noqa: PT012  # one block
        os.replace(newer.path, store.path)
        connection.execute("UPDATE documents SET title = 'lost'")
    put(store, "c", "text")
    assert [each.doc_path for each in store.catalog.documents(Filters(), None)] == ["b", "c"]
    check_integrity(store)


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced there")
def test_every_thread_leaves_a_file_that_is_replaced(store: SqliteStore, tmp_path: Path) -> None:
    newer = SqliteStore(tmp_path / "newer.sqlite")
    put(newer, "new", "text")
    newer.close()
    opened, go, seen = threading.Barrier(5), threading.Event(), list[list[str]]()

    def work(number: int) -> None:
        put(store, f"old {number}", "text")
        opened.wait()
        assert go.wait(30)
        put(store, f"later {number}", "text")
        seen.append([each.doc_path for each in store.catalog.documents(Filters(), None)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    opened.wait()
    os.replace(newer.path, store.path)
    go.set()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all("new" in paths and not any("old" in path for path in paths) for paths in seen)
    assert store.catalog.counts().documents == 5
    check_integrity(store)


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_a_file_that_is_moved_is_missing_and_not_created_again(store: SqliteStore) -> None:
    """A server would otherwise write to a new store that nobody looks for."""
    put(store, "a", "text")
    folder = store.path.parent
    moved = folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(StoreMissing):
        store.catalog.documents(Filters(), None)
    with pytest.raises(StoreMissing, match="moved or deleted while it was open"):
        put(store, "b", "text")
    assert not folder.exists()
    moved.rename(folder)
    put(store, "b", "text")
    assert [each.doc_path for each in store.catalog.documents(Filters(), None)] == ["a", "b"]
    check_integrity(store)


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_a_closed_store_that_was_removed_is_created_again(store: SqliteStore) -> None:
    put(store, "a", "text")
    store.close()
    store.path.unlink()
    put(store, "b", "text")
    assert [each.doc_path for each in store.catalog.documents(Filters(), None)] == ["b"]
    check_integrity(store)


def test_readers_never_wait_for_a_writer(store: SqliteStore) -> None:
    put(store, "a", "text")
    with store._database.writing() as connection:
        connection.execute("DELETE FROM documents")
        seen: list[int] = []
        reader = threading.Thread(
            target=lambda: seen.append(len(store.catalog.documents(Filters(), None)))
        )
        reader.start()
        reader.join()
        connection.execute("ROLLBACK; BEGIN")
    assert seen == [1]


def test_one_reading_block_sees_one_state(store: SqliteStore) -> None:
    put(store, "a", "text")
    with store.snapshot():
        before = store.catalog.version()
        writer = threading.Thread(target=put, args=(store, "b", "text"))
        writer.start()
        writer.join()
        assert store.catalog.version() == before
        assert len(store.catalog.documents(Filters(), None)) == 1
    assert len(store.catalog.documents(Filters(), None)) == 2


@pytest.mark.parametrize("block", ["reading", "writing"])
def test_an_unfinished_cursor_keeps_no_old_state(store: SqliteStore, block: str) -> None:
    """An exception keeps the frames where it was raised, and their cursors."""
    put(store, "a", "text", "more text", "and more")

    def fail() -> None:
        with getattr(store._database, block)() as connection:
            cursor = connection.execute("SELECT text FROM chunks")
            next(cursor)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail()
    put(store, "b", "text")
    assert len(store.catalog.documents(Filters(), None)) == 2
    check_integrity(store)
    assert raised.value.__traceback__ is not None  # still here, with its cursor


def test_eight_threads_write_at_once(store: SqliteStore) -> None:
    def write(thread: int) -> None:
        for number in range(20):
            put(store, f"{thread}-{number}", f"text {thread} {number}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.catalog.counts().documents == 160
    check_integrity(store)


def test_a_plain_sqlite_can_read_the_file(store: SqliteStore) -> None:
    """Nothing in the stored file needs a function or a tokenizer of kb's own."""
    put(store, "a", "how to install git")
    store.close()
    plain = apsw.Connection(str(store.path))
    found = plain.execute("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'installing'")
    assert found.fetchall() == [(1,)]
    plain.execute("UPDATE chunks SET text = 'how to remove git', parts = ''")
    gone = plain.execute("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'installing'")
    assert gone.fetchall() == []
    plain.close()


def test_a_cancelled_transaction_leaves_none_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline may end the work at any step of a statement, from the first to the last."""
    monkeypatch.setattr("kb.store.sqlite.connection._CHECK_STEPS", 1)

    def work(kb: KnowledgeBase, steps: int) -> None:
        left = iter([0.0] * steps)
        with suppress(DeadlineExceeded), Deadline(1.0, clock=lambda: next(left, 9.0)):
            kb.add("a note")
            kb.search("note")

    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.add("the first note")
        for steps in range(2, 60):
            work(kb, steps)
            store = kb._store
            assert isinstance(store, SqliteStore)
            for connection in list(store._database._open):
                assert connection.getautocommit()
        kb.add("the last note")
        assert kb.search("last").hits


def test_ctrl_c_just_after_the_end_of_a_transaction_is_not_an_error_of_the_store(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Python raises `KeyboardInterrupt` after the statement that was running."""
    put(store, "a", "text")
    database = Database(store.path, read_only=False, busy_timeout_s=1)
    for block, statement in ((database.reading, "ROLLBACK"), (database.writing, "COMMIT")):
        with pytest.raises(KeyboardInterrupt), block() as connection:  # noqa: PT012  # one block
            connection.execute(statement)
            raise KeyboardInterrupt
        with block() as connection:
            assert connection.execute("SELECT count(*) FROM documents").fetchone() == (1,)
    database.close()

    class InterruptedAfterCommit(apsw.Connection):
        def execute(self, statements: str) -> apsw.Cursor:  # type: ignore[override]
            cursor = super().execute(statements)
            if statements == "COMMIT":
                raise KeyboardInterrupt
            return cursor

    path = str(tmp_path / "new.sqlite")
    with pytest.raises(KeyboardInterrupt):
        schema.migrate(InterruptedAfterCommit(path), path)
    assert schema.version(apsw.Connection(path), path) == schema.VERSION


def test_much_free_space_is_given_back_after_a_removal(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite")
    for number in range(12):
        put(store, f"d{number}", *(f"w{number} {line} " * 500 for line in range(200)))
    store._database.checkpoint()
    before = store.maintenance.size_bytes()
    kept = put(store, "d0", "few words")
    removed = [one.doc_id for one in store.catalog.documents(Filters(), None)]
    store.catalog.delete_documents([doc_id for doc_id in removed if doc_id != kept])
    store.close()
    assert store.maintenance.size_bytes() < before / 2
    with store._database.reading() as connection:
        assert scalar(connection, "PRAGMA freelist_count") < connection_module._MIN_FREE_PAGES
    check_integrity(store)
    store.close()


def test_an_older_store_gives_space_back_after_it_was_compacted(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA auto_vacuum = NONE; CREATE TABLE t (x); DROP TABLE t")
    connection.close()
    store = SqliteStore(path)
    put(store, "a", "words")
    store.catalog.delete_documents([1])  # no other statements
    with store._database.reading() as reader:
        assert scalar(reader, "PRAGMA auto_vacuum") == 0
    store.maintenance.compact()
    with store._database.reading() as reader:
        assert scalar(reader, "PRAGMA auto_vacuum") == 2
    store.close()


ANOTHER = """
import sys
from kb import KnowledgeBase
with KnowledgeBase(sys.argv[1]) as kb:
    if len(sys.argv) > 2:
        kb.add(sys.argv[2])
    print(sorted(document.title for document in kb.documents()))
"""


def another_process(store: Path, *note: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", ANOTHER, store, *note], capture_output=True, text=True, check=True
    ).stdout


def test_a_process_that_reads_the_folder_of_its_store_keeps_its_locks(tmp_path: Path) -> None:
    """With POSIX locks, closing any descriptor of the file would release them. The other process,
    which then believes that it is the last one, would delete the log."""
    store = tmp_path / "library" / "kb.sqlite"
    with KnowledgeBase(store) as kb:
        kb.add("first")
        report = kb.ingest(store.parent)
        assert {note.reason for note in report.skipped} == {"belongs to an open store"}
        assert another_process(store, "second") == "['first', 'second']\n"
        kb.add("third")
        assert another_process(store) == "['first', 'second', 'third']\n"
    assert another_process(store) == "['first', 'second', 'third']\n"


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
def test_a_named_pipe_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kb.sqlite")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        with pytest.raises(StoreUnusable, match="is not a regular file"):
            kb.search("note")
        with pytest.raises(StoreUnusable, match="is not a regular file"):
            kb.add("a note")


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_a_named_pipe_beside_the_store_is_refused(tmp_path: Path, suffix: str) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        kb.add("a note")
    os.mkfifo(tmp_path / f"kb.sqlite{suffix}")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        with pytest.raises(StoreUnusable, match="is not a regular file"):
            kb.search("note")
        with pytest.raises(StoreUnusable, match="is not a regular file"):
            kb.add("another")


def test_a_checkpoint_waits_longer_for_readers_if_the_log_is_larger(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, readers take longer than the first wait."""
    put(store, "a", "text")
    store.close()
    monkeypatch.setattr(connection_module, "LOG_BYTES", 50_000)
    monkeypatch.setattr(connection_module, "_CHECKPOINT_MS", 1)
    monkeypatch.setattr(connection_module, "_MAX_CHECKPOINT_MS", 6)
    waits: list[int] = []

    class Recorded(SnapshotConnection):
        def set_busy_timeout(self, milliseconds: int) -> None:
            waits.append(milliseconds)
            super().set_busy_timeout(milliseconds)

    monkeypatch.setattr(connection_module, "SnapshotConnection", Recorded)
    database = Database(store.path, read_only=False, busy_timeout_s=1)
    with store._database.reading() as reader:
        scalar(reader, "SELECT count(*) FROM chunks")
        for number in range(40):
            with database.writing() as connection:
                connection.execute(
                    "INSERT INTO roots (name, path, whole) VALUES (?, ?, 1)",
                    (str(number), f"/{number}" * 4000),
                )
    during = [each for each in waits if each < 1000]
    assert during == sorted(during)
    assert (during[0], during[-1]) == (1, 6)
    database.checkpoint()
    assert database.log_bytes() == 0  # the reader has ended
    database.close()


@pytest.mark.parametrize("size", [1, 3000])
def test_removed_text_is_overwritten(tmp_path: Path, size: int) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite")
    put(store, "before", "ordinary text")
    secret = put(store, "secret", "the launch code is xylophone quagmire " * size)
    put(store, "after", "ordinary text")
    store.close()
    assert b"xylophone quagmire" in store.path.read_bytes()
    store.catalog.delete_documents([secret])
    store.close()
    assert b"xylophone quagmire" not in store.path.read_bytes()
