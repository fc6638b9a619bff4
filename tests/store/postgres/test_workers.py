"""Workers in several processes: wake-ups, and workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from kb import KnowledgeBase
from kb.store.postgres.store import PostgresStore
from tests.models.weightless import Weightless, unexamined
from tests.postgres import Server

PATIENCE_S = 60.0
KILLS = int(os.environ.get("KB_TEST_KILLS", "5"))
# A worker whose encoder prints a line and then never returns, or returns at once.
WORKER = """
import sys, threading, time
from kb import KnowledgeBase
from tests.models.weightless import Weightless, unexamined

class Hanging(Weightless):
    def encode(self, texts, **options):
        if not any("harbour" in text for text in texts):  # the check of the encoder itself
            return super().encode(texts, **options)
        print("encoding", flush=True)
        time.sleep(600)

encoder = Hanging() if sys.argv[2] == "hang" else Weightless()
with KnowledgeBase(sys.argv[1], config=unexamined(), encoder=encoder) as kb:
    with kb.worker():
        print("ready", flush=True)
        sys.stdin.read()
"""


@contextmanager
def worker(url: str, what: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, url, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for each in process.stdout:
        if each.strip() == line:
            return
    raise AssertionError(f"the process ended without {line!r}")


def until_embedded(kb: KnowledgeBase) -> None:
    end = time.monotonic() + PATIENCE_S
    while kb.jobs().work[0].model.pending or not kb.jobs().work[0].model.ready:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def url(postgres: Server, schema: str) -> str:
    return postgres.url(schema=schema)


@pytest.fixture
def kb(url: str) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(url, config=unexamined(), encoder=Weightless()) as opened:
        opened.create()
        yield opened


def test_a_killed_worker_loses_its_lease_and_nothing_else(kb: KnowledgeBase, url: str) -> None:
    for number in range(KILLS):
        kb.add(f"note {number} of the harbour")
        with worker(url, "hang") as process:
            until_line(process, "encoding")
            (job,) = [job for job in kb.jobs().jobs if job.pid == process.pid]
            assert job.leased == 1
            assert kb.embed().embedded == 0  # it is leased
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        assert kb.embed().embedded == 1
        assert kb.jobs().jobs == ()
    status = kb.jobs().work[0].model
    assert (status.ready, status.pending, status.failed) == (KILLS, 0, 0)


def test_a_write_wakes_the_workers_of_other_processes(kb: KnowledgeBase, url: str) -> None:
    woken = threading.Event()
    with KnowledgeBase(url, config=unexamined(), encoder=Weightless()) as other:
        listening = other._store.queue.listening(woken.set)
        assert listening is not None
        with listening:
            assert woken.wait(PATIENCE_S)  # after it has connected, there may be work
            woken.clear()
            kb.add("salt water")
            assert woken.wait(PATIENCE_S)
            woken.clear()
            kb.embed()
            kb.retry()
            assert woken.wait(PATIENCE_S)


def test_two_worker_processes_embed_what_a_third_one_adds(kb: KnowledgeBase, url: str) -> None:
    kb.add("the first note")
    kb.embed()
    with worker(url, "work") as one, worker(url, "work") as two:
        for process in (one, two):
            until_line(process, "ready")
        for number in range(20):
            kb.add(f"note {number} of the harbour")
        until_embedded(kb)
    assert kb.jobs().work[0].model.ready == 21


def test_a_listener_connects_again_after_its_connection_is_cut(
    kb: KnowledgeBase, store: PostgresStore, sql: psycopg.Connection[tuple[object, ...]]
) -> None:
    woken = threading.Event()
    with store.queue.listening(woken.set):
        assert woken.wait(PATIENCE_S)
        woken.clear()
        sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'"
        )
        assert woken.wait(PATIENCE_S)
