"""The write-ahead log stays small under readers, and no reader waits for a checkpoint."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase
from kb.errors import StoreBusy
from kb.store.sqlite import connection
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import check_integrity, put, sqlite_store

READERS, WRITERS, WRITES = 8, 4, 30
SMALL = 128 << 10


@pytest.fixture(autouse=True)
def _small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOG_BYTES", SMALL)


def _write(path: Path, writer: int, peak: list[int]) -> None:
    store = SqliteStore(path)
    for number in range(WRITES):
        put(store, f"{writer}/{number % 5}", *(f"needle {number} {part}" for part in range(20)))
        peak.append(store._database.log_bytes())
    store.close()


def _read(path: Path, stop: threading.Event, problems: list[Exception]) -> None:
    """Read without a busy timeout, so that a reader that had to wait would fail."""
    store = SqliteStore(path, busy_timeout_s=0)
    try:
        while not stop.is_set():
            with store.snapshot():
                store.catalog.chunk_count()
                stop.wait(0.01)  # so that there is never a moment without a reader
                store.catalog.chunk_count()
    except Exception as error:  # noqa: BLE001  # of a thread: the test shows it
        problems.append(error)
    store.close()


def _all(jobs: list[Callable[[], None]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    return threads


def _run_writers(path: Path) -> int:
    """Run the writers, and return the largest size of the log meanwhile."""
    peak: list[int] = []
    writers = _all([lambda n=n: _write(path, n, peak) for n in range(WRITERS)])  # type: ignore[misc]
    for thread in writers:
        thread.join()
    return max(peak)


@pytest.mark.slow
def test_the_log_stays_small_under_eight_readers_and_four_writers(tmp_path: Path) -> None:
    held, read = tmp_path / "held.sqlite", tmp_path / "read.sqlite"
    for path in (held, read):
        put(store := SqliteStore(path), "first", "needle")
        store.close()
    with (reader := SqliteStore(held)).snapshot():  # prevents checkpoints
        reader.catalog.documents(Filters(), None)
        written = _run_writers(held)
    reader.close()
    assert written > 20 * SMALL

    stop = threading.Event()
    problems: list[Exception] = []
    readers = _all([lambda: _read(read, stop, problems)] * READERS)
    peak = _run_writers(read)
    stop.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert peak < 0.9 * written  # far less on a machine that is not busy
    check_integrity(store := SqliteStore(read))
    assert store.catalog.counts().documents == 1 + 5 * WRITERS
    store.close()


def test_a_checkpoint_follows_a_long_reader(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    store, reader = SqliteStore(path), SqliteStore(path)
    put(store, "0", "needle")
    with reader.snapshot():
        reader.catalog.documents(Filters(), None)
        for number in range(60):
            put(store, f"{number}", *(f"needle {number} {part}" for part in range(20)))
        assert store._database.log_bytes() > 2 * SMALL
    store.maintenance.checkpoint()
    assert store._database.log_bytes() == 0
    reader.close()
    store.close()


def test_a_worker_checkpoints_the_log(kb: KnowledgeBase) -> None:
    _leave_a_log(kb)
    kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=print)
    assert sqlite_store(kb)._database.log_bytes() == 0


def test_closing_checkpoints_a_large_log(kb: KnowledgeBase) -> None:
    _leave_a_log(kb)
    other = SqliteStore(kb.path)
    other.catalog.documents(Filters(), None)
    kb.close()
    assert other._database.log_bytes() == 0
    other.close()


def _leave_a_log(kb: KnowledgeBase) -> None:
    """A large log, as a killed process leaves it."""
    kb.add("needle")
    raw = apsw.Connection(str(kb.path))
    raw.execute("PRAGMA wal_autocheckpoint = 0")
    for number in range(60):
        raw.execute("UPDATE state SET created_at = ?", (f"{number}" * 3000,))
    raw.execute("UPDATE state SET created_at = '2026-01-01T00:00:00Z'")
    raw.close()
    assert sqlite_store(kb)._database.log_bytes() > SMALL


def test_an_export_that_fails_ends_its_transaction(kb: KnowledgeBase) -> None:
    for number in range(20):
        kb.add(f"needle {number}")

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError("no room")

    caught: list[OSError] = []
    try:
        kb.export(Full())
    except OSError as error:
        caught.append(error)  # keeps every frame alive
    assert len(caught) == 1
    assert sqlite_store(kb)._database._local.reading == 0


def test_readers_begin_during_a_checkpoint(tmp_path: Path) -> None:
    """An old reader delays the checkpoint; a new reader does not wait."""
    path = tmp_path / "kb.sqlite"
    store, old, new = SqliteStore(path), SqliteStore(path), SqliteStore(path, busy_timeout_s=0)
    put(store, "0", "needle")
    new.catalog.documents(Filters(), None)
    under_way = threading.Event()
    answered: list[int] = []
    writer = apsw.Connection(str(path))

    def checkpoint() -> None:
        """Like `_checkpoint`, and reports when it has to wait."""

        def wait(_count: int) -> bool:
            under_way.set()
            return not answered

        writer.set_busy_handler(wait)
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    with old.snapshot():
        old.catalog.documents(Filters(), None)
        put(store, "1", "needle")
        thread = threading.Thread(target=checkpoint)
        thread.start()
        assert under_way.wait(60)
        try:
            answered.append(len(new.catalog.documents(Filters(), None)))
        except StoreBusy:
            answered.append(-1)
        thread.join()
    assert answered == [2]
    for each in (writer, store, old, new):
        each.close()
