"""The knowledge base in threads: so much at a time, and not for clients that have gone.

A lane is a number of threads and a queue of bounded length. Each piece of work has a `Deadline`,
which is cancelled when its client goes away or the server stops: what waits is dropped, a search or
a read stops wherever it is, and a write between two steps.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from kb.deadline import Deadline
from kb.errors import Cancelled, ClientGone, TooBusy

T = TypeVar("T")

SETTING = "serve.request_timeout_s"


class Lane:
    """`at_once` pieces of work run side by side, `waiting` more wait, and others are refused. With
    `whole`, work that was begun is only asked to stop, by its deadline's `check`: a write is not
    broken off in its midst."""

    def __init__(self, name: str, at_once: int, waiting: int, *, whole: bool = False) -> None:
        self._name = name
        self._room = at_once + waiting
        self._whole = whole
        self._threads = ThreadPoolExecutor(at_once, f"kb-{name}")
        self._lock = threading.Lock()
        self._until = Deadline()  # ends with the lane
        self._taken = 0

    @property
    def taken(self) -> int:
        """How much runs or waits."""
        return self._taken

    async def run(
        self, request: Request, work: Callable[[Deadline], T], timeout_s: float | None = None
    ) -> T:
        """What `work` gives, unless the client goes first. The time in which it waits for others
        counts."""
        deadline = Deadline(timeout_s, setting=SETTING, outer=self._until)
        future = self._submit(work, deadline)
        answer = asyncio.ensure_future(asyncio.wrap_future(future))
        leaving = asyncio.ensure_future(_leaves(request))
        try:
            both: set[asyncio.Future[Any]] = {answer, leaving}
            await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and not leaving.done():
                if future.cancel():  # it was not even begun
                    raise self._busy()
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise ClientGone("the client has gone")
        finally:
            deadline.cancel(ClientGone("the client has gone"))
            leaving.cancel()
            answer.cancel()

    def _submit(self, work: Callable[[Deadline], T], deadline: Deadline) -> Future[T]:
        with self._lock:
            if self._taken >= self._room:
                raise self._busy()
            self._taken += 1
        future = self._threads.submit(self._work, work, deadline)
        future.add_done_callback(self._release)
        return future

    def _work(self, work: Callable[[Deadline], T], deadline: Deadline) -> T:
        deadline.check()
        if self._whole:
            return work(deadline)
        with deadline:
            return work(deadline)

    def _busy(self) -> TooBusy:
        return TooBusy(f"too many requests for {self._name}", "try again in a moment")

    def _release(self, _done: Future[Any]) -> None:
        with self._lock:
            self._taken -= 1

    def cancel(self) -> None:
        """Have everything stop at its next step."""
        self._until.cancel(Cancelled("the server stops", "ask again when it is back"))

    def close(self) -> None:
        """Have everything stop, and wait for it."""
        self.cancel()
        self._threads.shutdown(cancel_futures=True)


async def _leaves(request: Request) -> None:
    """Returns when the client has closed its connection. The body has been read by then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
