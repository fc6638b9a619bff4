"""Bodies and answers on their way: within a time, at a least speed, and within the memory there is.

Around every application that `guard` guards. A client that sends nothing or reads nothing costs a
connection for a while, and little else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import Message, Receive, Send

from kb.errors import ClientGone, KbError, TooBusy, TooSlow
from kb.server.memory import Claim, Memory

LEAST_BYTES_PER_S = 64 * 1024
PIECE_BYTES = 64 * 1024
_GONE: Message = {"type": "http.disconnect"}


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a client may take: `timeout_s`, and longer only at the least speed."""

    timeout_s: float

    def deadline(self, started: float, size_bytes: int) -> float:
        return started + self.timeout_s + size_bytes / LEAST_BYTES_PER_S


class Incoming:
    """A `receive` whose body has to arrive in time. If it does not, the application sees a client
    that has gone, and `failure` is what the client is to hear."""

    def __init__(self, receive: Receive, pace: Pace, memory: Memory, claim: Claim | None) -> None:
        """Without a `claim`, the body is not kept in memory."""
        self.failure: KbError | None = None
        self._receive = receive
        self._pace = pace
        self._memory = memory
        self._claim = claim
        self._started = asyncio.get_running_loop().time()
        self._size_bytes = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        if self.failure is not None:
            return _GONE
        if self._is_complete:
            return await self._receive()
        claim = self._claim or Claim()
        deadline = self._pace.deadline(self._started, self._size_bytes)
        try:
            async with asyncio.timeout_at(deadline) as scope:
                with claim.waiting(scope):
                    message = await self._receive()
        except TimeoutError:
            return self._fail(_too_slow(claim, deadline - self._started))
        size_bytes = len(message.get("body", b""))
        self._size_bytes += size_bytes
        self._is_complete = not message.get("more_body", False)
        if self._claim is not None:
            try:
                self._memory.grow(claim, size_bytes)
            except TooBusy as error:
                return self._fail(error.with_traceback(None))
        return message

    def _fail(self, error: KbError) -> Message:
        self.failure = error
        return _GONE


def _too_slow(claim: Claim, seconds: float) -> KbError:
    if claim.is_evicted:
        return TooBusy("others need the memory that this request took", "send it in one go")
    return TooSlow(f"the request did not arrive within {seconds:.3g} s", "send it in one go")


class Outgoing:
    """A `send` that hands on large bodies in pieces, and gives up a client that does not read."""

    def __init__(self, send: Send, pace: Pace, memory: Memory, claim: Claim) -> None:
        self.status = 0
        self.failure: KbError | None = None
        self._send = send
        self._pace = pace
        self._memory = memory
        self._claim = claim
        self._start: Message | None = None

    @property
    def is_started(self) -> bool:
        """Whether anything has reached the client."""
        return self.status != 0 and self._start is None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._start = message  # held back until there is room for its body
            return
        body = message.get("body", b"")
        try:
            if not message.get("more_body", False) and len(body) > PIECE_BYTES:
                await self._send_large(body)
            else:
                await self._send_all(message)
        except TimeoutError:
            self.failure = _unread()
            raise _unread() from None

    async def _send_all(self, message: Message) -> None:
        async with asyncio.timeout(self._pace.timeout_s):
            await self._send_start()
            await self._send(message)

    async def _send_large(self, body: bytes) -> None:
        try:
            self._memory.grow(self._claim, len(body))
        except TooBusy as error:
            self.failure = TooBusy(error.message, error.hint)
            raise
        loop = asyncio.get_running_loop()
        started, view = loop.time(), memoryview(body)
        for offset in range(0, len(body), PIECE_BYTES):
            end = offset + PIECE_BYTES
            deadline = min(loop.time() + self._pace.timeout_s, self._pace.deadline(started, offset))
            piece = {"body": bytes(view[offset:end]), "more_body": end < len(body)}
            async with asyncio.timeout_at(deadline) as scope:
                with self._claim.waiting(scope):
                    await self._send_start()
                    await self._send({"type": "http.response.body", **piece})

    async def _send_start(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)


def _unread() -> ClientGone:
    """Made anew for each use: one that was raised keeps the frames it went through, and with them
    the body."""
    return ClientGone("the client does not read its answer")
