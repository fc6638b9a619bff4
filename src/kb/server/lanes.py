"""The knowledge base in threads: so much at a time, and not for clients that have gone.

A lane is a number of threads and a queue of bounded length. Work whose client goes away while it
waits is dropped; work that runs learns of it by asking, between two steps, whether it is `Wanted`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from kb.errors import ClientGone, TooBusy

T = TypeVar("T")


class Wanted:
    """Whether somebody still waits. `check` raises when nobody does."""

    def __init__(self) -> None:
        self._gone = threading.Event()

    def stop(self) -> None:
        self._gone.set()

    def gone(self) -> bool:
        return self._gone.is_set()

    def check(self) -> None:
        if self.gone():
            raise ClientGone("the client has gone")


class Lane:
    """`at_once` pieces of work run side by side, `waiting` more wait, and others are refused."""

    def __init__(self, name: str, at_once: int, waiting: int) -> None:
        self._name = name
        self._room = at_once + waiting
        self._threads = ThreadPoolExecutor(at_once, f"kb-{name}")
        self._lock = threading.Lock()
        self._all: set[Wanted] = set()

    @property
    def taken(self) -> int:
        """How much runs or waits."""
        return len(self._all)

    async def run(self, request: Request, work: Callable[[Wanted], T]) -> T:
        """What `work` gives, unless the client goes first."""
        wanted = Wanted()
        future = self._submit(work, wanted)
        answer = asyncio.ensure_future(asyncio.wrap_future(future))
        leaving = asyncio.ensure_future(_leaves(request))
        try:
            both: set[asyncio.Future[Any]] = {answer, leaving}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise ClientGone("the client has gone")
        finally:
            wanted.stop()
            leaving.cancel()
            answer.cancel()

    def _submit(self, work: Callable[[Wanted], T], wanted: Wanted) -> Future[T]:
        with self._lock:
            if len(self._all) >= self._room:
                raise TooBusy(f"too many requests for {self._name}", "try again in a moment")
            self._all.add(wanted)
        future = self._threads.submit(_unless_gone, work, wanted)
        future.add_done_callback(lambda _: self._release(wanted))
        return future

    def _release(self, wanted: Wanted) -> None:
        with self._lock:
            self._all.discard(wanted)

    def close(self) -> None:
        """Have everything stop at its next step, and wait for it."""
        for wanted in list(self._all):
            wanted.stop()
        self._threads.shutdown(cancel_futures=True)


def _unless_gone(work: Callable[[Wanted], T], wanted: Wanted) -> T:
    wanted.check()
    return work(wanted)


async def _leaves(request: Request) -> None:
    """Returns when the client has closed its connection. The body has been read by then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
