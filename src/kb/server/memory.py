"""A memory budget that all requests and responses in progress share.

When the budget is exhausted, the reservation that has made no progress for the longest time is
evicted: a client that sends its request slowly or does not read its response. If every client makes
progress, the new request waits, or is refused with `TooBusy`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kb import deadline
from kb.errors import TooBusy

MEMORY_KEY = "kb.memory"  # the `RequestMemory` in an ASGI scope
_STALLED_S = 1.0
_MAX_WAIT_S = 5.0  # how long a worker thread waits, at most half of its time
_POLL_S = 0.05


class Reservation:
    """The bytes that one request or response holds."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.progress_at = time.monotonic()
        self.is_evicted = False
        self._scope: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def waiting(self, scope: asyncio.Timeout) -> Iterator[None]:
        """Mark the reservation as waiting for the client inside the block. An eviction ends `scope`
        early."""
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None
            self.progress_at = time.monotonic()

    @property
    def is_stalled(self) -> bool:
        return self._scope is not None and time.monotonic() - self.progress_at >= _STALLED_S

    def evict(self) -> None:
        """Give up the bytes and stop waiting for the client. Callable from any thread."""
        self.is_evicted, self.size_bytes = True, 0
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._expire)

    def _expire(self) -> None:
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())


class MemoryBudget:
    """At most `limit_bytes` for all reservations together. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._reservations: set[Reservation] = set()
        self._changed = threading.Condition()

    @property
    def largest_bytes(self) -> int:
        """The most that one response reserves, so that there is room for others."""
        return self._limit_bytes * 3 // 4

    @property
    def used_bytes(self) -> int:
        with self._changed:
            return self._used_bytes()

    @contextmanager
    def reservation(self) -> Iterator[Reservation]:
        """A reservation of no bytes yet, released at the end of the block."""
        reservation = Reservation()
        with self._changed:
            self._reservations.add(reservation)
        try:
            yield reservation
        finally:
            with self._changed:
                self._reservations.discard(reservation)
                self._changed.notify_all()

    def grow(self, reservation: Reservation, size_bytes: int) -> None:
        """Add bytes to a reservation, after evicting stalled ones if necessary.

        A reservation above the whole limit is granted if it is the only one. Raises `TooBusy` if
        the budget is exhausted and no client is stalled.
        """
        with self._changed:
            self._grow(reservation, size_bytes)

    def resize(self, reservation: Reservation, size_bytes: int) -> None:
        """Set the size of a reservation. Raises `TooBusy` like `grow`."""
        with self._changed:
            if size_bytes > reservation.size_bytes:
                self._grow(reservation, size_bytes - reservation.size_bytes)
            else:
                reservation.size_bytes = size_bytes
                self._changed.notify_all()

    def wait_to_grow(self, reservation: Reservation, size_bytes: int) -> None:
        """Like `grow`, for a worker thread: waits a few seconds for other requests to finish.

        A reservation that already holds bytes does not wait, because others may be waiting for
        them.
        """
        wait_s = 0.0 if reservation.size_bytes else min(_MAX_WAIT_S, deadline.remaining_s() / 2)
        give_up_at = time.monotonic() + wait_s
        with self._changed:
            while True:
                is_last = time.monotonic() >= give_up_at
                try:
                    # The clients of large responses may be slow for a moment: wait for them first.
                    self._grow(reservation, size_bytes, evict=is_last)
                except TooBusy:
                    if is_last:
                        raise
                    self._changed.wait(_POLL_S)  # wakes up early when others finish
                    deadline.check()
                else:
                    return

    def _used_bytes(self) -> int:
        return sum(each.size_bytes for each in self._reservations)

    def _grow(self, reservation: Reservation, size_bytes: int, *, evict: bool = True) -> None:
        if not size_bytes:
            return
        others = self._used_bytes() - reservation.size_bytes
        while others and others + reservation.size_bytes + size_bytes > self._limit_bytes:
            others_held = (each for each in self._reservations if each is not reservation)
            stalled = [each for each in others_held if each.size_bytes and each.is_stalled]
            if not stalled or not evict:
                raise TooBusy(
                    "requests and responses in progress use all of serve.max_memory_bytes",
                    "try again in a moment",
                )
            oldest = min(stalled, key=lambda each: each.progress_at)
            others -= oldest.size_bytes
            oldest.evict()
        reservation.size_bytes += size_bytes


class RequestMemory:
    """The reservations of one request: one for its body and one for its response."""

    def __init__(self, budget: MemoryBudget, body: Reservation, response: Reservation) -> None:
        self._budget = budget
        self._body = body
        self._response = response

    def reserve_body(self, size_bytes: int) -> None:
        """Reserve bytes for the parsed body, in addition to its text."""
        self._budget.grow(self._body, size_bytes)

    def reserve_response(self, size_bytes: int) -> None:
        """Reserve at least this many bytes for a response before it is built, in the worker thread
        that builds it."""
        size_bytes = min(size_bytes, self._budget.largest_bytes)
        if (missing := size_bytes - self._response.size_bytes) > 0:
            self._budget.wait_to_grow(self._response, missing)

    def shrink_response(self, size_bytes: int) -> None:
        """Release what was reserved above the size of the finished body."""
        if size_bytes < self._response.size_bytes:
            self._budget.resize(self._response, size_bytes)
