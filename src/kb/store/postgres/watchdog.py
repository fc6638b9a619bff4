"""Ends the wait for a server that does not respond.

The server ends statements that take too long, unless it is suspended or out of reach. A thread that
waits for it cannot be interrupted; but once its socket is shut down, its statement fails.
"""

from __future__ import annotations

import heapq
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count


class Watchdog:
    """Shuts down sockets when their time is up. Its thread starts with the first socket."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int]] = []  # deadline, number
        self._sockets: dict[int, int] = {}  # number -> file descriptor
        self._numbers = count()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, descriptor: int, timeout_s: float) -> Iterator[None]:
        """Shut the socket down if the block takes longer than `timeout_s`. The caller keeps the
        descriptor open for the duration of the block."""
        number = next(self._numbers)
        with self._changed:
            self._sockets[number] = descriptor
            heapq.heappush(self._heap, (time.monotonic() + timeout_s, number))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="kb-watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:  # waits for a shutdown in progress
                self._sockets.pop(number, None)

    def _run(self) -> None:
        with self._changed:
            while self._heap:
                when, number = self._heap[0]
                if number in self._sockets and (left_s := when - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                    continue
                heapq.heappop(self._heap)
                if (descriptor := self._sockets.pop(number, None)) is not None:
                    _shut_down(descriptor)
            self._thread = None


def _shut_down(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        copy.shutdown(socket.SHUT_RDWR)
