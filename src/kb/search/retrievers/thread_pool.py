"""Threads that retrievers work in, which nobody has to wait for.

Each retriever has a group of its own: a thread keeps a connection to the store, and what that has
read is of use for the next search of the same kind. Threads are started when none is idle. They are
daemons, since an encoder that hangs must keep neither a search nor the end of the program waiting.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

from kb import deadline

T = TypeVar("T")

_MAX_THREADS = 8  # threads of a group: so many searches at the same time


class Task(Generic[T]):
    """What a thread will have found. It works under the deadline of who asked, and has a share of
    its time."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._deadline = deadline.share()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """In the thread. What nobody waits for any more is not begun."""
        work, self._work = self._work, None
        try:
            if work is not None:
                with self._deadline:
                    self._value = work()
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self._error = error
        finally:
            self._done.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is there."""
        return self._done.wait(timeout_s)

    def value(self) -> T | None:
        """What was found, once it is there; or the error is raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def leave(self) -> None:
        """Nobody waits for it any more. A thread that has begun ends it by itself."""
        self._work = None


class _Workers:
    """The threads of one retriever, and what waits for them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: SimpleQueue[Task[object] | None] = SimpleQueue()
        self._unused_settings = threading.Semaphore(0)
        self._threads = 0

    def take(self, answer: Task[object]) -> None:
        self._waiting.put(answer)
        if not self._unused_settings.acquire(blocking=False) and self._threads < _MAX_THREADS:
            self._threads += 1
            name = f"kb-{self._name}-{self._threads}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (answer := self._waiting.get()) is not None:
            answer.run()
            del answer  # it holds a search, which may be the last to hold its store
            self._unused_settings.release()

    def close(self) -> None:
        for _ in range(self._threads):
            self._waiting.put(None)


class ThreadPool:
    """The workers of one searcher. Closing waits for nobody."""

    def __init__(self) -> None:
        self._workers: dict[str, _Workers] = {}
        self._lock = threading.Lock()
        self._finish = weakref.finalize(self, _close, self._workers)  # also where nobody closes it

    def close(self) -> None:
        self._finish()

    def ask(self, name: str, work: Callable[[], T]) -> Task[T]:
        """`work`, begun as soon as a thread of that name is free."""
        answer = Task(work)
        with self._lock:
            group = self._workers.setdefault(name, _Workers(name))
            group.take(answer)  # type: ignore[arg-type]  # a queue of answers of every kind
        return answer


def _close(workers: dict[str, _Workers]) -> None:
    for group in workers.values():
        group.close()
