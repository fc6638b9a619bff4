"""A bound on the memory that requests and answers under way take, all clients together.

When it is reached, whoever has made no progress for the longest gives way: a client that sends its
request by drips, or does not read its answer. If all make progress, the newcomer has to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kb.errors import TooBusy

_STALLED_S = 1.0


class Claim:
    """The bytes that one request or answer holds."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.progress_at = time.monotonic()
        self.is_evicted = False
        self._scope: asyncio.Timeout | None = None

    @contextmanager
    def waiting(self, scope: asyncio.Timeout) -> Iterator[None]:
        """While the client is waited for, `scope` ends early if the claim has to give way."""
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None
            self.progress_at = time.monotonic()

    @property
    def is_stalled(self) -> bool:
        return self._scope is not None and time.monotonic() - self.progress_at >= _STALLED_S

    def evict(self) -> None:
        self.is_evicted, self.size_bytes = True, 0
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())


class Memory:
    """Lives in one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._claims: set[Claim] = set()

    @property
    def used_bytes(self) -> int:
        return sum(claim.size_bytes for claim in self._claims)

    @contextmanager
    def claim(self) -> Iterator[Claim]:
        """A claim, at first of nothing; given back when the block ends."""
        claim = Claim()
        self._claims.add(claim)
        try:
            yield claim
        finally:
            self._claims.discard(claim)

    def grow(self, claim: Claim, size_bytes: int) -> None:
        """Let `claim` have more. `TooBusy` where there is no room and nobody gives way; what is
        larger than all the room there is gets it alone."""
        others = self.used_bytes - claim.size_bytes
        while others and others + claim.size_bytes + size_bytes > self._limit_bytes:
            stalled = [each for each in self._claims
                       if each is not claim and each.size_bytes and each.is_stalled]  # fmt: skip
            if not stalled:
                raise TooBusy("too much is being sent and received", "try again in a moment")
            oldest = min(stalled, key=lambda each: each.progress_at)
            others -= oldest.size_bytes
            oldest.evict()
        claim.size_bytes += size_bytes
