"""The worker: a thread that embeds new passages and survives failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.embedding.worker import LONGEST_WAIT_S, Worker, WorkerState
from kb.errors import ModelError
from kb.types import EmbedReport
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store

PATIENCE_S = 60.0  # how long a test waits for an event


class Seen:
    """Records every state of a worker, and waits for one."""

    def __init__(self) -> None:
        self.states: list[WorkerState] = []
        self._new = threading.Condition()

    def __call__(self, state: WorkerState) -> None:
        with self._new:
            self.states.append(state)
            self._new.notify_all()

    def wait_for(self, wanted: Callable[[WorkerState], bool]) -> WorkerState:
        with self._new:
            assert self._new.wait_for(lambda: any(map(wanted, self.states)), PATIENCE_S)
            return next(filter(wanted, self.states))


@pytest.fixture
def known(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        yield opened


def test_it_embeds_what_is_there_and_what_comes(known: KnowledgeBase) -> None:
    for number in range(20):
        known.add(f"note {number}")
    seen = Seen()
    with known.worker(seen) as worker:
        seen.wait_for(lambda now: now.embedded == 20 and now.state == "idle")
        working = [now for now in seen.states if now.state == "working"]
        assert [(now.done, now.total) for now in working] == [(8, 20), (16, 20), (20, 20)]
        assert all(now.seconds_left is not None for now in working)
        known.add("one more")
        worker.wake()
        seen.wait_for(lambda now: now.embedded == 21)
        assert known.search("one more", mode="vector", profile="notes").hits[0].chunk_id == 21
    assert (worker.state.state, worker.state.embedded) == ("stopped", 21)
    assert known._store.queue.jobs() == []


def test_nothing_is_written_while_there_is_nothing_to_do(known: KnowledgeBase) -> None:
    known.add("a note")
    known.embed()

    def changes() -> object:
        with sqlite_store(known)._database.reading() as connection:
            seen = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'")
            return seen.fetchall()

    before = changes()
    for _ in range(3):
        report = known._services.embedding.step(
            retry=False, stop=lambda: False, on_progress=lambda _: None
        )
        assert report is not None
        assert report.embedded == 0
    assert changes() == before


def test_a_store_that_is_not_there_yet(known: KnowledgeBase) -> None:
    seen = Seen()
    with known.worker(seen) as worker:
        known.add("the first note makes it")
        worker.wake()
        seen.wait_for(lambda now: now.embedded == 1)


def test_it_can_be_stopped_in_the_middle(known: KnowledgeBase) -> None:
    for number in range(60):
        known.add(f"note {number}")
    reached, go_on = threading.Event(), threading.Event()

    def hear(now: WorkerState) -> None:
        if now.state == "working" and now.done >= 16:
            reached.set()
            go_on.wait(PATIENCE_S)

    worker = known.worker(hear)
    worker.start()
    worker.start()  # again: nothing happens
    assert reached.wait(PATIENCE_S)
    assert worker.stop(timeout_s=0) is False
    go_on.set()
    assert worker.stop() is True
    (model,) = known._store.vectors.models()
    assert 16 <= model.ready < 60
    assert known._store.queue.jobs() == []
    with worker:  # it can be started again
        pass


def test_it_ends_with_its_knowledge_base(known: KnowledgeBase) -> None:
    known.add("a note")
    seen = Seen()
    worker = known.worker(seen)
    worker.start()
    seen.wait_for(lambda now: now.embedded == 1)
    known.close()
    assert worker.state.state == "stopped"


def test_it_can_be_told_to_stop_by_who_listens(known: KnowledgeBase) -> None:
    known.add("a note")
    workers: list[Worker] = []

    def hear(now: WorkerState) -> None:
        if now.embedded:
            workers[0].stop()

    workers.append(worker := known.worker(hear))
    worker.start()
    assert worker._thread is not None
    worker._thread.join(PATIENCE_S)
    assert worker.state.state == "stopped"


def test_without_an_encoder(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.add("a note")
        seen = Seen()
        with kb.worker(seen):
            seen.wait_for(lambda now: now.state == "off")


def test_passages_that_fail_are_left_for_later(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless(fails_on=["poison"])) as kb:
        kb.add("poison")
        kb.add("water")
        seen = Seen()
        with kb.worker(seen) as worker:
            told = seen.wait_for(lambda now: now.embedded == 1 and now.state == "idle")
            assert told.error is not None
            assert "cannot take ['poison']" in told.error
            # Permanently failed passages are retried only on request.
            for _ in range(2):
                worker.wake(retry=True)
                worker.wake()
        (failure,) = kb.jobs().failures
        assert failure.attempts == 1
        assert not failure.given_up


class Fails:
    """A step that fails this many times."""

    def __init__(self, times: int, error: Exception) -> None:
        self.left, self.error = times, error

    def __call__(self, **_: object) -> EmbedReport:
        if self.left:
            self.left -= 1
            raise self.error
        return EmbedReport("tiny", "1", embedded=7)


@pytest.mark.parametrize("error", [ModelError("no model", "wait"), RuntimeError("no room")])
def test_failures_are_waited_out_longer_each_time(error: Exception) -> None:
    seen = Seen()
    worker = Worker(Fails(9, error), on_change=seen)
    waits = [worker._once() for _ in range(9)]
    assert waits[:4] == [5, 10, 20, 40]
    assert waits[-1] == LONGEST_WAIT_S
    assert worker.state.state == "failed"
    assert worker.state.error in ("no model", "RuntimeError: no room")
    assert worker.state.wait_s == LONGEST_WAIT_S
    worker._once()
    assert (worker.state.state, worker.state.embedded, worker.state.wait_s) == ("idle", 7, 0)
    worker._step = Fails(1, error)
    assert worker._once() == 5
