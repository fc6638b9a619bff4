"""A bounded pool of connections.

The thread that needs a connection opens it, so that an error of the server reaches its caller at
once. psycopg's own pool connects in the background, and its callers only see a timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from kb.errors import StoreBusy

Connection = psycopg.Connection[tuple[Any, ...]]


class Pool:
    """Opens at most `size` connections with `connect`. Threads may share it."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._size = size
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._age = 0  # how often the pool was closed
        self._ages: dict[int, int] = {}  # the `_age` at which each one in use was taken

    def take(self, timeout_s: float) -> Connection:
        """A connection outside any transaction. Raises `StoreBusy` if all are in use."""
        if not self._slots.acquire(timeout=timeout_s):
            raise StoreBusy(
                f"all {self._size} connections to the store are in use",
                "try again, or run fewer requests at once",
            )
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.closed:
                connection = self._connect()
            with self._lock:
                self._ages[id(connection)] = self._age
        except BaseException:
            self._slots.release()
            raise
        return connection

    def give(self, connection: Connection) -> None:
        """Give a connection back; one that is broken or in a transaction is closed."""
        with self._lock:
            is_current = self._ages.pop(id(connection)) == self._age
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            if is_current and is_idle and not connection.closed:
                self._idle.append(connection)
            else:
                with suppress(psycopg.Error):
                    connection.close()
        self._slots.release()

    def drop_idle(self) -> None:
        """Close the idle connections: the server may have closed its side."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        """Close every connection; one in use is closed when it is given back."""
        with self._lock:
            self._age += 1
        self.drop_idle()
