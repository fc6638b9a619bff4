"""The circuit breaker, with a fake clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kb.deadline import Deadline
from kb.errors import EndpointError, ModelBroken
from kb.models.circuit_breaker import CircuitBreaker

WAIT_S = 5.0  # until a test gives up


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("host:1", limit_s=WAIT_S, brief_s=0.01, pause_s=2.0, clock=clock)


class Request:
    """A request that ends when the test wants it to."""

    def __init__(self, outcome: Exception | str = "vectors") -> None:
        self.outcome = outcome
        self.sent, self.go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.sent.set()
        assert self.go.wait(WAIT_S)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def ok() -> str:
    return "vectors"


def late() -> str:
    raise TimeoutError


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_it_passes_results_and_errors_on(breaker: CircuitBreaker) -> None:
    def broken() -> str:
        raise ModelBroken("nonsense")

    assert breaker.call(ok) == "vectors"
    for _ in range(2):
        with pytest.raises(ModelBroken, match="nonsense"):
            breaker.call(broken)
    assert breaker.call(ok) == "vectors"


def test_after_a_timeout_nothing_is_sent_for_a_while(breaker: CircuitBreaker, clock: Clock) -> None:
    with pytest.raises(EndpointError, match="host:1 failed: no response in time"):
        breaker.call(late)
    unsent = Request()
    clock.now = 1.9
    with pytest.raises(EndpointError, match="tries again after a pause"):
        breaker.call(unsent)
    assert not unsent.sent.is_set()
    clock.now = 2.0
    assert breaker.call(ok) == "vectors"
    assert breaker.call(ok) == "vectors"


def test_one_at_a_time_finds_out_and_its_search_waits_briefly(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    with pytest.raises(EndpointError):
        breaker.call(late)
    clock.now = 2.0
    probe, unsent = Request(), Request()
    with pytest.raises(EndpointError, match="no response in time"):
        breaker.call(probe)
    assert probe.sent.is_set()
    with pytest.raises(EndpointError):
        breaker.call(unsent)
    assert not unsent.sent.is_set()
    probe.go.set()  # its response counts even though nobody waits for it
    until(lambda: breaker._responds is True)
    assert breaker.call(ok) == "vectors"


def test_the_first_query_waits_and_those_beside_it_briefly(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    first, second, third = Request(), Request(), Request()
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(breaker.call(first)))
    thread.start()
    assert first.sent.wait(WAIT_S)
    with pytest.raises(EndpointError, match=r"in time \(0.01 s\)"):
        breaker.call(second)
    clock.now = 1.0  # the first has been waiting for a long time
    with pytest.raises(EndpointError, match="no response for 1 s"):
        breaker.call(third)
    assert (second.sent.is_set(), third.sent.is_set()) == (True, False)
    first.go.set()
    second.go.set()
    thread.join(WAIT_S)
    assert results == ["vectors"]


def test_the_long_wait_is_for_the_first_only(breaker: CircuitBreaker, clock: Clock) -> None:
    """This holds even if later requests fail for another reason, such as a refused connection."""

    def refused() -> str:
        raise EndpointError("connection refused")

    with pytest.raises(EndpointError):
        breaker.call(late)
    clock.now = 2.0
    with pytest.raises(EndpointError, match="refused"):
        breaker.call(refused)
    silent = Request()
    with pytest.raises(EndpointError, match=r"in time \(0.01 s\)"):
        breaker.call(silent)
    silent.go.set()


def test_a_deadline_ends_the_wait_and_not_the_request(breaker: CircuitBreaker) -> None:
    slow = Request()
    with Deadline(0.01), pytest.raises(EndpointError, match="in time"):
        breaker.call(slow)
    slow.go.set()
    until(lambda: breaker._responds is True)


def test_passages_show_that_it_responds(breaker: CircuitBreaker) -> None:
    with pytest.raises(EndpointError):
        breaker.call(late)
    breaker.record_response()
    assert breaker.call(ok) == "vectors"
