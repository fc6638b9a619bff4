"""Time, speed and memory limits on request bodies and responses.

The guard applies them to every request. A client that sends or reads nothing costs a connection for
a while, and little else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import Message, Receive, Send

from kb.errors import ClientGone, KbError, TooBusy, TooSlow
from kb.server.admission import Slot
from kb.server.memory import MemoryBudget, Reservation

MIN_BYTES_PER_S = 64 * 1024
PIECE_BYTES = 64 * 1024
_DISCONNECT: Message = {"type": "http.disconnect"}


@dataclass(frozen=True, slots=True)
class TransferTimeout:
    """How long a transfer may take: `timeout_s` plus the time that its bytes take at the minimum
    speed."""

    timeout_s: float

    def deadline(self, started: float, size_bytes: int) -> float:
        return started + self.timeout_s + size_bytes / MIN_BYTES_PER_S


class RequestStream:
    """An ASGI `receive` with limits on the body.

    If the body is late or exceeds the budget, or if too many requests are in progress, the
    application sees a disconnect, and `failure` holds the error for the client.
    """

    def __init__(
        self,
        receive: Receive,
        timeout: TransferTimeout,
        budget: MemoryBudget,
        reservation: Reservation | None,
        slot: Slot,
    ) -> None:
        """Without a `reservation`, the body does not count: the application writes it to disk.
        `slot` is taken once the body is complete."""
        self.failure: KbError | None = None
        self._receive = receive
        self._timeout = timeout
        self._budget = budget
        self._reservation = reservation
        self._slot = slot
        self._started = asyncio.get_running_loop().time()
        self._size_bytes = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        if self.failure is not None:
            return _DISCONNECT
        if self._is_complete:
            return await self._receive()
        reservation = self._reservation or Reservation()
        deadline = self._timeout.deadline(self._started, self._size_bytes)
        try:
            async with asyncio.timeout_at(deadline) as scope:
                with reservation.waiting(scope):
                    message = await self._receive()
        except TimeoutError:
            return self._fail(_late(reservation, deadline - self._started))
        size_bytes = len(message.get("body", b""))
        self._size_bytes += size_bytes
        self._is_complete = not message.get("more_body", False)
        try:
            if self._reservation is not None:
                self._budget.grow(reservation, size_bytes)
            if self._is_complete:
                self._slot.take()
        except TooBusy as error:
            return self._fail(error.with_traceback(None))
        return message

    def _fail(self, error: KbError) -> Message:
        self.failure = error
        return _DISCONNECT


def _late(reservation: Reservation, seconds: float) -> KbError:
    if reservation.is_evicted:
        return TooBusy("other requests needed the memory of this one", "send the body faster")
    return TooSlow(f"the request did not arrive within {seconds:.3g} s", "send the body faster")


class ResponseStream:
    """An ASGI `send` that splits large bodies and drops clients that do not read."""

    def __init__(
        self, send: Send, timeout: TransferTimeout, budget: MemoryBudget, reservation: Reservation
    ) -> None:
        self.status = 0
        self.failure: KbError | None = None
        self._send = send
        self._timeout = timeout
        self._budget = budget
        self._reservation = reservation
        self._start: Message | None = None

    @property
    def is_started(self) -> bool:
        """Whether the client has received anything."""
        return self.status != 0 and self._start is None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._start = message  # held back until the budget has room for the body
            return
        body = message.get("body", b"")
        try:
            if not message.get("more_body", False) and len(body) > PIECE_BYTES:
                await self._send_large(body)
            else:
                await self._send_small(message)
        except TimeoutError:
            self.failure = _unread_error()
            raise _unread_error() from None

    async def _send_small(self, message: Message) -> None:
        async with asyncio.timeout(self._timeout.timeout_s):
            await self._send_start()
            await self._send(message)

    async def _send_large(self, body: bytes) -> None:
        try:
            self._budget.resize(self._reservation, len(body))
        except TooBusy as error:
            self.failure = TooBusy(error.message, error.hint)
            raise
        loop = asyncio.get_running_loop()
        started, view = loop.time(), memoryview(body)
        for offset in range(0, len(body), PIECE_BYTES):
            end = offset + PIECE_BYTES
            deadline = min(
                loop.time() + self._timeout.timeout_s, self._timeout.deadline(started, offset)
            )
            piece = {"body": bytes(view[offset:end]), "more_body": end < len(body)}
            async with asyncio.timeout_at(deadline) as scope:
                with self._reservation.waiting(scope):
                    await self._send_start()
                    await self._send({"type": "http.response.body", **piece})

    async def _send_start(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)


def _unread_error() -> ClientGone:
    """Create a new error for each use: a shared one would keep the frames that raised it alive, and
    the body with them."""
    return ClientGone("the client does not read the response")
