"""Limits how many requests are in progress, so that the event loop stays free.

The worker pools refuse requests when their queues are full, but only after the framework has routed
and parsed a request, which takes the event loop a millisecond or two. A few hundred such requests
at once would delay every other response by seconds. Here, a request beyond the limit is refused
before it is routed.

Routes with the same first segment of their path share a limit, so that a flood of searches leaves
room for `/health` and `/documents`. A request counts once its body has arrived, so that slow
clients do not block others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kb.config import ServeConfig
from kb.errors import TooBusy

_UNKNOWN = "/"  # cannot be a segment
_POOLS_PER_SEGMENT = 2  # at most: `/search` also has one for searches that encode the query


class Slot:
    """The slot of one request, taken once the request is complete."""

    def __init__(self, admission: Admission, segment: str) -> None:
        self._admission = admission
        self._segment = segment
        self._is_taken = False

    def check(self) -> None:
        """Raise `TooBusy` if no slot is free."""
        if not self._is_taken:
            self._admission.check(self._segment)

    def take(self) -> None:
        """Count the request. Raises `TooBusy` if no slot is free."""
        if not self._is_taken:
            self._admission.take(self._segment)
            self._is_taken = True

    def release(self) -> None:
        if self._is_taken:
            self._admission.release(self._segment)
            self._is_taken = False


class Admission:
    """At most `limit` complete requests in progress for each first segment of a path. Used by the
    event loop only."""

    def __init__(self, limit: int, paths: Iterable[str]) -> None:
        """`paths` are the paths of the routes; all others share one limit."""
        self._limit = limit
        self._segments = frozenset(map(_first_segment, paths))
        self._counts: Counter[str] = Counter()

    @classmethod
    def for_pools(cls, limits: ServeConfig, paths: Iterable[str]) -> Admission:
        """Admit as many requests as the worker pools can take, so that the pools still distinguish
        slow kinds of requests from fast ones."""
        return cls(_POOLS_PER_SEGMENT * (limits.searches_at_once + limits.max_waiting), paths)

    @contextmanager
    def slot(self, path: str) -> Iterator[Slot]:
        """A slot for a request to `path`, released at the end of the block."""
        segment = _first_segment(path)
        slot = Slot(self, segment if segment in self._segments else _UNKNOWN)
        try:
            yield slot
        finally:
            slot.release()

    def check(self, segment: str) -> None:
        if self._counts[segment] >= self._limit:
            raise TooBusy("too many requests at once", "try again in a moment")

    def take(self, segment: str) -> None:
        self.check(segment)
        self._counts[segment] += 1

    def release(self, segment: str) -> None:
        self._counts[segment] -= 1


def _first_segment(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
