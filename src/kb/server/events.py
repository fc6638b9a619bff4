"""Publishes progress as server-sent events.

A slow subscriber misses intermediate events, never the last one: it receives the newest event of
each kind when it is ready. No queue grows.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable

from kb.embedding.worker import WorkerState
from kb.errors import TooBusy
from kb.types import JsonDict

_MAX_SUBSCRIBERS = 32
_KEEP_ALIVE_S = 15.0


def progress(state: WorkerState) -> JsonDict:
    """The state of the embedding worker as `progress.v1`."""
    return {
        "schema_version": "progress.v1",
        "state": state.state,
        "done": state.done,
        "total": state.total,
        "per_second": round(state.per_second, 1),
        "embedded": state.embedded,
        "error": state.error,
    }


class Subscriber:
    """One event stream. Bound to the event loop that creates it."""

    def __init__(self, latest: dict[str, JsonDict]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending = dict(latest)
        self._changed = asyncio.Event()
        self._changed.set()
        self._is_closed = False

    def send(self, name: str, data: JsonDict) -> None:
        """Queue an event. Callable from any thread."""
        self._loop.call_soon_threadsafe(self._put, name, data)

    def close(self) -> None:
        """End the stream. Callable from any thread."""
        self._loop.call_soon_threadsafe(self._close)

    def _put(self, name: str, data: JsonDict) -> None:
        self._pending[name] = data
        self._changed.set()

    def _close(self) -> None:
        self._is_closed = True
        self._changed.set()

    async def lines(self) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        while not self._is_closed:
            try:
                async with asyncio.timeout(_KEEP_ALIVE_S):
                    await self._changed.wait()
            except TimeoutError:
                yield ": keep-alive\n\n"
            self._changed.clear()
            pending, self._pending = self._pending, {}
            for name, data in pending.items():
                yield f"event: {name}\ndata: {json.dumps(data)}\n\n"


class Events:
    """The subscribers, and the latest event of each kind. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: set[Subscriber] = set()
        self._latest: dict[str, JsonDict] = {}
        self._is_closed = False

    def publish(self, name: str, data: JsonDict) -> None:
        with self._lock:
            self._latest[name] = data
            if not self._is_closed:
                for subscriber in self._subscribers:
                    subscriber.send(name, data)

    def close(self) -> None:
        """End every stream, so that shutdown does not wait for them."""
        with self._lock:
            self._is_closed = True
            for subscriber in self._subscribers:
                subscriber.close()

    def subscribe(self) -> Subscriber:
        """Add a subscriber. Raises `TooBusy` if there are too many."""
        with self._lock:
            if self._is_closed or len(self._subscribers) >= _MAX_SUBSCRIBERS:
                raise TooBusy("too many event streams are open", "close the page in another tab")
            subscriber = Subscriber(self._latest)
            self._subscribers.add(subscriber)
            return subscriber

    async def stream(
        self, subscriber: Subscriber, is_allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[str]:
        """The lines of the stream, which ends before the first one that is not allowed."""
        try:
            async for line in subscriber.lines():
                if not is_allowed():
                    return
                yield line
        finally:
            with self._lock:
                self._subscribers.discard(subscriber)
