"""How long work may take, and how it is stopped before its end.

    with Deadline(5.0):
        kb.search("retry storm")  # raises DeadlineExceeded when five seconds are over

    deadline = Deadline()  # no limit of time
    ...                    # one thread works in `with deadline:`
    deadline.cancel()      # and another stops it: Cancelled is raised there

The deadline of a thread is in a context variable: it reaches the loops of a search and every
statement of SQLite (by the progress handler) without being an argument of all that lies between.
Threads that take over a part of the work enter the deadline of the thread that asked them. A
deadline that is made inside another one ends with it, or earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from threading import get_ident

from kb.errors import Cancelled, DeadlineExceeded

_SHARE = 0.5  # of the time that is left, for one of several parts

_current: ContextVar[Deadline | None] = ContextVar("kb_deadline", default=None)


class Deadline:
    """A moment in time, and a flag that any thread may raise. `timeout_s` counts from now; without
    it, only `cancel` ends the work. `setting` is what a user raises for more time. `outer` is the
    deadline that this one ends with; without it, the thread's own. Several threads may be inside
    the same deadline, each once. `clock` gives seconds; without it, the outer deadline's does."""

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
        self._before: dict[int, Deadline | None] = {}  # what each thread had

    def __enter__(self) -> Deadline:
        self._before[get_ident()] = _current.get()
        _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _current.set(self._before.pop(get_ident()))
        if kind is not None:  # other threads need not go on with their parts
            self.cancel()

    def cancel(self, error: Cancelled | None = None) -> None:
        """Stop the work at its next step, from any thread; `error` is what is raised there."""
        self._error = error or Cancelled("the work was cancelled")

    def remaining_s(self) -> float:
        """The time that is left; infinite if there is no limit, never below zero."""
        return max(0.0, self._end - self._clock()) if self._end < inf else inf

    def check(self) -> None:
        """Raise `Cancelled` or `DeadlineExceeded` if the work is to stop."""
        each: Deadline | None = self
        while each is not None:
            if each._error is not None:
                raise type(each._error)(each._error.message, each._error.hint)
            each = each._outer
        if self._end < inf and self._clock() >= self._end:
            more = f", or raise {self.setting}" if self.setting else ""
            raise DeadlineExceeded(
                f"no answer within {self.timeout_s:g} s",
                f"ask for less (fewer terms, a narrower filter){more}",
            )

    def _extend(self, seconds: float) -> None:
        self._end += seconds
        if self._outer is not None:
            self._outer._extend(seconds)


def current() -> Deadline | None:
    """The deadline of this thread, if it has one."""
    return _current.get()


def check() -> None:
    """Raise if this thread's work is to stop. Cheap enough for every step of a loop."""
    if (deadline := _current.get()) is not None:
        deadline.check()


def remaining_s() -> float:
    """The time that this thread's work has left; infinite if there is no limit."""
    deadline = _current.get()
    return inf if deadline is None else deadline.remaining_s()


def share(part: float = _SHARE) -> Deadline:
    """A deadline for one part of the work: it gets a `part` of the time that is left, so that the
    others can still answer if it takes too long."""
    deadline = _current.get()
    if deadline is None or (left := deadline.remaining_s()) == inf:
        return Deadline()
    return Deadline(left * part, setting=deadline.setting)


@contextmanager
def uncounted() -> Iterator[None]:
    """What is done inside is neither stopped nor counted: models and indexes, which are loaded once
    and kept for every search that follows."""
    deadline = _current.get()
    if deadline is None:
        yield
        return
    token = _current.set(None)
    began = deadline._clock()
    try:
        yield
    finally:
        _current.reset(token)
        deadline._extend(deadline._clock() - began)
