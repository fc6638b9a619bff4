"""Keeps searches from waiting for an endpoint that does not respond.

Each query runs in its own thread, which ends with the request's time limit; the caller stops
waiting earlier:

    nothing known yet     the first query waits for the whole request (the server may have to load
                          its model); other queries wait briefly
    responding            queries wait for the whole request
    not responding        after a request ran out of time, queries fail at once; after a pause, one
                          at a time is sent again, and its search waits for it briefly

In every state, queries fail at once while an earlier one has been waiting for longer than a brief
wait. Any response ends the third state, even if nobody is waiting for it anymore.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kb import deadline
from kb.errors import EndpointError

T = TypeVar("T")

PAUSE_S = 2.0  # between a request that ran out of time and the next one
_HINT = "check that the server is running; until it responds, searches use words only"


class _Attempt(Generic[T]):
    """A request in its own thread."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None


class CircuitBreaker:
    """Sends queries to the server `host`. Threads may share it. `brief_s` is the length of a brief
    wait, `limit_s` the time limit of a request; `clock` returns seconds."""

    def __init__(
        self,
        host: str,
        *,
        limit_s: float,
        brief_s: float,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._limit_s = limit_s
        self._brief_s = min(brief_s, limit_s)
        self._pause_s = pause_s
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: set[_Attempt[Any]] = set()
        self._responds: bool | None = None  # None: nothing known yet
        self._retry_at = 0.0

    def call(self, send: Callable[[], T]) -> T:
        """Return the result of `send`, which raises `TimeoutError` if the server does not respond.
        Raises `EndpointError` if the request or the wait for it takes too long."""
        attempt: _Attempt[T] = _Attempt(self._clock())
        with self._lock:
            wait_s = self._admit()
            self._pending.add(attempt)
        threading.Thread(
            target=self._run, args=(attempt, send), name="kb-endpoint", daemon=True
        ).start()
        wait_s = min(wait_s, deadline.remaining_s())
        if not attempt.done.wait(wait_s) or isinstance(attempt.error, TimeoutError):
            raise self._error(f"no response in time ({wait_s:.2g} s)")
        if attempt.error is not None:
            raise attempt.error
        return attempt.value  # type: ignore[return-value]  # set, since there is no error

    def record_response(self) -> None:
        """Note that the server has responded."""
        with self._lock:
            self._responds = True

    def _admit(self) -> float:
        """How long a new query may wait. Raises `EndpointError` if it should not be sent."""
        now = self._clock()
        oldest = min((each.began for each in self._pending), default=now)
        if now - oldest >= self._brief_s:
            raise self._error(f"no response for {now - oldest:.0f} s")
        if self._responds:
            return self._limit_s
        if self._responds is None:
            return self._brief_s if self._pending else self._limit_s
        if self._pending or now < self._retry_at:
            raise self._error("no response in time; kb tries again after a pause")
        return self._brief_s

    def _run(self, attempt: _Attempt[T], send: Callable[[], T]) -> None:
        responds: bool | None = None
        try:
            attempt.value = send()
            responds = True
        except TimeoutError as error:
            attempt.error, responds = error, False
        except BaseException as error:  # noqa: BLE001  # raised again by `call`
            attempt.error = error
        with self._lock:
            self._pending.discard(attempt)
            if responds is not None:
                self._responds = responds
            if responds is False:
                self._retry_at = self._clock() + self._pause_s
        attempt.done.set()

    def _error(self, reason: str) -> EndpointError:
        return EndpointError(f"the endpoint {self._host} failed: {reason}", _HINT)
