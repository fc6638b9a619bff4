"""Deadlines and cancellation.

    with Deadline(5.0):
        kb.search("retry storm")  # raises DeadlineExceeded after five seconds

    deadline = Deadline()  # without a time limit
    ...                    # one thread works in `with deadline:`
    deadline.cancel()      # another thread stops it: Cancelled is raised there

The deadline of a thread is a context variable: it reaches the loops of a search and every SQLite
statement (through the progress handler) without being passed as an argument. Threads that take over
part of the work enter the deadline of the thread that started them. A deadline created inside
another one ends with it, or earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from threading import get_ident

from kb.errors import Cancelled, DeadlineExceeded

_SHARE = 0.5  # of the remaining time, for one of several parts

_current: ContextVar[Deadline | None] = ContextVar("kb_deadline", default=None)


class Deadline:
    """A time limit, and a flag with which any thread can cancel the work.

    `timeout_s` counts from now; without it, only `cancel` ends the work. `setting` names the
    setting that raises the limit, for the error message. The deadline ends with `outer`, by default
    the current deadline of the thread. `clock` returns seconds, by default that of `outer`. Several
    threads may enter the same deadline, each once.
    """

    def __init__(
        self,
        timeout_s: float | None = None,
        *,
        setting: str = "",
        outer: Deadline | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._outer = outer or _current.get()
        inherited = time.monotonic if self._outer is None else self._outer._clock
        self._clock: Callable[[], float] = clock or inherited
        self.timeout_s = inf if timeout_s is None else timeout_s
        self.setting = setting
        self._end = self._clock() + self.timeout_s
        if self._outer is not None and self._outer._end <= self._end:
            self.timeout_s, self.setting = self._outer.timeout_s, self._outer.setting
            self._end = self._outer._end
        self._error: Cancelled | None = None
        self._before: dict[int, Deadline | None] = {}  # the previous deadline of each thread

    def __enter__(self) -> Deadline:
        self._before[get_ident()] = _current.get()
        _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _current.set(self._before.pop(get_ident()))
        if kind is not None:  # stop the other threads as well
            self.cancel()

    def cancel(self, error: Cancelled | None = None) -> None:
        """Stop the work at its next check, from any thread; `error` is raised there."""
        self._error = error or Cancelled("the work was canceled")

    def remaining_s(self) -> float:
        """The remaining time; infinite without a limit, never below zero."""
        return max(0.0, self._end - self._clock()) if self._end < inf else inf

    def check(self) -> None:
        """Raise `Cancelled` or `DeadlineExceeded` if the work must stop."""
        each: Deadline | None = self
        while each is not None:
            if each._error is not None:
                raise type(each._error)(each._error.message, each._error.hint)
            each = each._outer
        if self._end < inf and self._clock() >= self._end:
            more = f", or raise {self.setting}" if self.setting else ""
            raise DeadlineExceeded(
                f"no answer within {self.timeout_s:g} s",
                f"simplify the request (fewer terms, a narrower filter){more}",
            )

    def _extend(self, seconds: float) -> None:
        self._end += seconds
        if self._outer is not None:
            self._outer._extend(seconds)


def current() -> Deadline | None:
    """The current deadline of this thread, if any."""
    return _current.get()


def check() -> None:
    """Raise if the work of this thread must stop. Cheap enough for every step of a loop."""
    if (deadline := _current.get()) is not None:
        deadline.check()


def remaining_s() -> float:
    """The remaining time of this thread; infinite without a limit."""
    deadline = _current.get()
    return inf if deadline is None else deadline.remaining_s()


def share(part: float = _SHARE) -> Deadline:
    """Create a deadline for one part of the work, with the fraction `part` of the remaining time,
    so that the other parts can still finish if it takes too long."""
    deadline = _current.get()
    if deadline is None or (remaining := deadline.remaining_s()) == inf:
        return Deadline()
    return Deadline(remaining * part, setting=deadline.setting)


@contextmanager
def pause_deadline() -> Iterator[None]:
    """Suspend the deadline: the time inside does not count. For models and indexes, which are
    loaded once and serve all later searches."""
    deadline = _current.get()
    if deadline is None:
        yield
        return
    token = _current.set(None)
    started = deadline._clock()
    try:
        yield
    finally:
        _current.reset(token)
        deadline._extend(deadline._clock() - started)
