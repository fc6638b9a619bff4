"""Spreads the start of requests over turns of the event loop.

In one turn the event loop runs everything that is ready, and a request takes several turns. If
hundreds of requests became ready together, a turn would take a second, and the response of a health
check several. So only a few requests start in a turn, in the order of their arrival, and those for
`first_paths` before all others.
"""

from __future__ import annotations

import asyncio
from collections import deque

STARTS_PER_TURN = 4


class StartQueue:
    """Starts at most `starts_per_turn` requests in each turn of the event loop."""

    def __init__(
        self, first_paths: frozenset[str] = frozenset(), starts_per_turn: int = STARTS_PER_TURN
    ) -> None:
        self._first_paths = first_paths
        self._starts_per_turn = starts_per_turn
        self._starts = 0  # in this turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self, path: str) -> None:
        """Return when a request to `path` may start."""
        if path in self._first_paths:
            return
        loop = asyncio.get_running_loop()
        if not self._starts:
            loop.call_soon(self._next_turn, loop)
        if self._starts < self._starts_per_turn and not self._waiting:
            self._starts += 1
            return
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        await place

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._starts = 0
        while self._waiting and self._starts < self._starts_per_turn:
            place = self._waiting.popleft()
            if not place.done():  # otherwise, its request was canceled
                place.set_result(None)
                self._starts += 1
        if self._starts:
            loop.call_soon(self._next_turn, loop)
