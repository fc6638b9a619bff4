"""Leases: who works on what, what happens to those who are gone, and what is written."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import processes
from kb.index import token_codes
from kb.store.sqlite import queue
from kb.store.sqlite.store import SqliteStore
from kb.types import Embedded, Encoding, ModelSpec, Outcome, ToEmbed, TokenVectors
from tests.conftest import Clock
from tests.store.builders import put, write_vectors

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
    """What an encoder gives, or the `parts` of it."""
    given: dict[str, Any] = {"sparse": {"a": 1.0}, "tokens": TOKENS} | parts
    dense = array("f", [float(chunk_id), 1.0, 2.0])
    return Outcome(chunk_id, Encoding(dense=dense, **given), error, PARTS | {"dense"})


def ids(found: list[Any]) -> list[int]:
    return [one.chunk_id for one in found]


def standing(store: SqliteStore) -> tuple[int, ...]:
    (one,) = store.vectors.models()
    return one.ready, one.pending, one.failed, one.sparse, one.tokens


# --- leases ---------------------------------------------------------------------------------------


def test_no_two_jobs_have_the_same_chunk(store: SqliteStore) -> None:
    one, other = store.queue.start_job(1), store.queue.start_job(1)
    assert ids(store.queue.lease(one, 1, limit=4)) == [1, 2, 3, 4]
    assert ids(store.queue.lease(other, 1, limit=4)) == [5, 6, 7, 8]
    assert ids(store.queue.lease(one, 1, limit=4, after=ToEmbed(4, ""))) == [9, 10]
    assert store.queue.lease(other, 1, limit=4) == []
    assert [(job.job_id, job.leased) for job in store.queue.jobs()] == [(one, 6), (other, 4)]


def test_what_is_finished_is_given_back(store: SqliteStore) -> None:
    job = store.queue.start_job(1)
    store.queue.lease(job, 1, limit=10)
    assert store.queue.finish(job, 1, [made(1), Outcome(2, None, "no", PARTS)]) == Embedded(1, 0)
    (now,) = store.queue.jobs()
    assert (now.done, now.leased) == (2, 8)
    other = store.queue.start_job(1)
    assert ids(store.queue.lease(other, 1, limit=10)) == [2]  # failed once: anyone's again
    store.queue.end_job(job)
    assert ids(store.queue.lease(other, 1, limit=10)) == [3, 4, 5, 6, 7, 8, 9, 10]


def test_a_lease_ends_by_itself(store: SqliteStore, clock: Clock) -> None:
    job, other = store.queue.start_job(1), store.queue.start_job(1)
    store.queue.lease(job, 1, limit=10)
    clock.seconds += queue.LEASE_S - 1
    store.queue.renew_job(other)
    assert store.queue.lease(other, 1, limit=10) == []
    store.queue.renew_job(job)
    clock.seconds += queue.LEASE_S - 1
    assert store.queue.lease(other, 1, limit=10) == []
    clock.seconds += 2
    assert [one.lost for one in store.queue.jobs()] == [True, False]
    assert len(store.queue.lease(other, 1, limit=10)) == 10
    # The first one was only slow. What it brings first counts, and what comes second does not.
    assert store.queue.finish(job, 1, [made(1), made(2)]) == Embedded(2, 0)
    before = store.vectors.dense_vectors(1, [1, 2])
    late = [made(one)._replace(encoding=made(99).encoding) for one in (1, 2, 3)]
    assert store.queue.finish(other, 1, late) == Embedded(1, 0)
    assert store.vectors.dense_vectors(1, [1, 2]) == before
    # It goes on, though its row is gone.
    assert store.queue.lease(job, 1, limit=10) == []
    assert [one.job_id for one in store.queue.jobs()] == [job, other]


def test_a_process_that_is_gone_leaves_its_chunks_at_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = store.queue.start_job(1)
    store.queue.lease(job, 1, limit=10)
    gone = 2**22 + 1  # above what Linux gives; elsewhere it is not there either
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


def test_has_work_says_what_a_lease_would_find(store: SqliteStore, clock: Clock) -> None:
    job = store.queue.start_job(1)
    assert store.queue.has_work(1, PARTS)
    store.queue.lease(job, 1, limit=10)
    assert not store.queue.has_work(1, PARTS)
    store.queue.finish(
        job, 1, [made(one) for one in range(1, 10)] + [Outcome(10, None, "no", PARTS)]
    )
    assert not store.queue.has_work(1, PARTS)  # it has failed just now
    clock.seconds += 61
    assert store.queue.has_work(1, PARTS)


# --- failures -------------------------------------------------------------------------------------


def test_the_patient_wait_longer_each_time(store: SqliteStore, clock: Clock) -> None:
    job = store.queue.start_job(1)
    store.queue.finish(job, 1, [made(one) for one in range(2, 11)])
    for wait_s in (60, 600):
        store.queue.finish(job, 1, [Outcome(1, None, "no", PARTS)])
        assert store.queue.lease(job, 1, limit=9, patient=True) == []
        clock.seconds += wait_s - 1
        assert store.queue.lease(job, 1, limit=9, patient=True) == []
        clock.seconds += 1
        assert ids(store.queue.lease(job, 1, limit=9, patient=True)) == [1]
        store.queue.end_job(job)
    store.queue.finish(job, 1, [Outcome(1, None, "for good", PARTS)])
    assert store.queue.lease(job, 1, limit=9) == []
    assert standing(store) == (9, 0, 1, 9, 9)
    (failure,) = store.queue.failures(1)
    assert (failure.chunk_id, failure.doc_path, failure.attempts) == (1, "a", 3)
    assert (failure.given_up, failure.searchable, failure.error) == (True, False, "for good")
    assert store.queue.retry(1) == 1
    assert ids(store.queue.lease(job, 1, limit=9, patient=True)) == [1]


def test_a_part_that_fails_is_given_up_too(store: SqliteStore, clock: Clock) -> None:
    job = store.queue.start_job(1)
    store.queue.finish(job, 1, [made(one) for one in range(2, 11)])
    assert store.queue.finish(job, 1, [made(1, "no weights", sparse=None)]) == Embedded(1, 0)
    assert standing(store) == (10, 0, 0, 9, 10)
    for _ in range(2):
        assert store.queue.lease(job, 1, limit=9) == []
        assert store.queue.lease(job, 1, limit=9, lacking=PARTS, patient=True) == []
        clock.seconds += 601
        assert ids(store.queue.lease(job, 1, limit=9, lacking=PARTS, patient=True)) == [1]
        assert store.queue.finish(job, 1, [made(1, "no weights", sparse=None)]) == Embedded(0, 0)
    assert store.queue.lease(job, 1, limit=9, lacking=PARTS) == []
    (failure,) = store.queue.failures(1)
    assert (failure.attempts, failure.given_up, failure.searchable) == (3, True, True)
    assert store.queue.last_error(1) == "no weights"
    assert store.queue.retry(1) == 1
    assert ids(store.queue.lease(job, 1, limit=9, lacking=PARTS)) == [1]
    assert store.queue.finish(job, 1, [Outcome(1, None, "no text", PARTS)]) == Embedded(0, 0)
    assert standing(store) == (10, 0, 0, 9, 10)  # it keeps what it has
    assert store.queue.failures(1)[0].attempts == 1
    assert store.queue.finish(job, 1, [made(1)]) == Embedded(0, 1)
    assert (store.queue.failures(1), store.queue.last_error(1)) == ([], None)


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["int8", "2-bit", "1-bit", "none"])
def test_token_vectors_in_the_format_of_the_setting(tmp_path: Path, form: str) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite", token_format=form)
    put(store, "a", "text")
    store.vectors.use_model(SPEC)
    store.queue.finish(store.queue.start_job(1), 1, [made(1)])
    row = apsw.Connection(str(store.path)).execute("SELECT tokens FROM embeddings").fetchone()
    assert row is not None
    assert token_codes.parts(bytes(row[0]))[0] == ("2-bit" if form == "none" else form)
    store.close()


def test_only_what_is_lacking_is_added(store: SqliteStore, clock: Clock) -> None:
    """As in a store that was made when only dense vectors were stored."""
    write_vectors(store, 1, [(1, Encoding(dense=array("f", [1.0, 0.0, 0.0])))])
    before = store.vectors.dense_vectors(1, [1])
    job = store.queue.start_job(1)
    assert 1 not in ids(store.queue.lease(job, 1, limit=10))
    assert ids(store.queue.lease(job, 1, limit=10, lacking=PARTS)) == [1]
    clock.seconds += 60
    assert store.queue.finish(job, 1, [made(1)]) == Embedded(0, 1)
    assert store.vectors.dense_vectors(1, [1]) == before
    assert store.vectors.sparse_vectors(1, [1]) == {1: {"a": 1.0}}
    assert store.queue.lease(job, 1, limit=10, lacking=PARTS) == []
    with store._database.reading() as connection:
        stamp = connection.execute("SELECT embedded_at FROM embeddings").fetchone()
    assert stamp == ("2026-05-28T20:27:40Z",)


def test_a_model_that_nobody_asks_gets_nothing(store: SqliteStore) -> None:
    job = store.queue.start_job(1)
    with store._database.writing() as connection:
        connection.execute("UPDATE models SET role = 'gone'")
    assert store.queue.lease(job, 1, limit=10) == []
    assert store.queue.finish(job, 1, [made(1)]) == Embedded(0, 0)
    store.vectors.drop_all()
    assert store.queue.lease(job, 1, limit=10) == []
    assert store.queue.finish(job, 1, [made(1)]) == Embedded(0, 0)


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
