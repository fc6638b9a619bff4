"""Threads that nobody has to wait for."""

from __future__ import annotations

import gc
import threading
from functools import partial

import pytest

from kb.search.retrievers.thread_pool import ThreadPool


def test_an_answer_and_an_error() -> None:
    pool = ThreadPool()
    good, bad = pool.ask("a", lambda: 3), pool.ask("b", lambda: 1 // 0)
    assert good.wait(30)
    assert bad.wait(30)
    assert good.value() == 3
    with pytest.raises(ZeroDivisionError):
        bad.value()
    pool.close()


def test_idle_threads_are_used_again() -> None:
    pool = ThreadPool()
    seen = set()
    for _ in range(50):
        answer = pool.ask("a", threading.get_ident)
        assert answer.wait(30)
        seen.add(answer.value())
    assert len(seen) <= 3  # one may be asked again before it has said that it is idle
    pool.close()


def test_a_lane_that_hangs_leaves_the_others_and_the_close() -> None:
    pool, gate = ThreadPool(), threading.Event()
    hanging = [pool.ask("a", partial(gate.wait, 30)) for _ in range(8)]
    waiting = pool.ask("a", lambda: "never begun")
    assert not waiting.wait(0.0)
    waiting.leave()
    other = pool.ask("b", lambda: "b")
    assert other.wait(30)
    pool.close()
    gate.set()
    assert all(each.wait(30) for each in hanging)
    assert waiting.wait(30)
    assert waiting.value() is None
    assert all(each.value() for each in hanging)


def test_threads_go_with_their_crew() -> None:
    pool = ThreadPool()
    pool.ask("forgotten", lambda: None).wait(30)
    (thread,) = (each for each in threading.enumerate() if each.name == "kb-forgotten-1")
    assert thread.daemon
    del pool
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
