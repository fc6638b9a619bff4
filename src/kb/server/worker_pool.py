"""Runs knowledge base calls in threads, a bounded number at a time.

A pool has a number of threads and a queue of bounded length. Each task has a `Deadline`, which is
canceled when its client disconnects or the server stops: a queued task is dropped, a search or a
read stops at its next step, and a write stops between two steps.
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


class WorkerPool:
    """Runs up to `threads` tasks at a time, queues up to `queue_size` more, and refuses the rest.

    With `atomic`, a task that has started is not interrupted; it may call its deadline's `check`
    where it can stop.
    """

    def __init__(self, name: str, threads: int, queue_size: int, *, atomic: bool = False) -> None:
        self._name = name
        self._capacity = threads + queue_size
        self._atomic = atomic
        self._threads = ThreadPoolExecutor(threads, f"kb-{name}")
        self._lock = threading.Lock()
        self._lifetime = Deadline()  # canceled with the pool
        self._task_count = 0

    @property
    def task_count(self) -> int:
        """How many tasks run or wait."""
        return self._task_count

    async def run(
        self,
        request: Request,
        work: Callable[[Deadline], T],
        timeout_s: float | None = None,
        *,
        start_timeout_s: float | None = None,
    ) -> T:
        """Run `work` in a thread and return its result.

        `timeout_s` covers the time in the queue and the work; `start_timeout_s` only the queue.
        Raises `TooBusy` if the queue is full or the task does not start in time, and `ClientGone`
        if the client disconnects.
        """
        deadline = Deadline(timeout_s, setting=SETTING, outer=self._lifetime)
        future = self._submit(work, deadline)
        result = asyncio.ensure_future(asyncio.wrap_future(future))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
        start_s = timeout_s if start_timeout_s is None else start_timeout_s
        try:
            either: set[asyncio.Future[Any]] = {result, disconnect}
            await asyncio.wait(either, timeout=start_s, return_when=asyncio.FIRST_COMPLETED)
            if not result.done() and not disconnect.done():
                if future.cancel():  # true only if the task had not started
                    raise self._too_busy()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            raise ClientGone("the client disconnected")
        finally:
            deadline.cancel(ClientGone("the client disconnected"))
            disconnect.cancel()
            result.cancel()

    def _submit(self, work: Callable[[Deadline], T], deadline: Deadline) -> Future[T]:
        with self._lock:
            if self._task_count >= self._capacity:
                raise self._too_busy()
            self._task_count += 1
        future = self._threads.submit(self._work, work, deadline)
        future.add_done_callback(self._release)
        return future

    def _work(self, work: Callable[[Deadline], T], deadline: Deadline) -> T:
        deadline.check()
        if self._atomic:
            return work(deadline)
        with deadline:
            return work(deadline)

    def _too_busy(self) -> TooBusy:
        return TooBusy(f"too many {self._name} at once", "try again in a moment")

    def _release(self, _done: Future[Any]) -> None:
        with self._lock:
            self._task_count -= 1

    def cancel(self) -> None:
        """Stop every task at its next step."""
        self._lifetime.cancel(
            Cancelled("the server is stopping", "try again once it is running again")
        )

    def close(self) -> None:
        """Stop every task and wait for the threads."""
        self.cancel()
        self._threads.shutdown(cancel_futures=True)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client closes its connection. The body has already been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
