"""Threads that nobody has to wait for."""

from __future__ import annotations

import gc
import threading
from functools import partial

import pytest

from kb.search.retrievers.thread_pool import Crew


def test_an_answer_and_an_error() -> None:
    crew = Crew()
    good, bad = crew.ask("a", lambda: 3), crew.ask("b", lambda: 1 // 0)
    assert good.wait(30)
    assert bad.wait(30)
    assert good.value() == 3
    with pytest.raises(ZeroDivisionError):
        bad.value()
    crew.close()


def test_idle_threads_are_used_again() -> None:
    crew = Crew()
    seen = set()
    for _ in range(50):
        answer = crew.ask("a", threading.get_ident)
        assert answer.wait(30)
        seen.add(answer.value())
    assert len(seen) <= 3  # one may be asked again before it has said that it is idle
    crew.close()


def test_a_lane_that_hangs_leaves_the_others_and_the_close() -> None:
    crew, gate = Crew(), threading.Event()
    hanging = [crew.ask("a", partial(gate.wait, 30)) for _ in range(8)]
    waiting = crew.ask("a", lambda: "never begun")
    assert not waiting.wait(0.0)
    waiting.leave()
    other = crew.ask("b", lambda: "b")
    assert other.wait(30)
    crew.close()
    gate.set()
    assert all(each.wait(30) for each in hanging)
    assert waiting.wait(30)
    assert waiting.value() is None
    assert all(each.value() for each in hanging)


def test_threads_go_with_their_crew() -> None:
    crew = Crew()
    crew.ask("forgotten", lambda: None).wait(30)
    (thread,) = (each for each in threading.enumerate() if each.name == "kb-forgotten-1")
    assert thread.daemon
    del crew
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
