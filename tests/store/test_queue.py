"""Jobs in SQLite: processes that have exited, stored formats, and counters that triggers
maintain."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import processes
from kb.index import token_codes
from kb.store.sqlite import vector_pieces
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ModelSpec, Outcome, TokenVectors
from tests.conftest import Clock
from tests.store.builders import put

SPEC = ModelSpec("tiny", "1", 3, frozenset({"dense", "sparse", "tokens"}), token_dimension=2)
PARTS = frozenset({"sparse", "tokens"})
TOKENS = TokenVectors(2, array("f", [0.6, 0.8]))


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "kb.sqlite", clock=clock)
    put(store, "a", *(f"text {n}" for n in range(10)))
    store.vectors.use_model(SPEC)
    yield store
    store.close()


def made(chunk_id: int, error: str | None = None, **parts: Any) -> Outcome:
    """The outputs of an encoder, or the `parts` of them."""
    given: dict[str, Any] = {"sparse": {"a": 1.0}, "tokens": TOKENS} | parts
    dense = array("f", [float(chunk_id), 1.0, 2.0])
    return Outcome(chunk_id, Encoding(dense=dense, **given), error, PARTS | {"dense"})


def standing(store: SqliteStore) -> tuple[int, ...]:
    (one,) = store.vectors.models()
    return one.ready, one.pending, one.failed, one.sparse, one.tokens


def test_a_process_that_is_gone_leaves_its_chunks_at_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = store.queue.start_job(1)
    store.queue.lease(job, 1, limit=10)
    gone = 2**22 + 1  # higher than any process id on Linux, and unused elsewhere
    with store._database.writing() as connection:
        connection.execute("UPDATE jobs SET pid = ?", (gone,))
    (known,) = store.queue.jobs()
    assert known.lost is processes.has_exited(processes.pid_namespace(), gone)
    assert known.lost
    assert store.queue.has_work(1, PARTS)
    assert len(store.queue.lease(store.queue.start_job(1), 1, limit=10)) == 10
    assert [one.pid != gone for one in store.queue.jobs()] == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_killed_process_is_gone_before_its_parent_has_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not processes.has_exited(processes.pid_namespace(), process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped
        assert processes.has_exited(processes.pid_namespace(), process.pid)


def test_processes_of_elsewhere_are_not_judged() -> None:
    assert not processes.has_exited("another machine", 2**22 + 1)
    assert not processes.has_exited(processes.pid_namespace(), 1)


# --- writes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["int8", "2-bit", "1-bit", "none"])
def test_token_vectors_in_the_format_of_the_setting(tmp_path: Path, form: str) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite", token_format=form)
    put(store, "a", "text")
    store.vectors.use_model(SPEC)
    store.queue.finish(store.queue.start_job(1), 1, [made(1)])
    with store._database.reading() as connection:
        (stored,) = vector_pieces.read(connection, "tokens", 1, [1]).values()
    assert token_codes.parse_header(stored)[0] == ("2-bit" if form == "none" else form)
    store.close()


Deed = st.sampled_from(["ready", "no sparse", "no tokens", "fails", "goes", "changes", "retry"])


@given(deeds=st.lists(st.tuples(Deed, st.integers(1, 10)), max_size=25))
def test_the_counts_are_right_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, int]]
) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("store") / "kb.sqlite")
    put(store, "a", *(f"text {n}" for n in range(10)))
    store.vectors.use_model(SPEC)
    job = store.queue.start_job(1)
    for deed, chunk_id in deeds:
        match deed:
            case "ready":
                store.queue.finish(job, 1, [made(chunk_id)])
            case "no sparse":
                store.queue.finish(job, 1, [made(chunk_id, "no", sparse=None)])
            case "no tokens":
                store.queue.finish(job, 1, [made(chunk_id, "no", tokens=None)])
            case "fails":
                store.queue.finish(job, 1, [Outcome(chunk_id, None, "no", PARTS)])
            case "retry":
                store.queue.retry(1)
            case _:
                sql = {
                    "goes": "DELETE FROM embeddings WHERE chunk_id = ?",
                    "changes": "UPDATE chunks SET text = 'other' WHERE chunk_id = ?",
                }
                with store._database.writing() as connection:
                    connection.execute(sql[deed], (chunk_id,))
    with store._database.reading() as connection:
        counted = connection.execute(
            "SELECT sum(state = 'ready'), sum(state = 'failed'), "
            "sum(state = 'ready' AND sparse IS NOT NULL), "
            "sum(state = 'ready' AND tokens IS NOT NULL) FROM embeddings"
        ).fetchone()
    ready, pending, failed, sparse, tokens = standing(store)
    assert (ready, failed, sparse, tokens) == tuple(count or 0 for count in counted or ())
    assert pending == 10 - ready - failed
    assert store.maintenance.integrity.counters() == []
    assert store.maintenance.integrity.vectors.postings_fault() is None
    store.close()
