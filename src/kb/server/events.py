"""Progress, told to everyone who listens, as server-sent events.

A listener that reads slowly misses steps, never the last one: of every kind of event it is handed
the newest when it is ready. So nothing piles up.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator

from kb.embedding.worker import WorkerState
from kb.errors import TooBusy
from kb.types import JsonDict

_MAX_LISTENERS = 32
_QUIET_S = 15.0  # after which a line is sent that says nothing, so that both ends know


def progress(now: WorkerState) -> JsonDict:
    """`progress.v1`."""
    return {
        "schema_version": "progress.v1",
        "state": now.state,
        "done": now.done,
        "total": now.total,
        "per_second": round(now.per_second, 1),
        "embedded": now.embedded,
        "error": now.error,
    }


class Listener:
    """One connection. Lives in the event loop that made it."""

    def __init__(self, known: dict[str, JsonDict]) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = dict(known)
        self._changed = asyncio.Event()
        self._changed.set()
        self._over = False

    def tell(self, name: str, data: JsonDict) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._take, name, data)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._finish)

    def _take(self, name: str, data: JsonDict) -> None:
        self._news[name] = data
        self._changed.set()

    def _finish(self) -> None:
        self._over = True
        self._changed.set()

    async def lines(self) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        while not self._over:
            try:
                async with asyncio.timeout(_QUIET_S):
                    await self._changed.wait()
            except TimeoutError:
                yield ": still here\n\n"
            self._changed.clear()
            news, self._news = self._news, {}
            for name, data in news.items():
                yield f"event: {name}\ndata: {json.dumps(data)}\n\n"


class Events:
    """Those who listen, and the newest event of every kind. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._newest: dict[str, JsonDict] = {}
        self._closed = False

    def tell(self, name: str, data: JsonDict) -> None:
        with self._lock:
            self._newest[name] = data
            if not self._closed:
                for listener in self._listeners:
                    listener.tell(name, data)

    def close(self) -> None:
        """End every stream: a server that is to stop must not wait for its listeners."""
        with self._lock:
            self._closed = True
            for listener in self._listeners:
                listener.end()

    def join(self) -> Listener:
        """A new listener; `TooBusy` where there are enough."""
        with self._lock:
            if self._closed or len(self._listeners) >= _MAX_LISTENERS:
                raise TooBusy("too many listeners", "close a page that is open elsewhere")
            listener = Listener(self._newest)
            self._listeners.add(listener)
            return listener

    async def stream(self, listener: Listener) -> AsyncIterator[str]:
        try:
            async for line in listener.lines():
                yield line
        finally:
            with self._lock:
                self._listeners.discard(listener)
