"""Threads that a search can stop waiting for."""

from __future__ import annotations

import gc
import threading
from functools import partial

import pytest

from kb.search.retrievers.thread_pool import ThreadPool


def test_a_result_and_an_error() -> None:
    pool = ThreadPool()
    good, bad = pool.submit("a", lambda: 3), pool.submit("b", lambda: 1 // 0)
    assert good.wait(30)
    assert bad.wait(30)
    assert good.result() == 3
    with pytest.raises(ZeroDivisionError):
        bad.result()
    pool.close()


def test_idle_threads_are_used_again() -> None:
    pool = ThreadPool()
    seen = set()
    for _ in range(50):
        answer = pool.submit("a", threading.get_ident)
        assert answer.wait(30)
        seen.add(answer.result())
    assert len(seen) <= 3  # a thread may get another task before it is marked as idle
    pool.close()


def test_a_hanging_retriever_blocks_neither_others_nor_close() -> None:
    pool, gate = ThreadPool(), threading.Event()
    hanging = [pool.submit("a", partial(gate.wait, 30)) for _ in range(8)]
    waiting = pool.submit("a", lambda: "never begun")
    assert not waiting.wait(0.0)
    waiting.cancel()
    other = pool.submit("b", lambda: "b")
    assert other.wait(30)
    pool.close()
    gate.set()
    assert all(each.wait(30) for each in hanging)
    assert waiting.wait(30)
    assert waiting.result() is None
    assert all(each.result() for each in hanging)


def test_threads_end_with_their_pool() -> None:
    pool = ThreadPool()
    pool.submit("forgotten", lambda: None).wait(30)
    (thread,) = (each for each in threading.enumerate() if each.name == "kb-forgotten-1")
    assert thread.daemon
    del pool
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
