"""Replies that the SDK does not send over stdio.

It passes lines that are not valid messages on as exceptions, without a reply: a client that sends a
lone surrogate, or a number that JSON does not allow, would wait forever. And it drops the pending
requests when stdin is closed.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

import anyio
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from kb.errors import InvalidRequest, is_unicode
from kb.mcp import formatting
from mcp import types

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_CANCELLED = "notifications/cancelled"
_HINT = "send a JSON object in UTF-8 without lone surrogates"

Item = SessionMessage | Exception
T_co = TypeVar("T_co", covariant=True)


class Receiver(Protocol[T_co]):
    """The part of the SDK's receiving streams that is used here."""

    async def receive(self) -> T_co: ...
    async def aclose(self) -> None: ...


class Sender(Protocol):
    """The part of the SDK's sending streams that is used here."""

    async def send(self, item: SessionMessage, /) -> None: ...


class PendingRequests:
    """The requests without a reply. Bound to the event loop that creates it."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._changed = anyio.Event()

    def receive(self, message: Any) -> None:
        """Record a message of the client: a request, or the cancellation of one."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif getattr(message, "method", "") == _CANCELLED:
            self._discard((getattr(message, "params", None) or {}).get("requestId"))

    def reply(self, message: Any) -> None:
        """Record a message of the server."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._discard(message.id)

    def _discard(self, key: Any) -> None:
        if isinstance(key, int | str):
            self._ids.discard(key)
            self._changed.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when every request has its reply, or after `timeout_s`."""
        with anyio.move_on_after(timeout_s):
            while self._ids:
                self._changed = anyio.Event()
                await self._changed.wait()


class TrackedReplies:
    """A sending stream that records the replies it sends."""

    def __init__(self, inner: Any, pending: PendingRequests) -> None:
        self._inner = inner
        self._pending = pending

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._pending.reply(item.message)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> TrackedReplies:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ValidMessages:
    """A stream of valid messages, which replies to invalid ones itself. When it ends, it waits up
    to `drain_s` for the replies to the valid ones."""

    def __init__(
        self, inner: Receiver[Item], replies: Sender, pending: PendingRequests, drain_s: float
    ) -> None:
        self._inner = inner
        self._replies = replies
        self._pending = pending
        self._drain_s = drain_s

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        try:
            while isinstance(item := await self._inner.receive(), Exception):
                if (reply := reply_to(item)) is not None:
                    await self._replies.send(SessionMessage(reply))
        except anyio.EndOfStream:
            await self._pending.wait(self._drain_s)
            raise
        self._pending.receive(item.message)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ValidMessages:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> ValidMessages:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def reply_to(error: Exception) -> types.JSONRPCMessage | None:
    """Return the reply to a line that the SDK could not parse; None if the client expects none."""
    line, message = _original(error)
    if message is None:
        return None if line.isspace() or not line else _error(None, _PARSE_ERROR, "not JSON")
    if "id" not in message and "method" in message:
        return None  # a notification
    request_id = message.get("id")
    is_id = isinstance(request_id, int | str) and not isinstance(request_id, bool)
    if not is_id or not is_unicode(str(request_id)):
        request_id = None
    if message.get("method") == "tools/call" and request_id is not None:
        failure = InvalidRequest("the arguments are not valid JSON", _HINT)
        content = types.TextContent(type="text", text=formatting.format_error(failure))
        result = types.CallToolResult(content=[content], is_error=True)
        body = result.model_dump(by_alias=True, exclude_none=True)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=body)
    return _error(request_id, _INVALID_REQUEST, "not a JSON-RPC 2.0 request")


def _error(request_id: int | str | None, code: int, problem: str) -> types.JSONRPCError:
    data = types.ErrorData(code=code, message=f"{problem}; {_HINT}")
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=data)


def _original(error: Exception) -> tuple[str, dict[str, Any] | None]:
    """Return the line, as far as the SDK's error contains it, and the object in it."""
    if not isinstance(error, ValidationError):
        return "?", None
    inputs = [each["input"] for each in error.errors(include_url=False, include_context=False)]
    objects = [each for each in inputs if isinstance(each, dict)]
    lines = [each for each in inputs if isinstance(each, str)]
    if objects:
        whole = [each for each in objects if "jsonrpc" in each]
        return "?", (whole or objects)[0]
    try:
        message = json.loads(lines[0]) if lines else None
    except (ValueError, RecursionError):
        message = None
    return lines[0] if lines else "?", message if isinstance(message, dict) else None
