"""Daemon threads for retrievers, which a search can stop waiting for.

Each retriever has its own threads. A thread keeps a connection to the store, whose page cache helps
the next search of the same retriever. A pool starts a thread if none is idle. Threads are daemons,
because an encoder that hangs must block neither a search nor the exit of the process.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

from kb import deadline

T = TypeVar("T")

_MAX_THREADS = 8  # per retriever: the number of searches that run at the same time


class Task(Generic[T]):
    """A function call in another thread. It runs under a share of the caller's deadline."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function: Callable[[], T] | None = function
        self._deadline = deadline.share()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function in this thread, unless the task was canceled."""
        function, self._function = self._function, None
        try:
            if function is not None:
                with self._deadline:
                    self._value = function()
        except BaseException as error:  # noqa: BLE001  # raised again by `result`
            self._error = error
        finally:
            self._done.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the task; returns whether it is done."""
        return self._done.wait(timeout_s)

    def result(self) -> T | None:
        """The function's result. Raises the function's error. Call `wait` first."""
        if self._error is not None:
            raise self._error
        return self._value

    def cancel(self) -> None:
        """Drop the task if it has not started. A running function is not interrupted."""
        self._function = None


class _Workers:
    """The threads of one retriever and their queue."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Task[object] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def submit(self, task: Task[object]) -> None:
        """Queue the task, and start a thread for it if none is idle."""
        self._queue.put(task)
        if not self._idle.acquire(blocking=False) and self._threads < _MAX_THREADS:
            self._threads += 1
            name = f"kb-{self._name}-{self._threads}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            task.run()
            del task  # it refers to a search, which may be the last to refer to its store
            self._idle.release()

    def close(self) -> None:
        for _ in range(self._threads):
            self._queue.put(None)


class ThreadPool:
    """The threads of one searcher. `close` does not wait for running tasks."""

    def __init__(self) -> None:
        self._workers: dict[str, _Workers] = {}
        self._lock = threading.Lock()
        self._finish = weakref.finalize(self, _close, self._workers)  # if nobody calls `close`

    def close(self) -> None:
        self._finish()

    def submit(self, name: str, function: Callable[[], T]) -> Task[T]:
        """Call `function` in a thread of that name, as soon as one is idle."""
        task = Task(function)
        with self._lock:
            workers = self._workers.setdefault(name, _Workers(name))
            workers.submit(task)  # type: ignore[arg-type]  # one queue for tasks of all types
        return task


def _close(workers: dict[str, _Workers]) -> None:
    for each in workers.values():
        each.close()
