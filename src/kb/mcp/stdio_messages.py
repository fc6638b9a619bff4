"""Sends the replies that the SDK omits.

Over stdio, the SDK turns lines that are not valid messages into exceptions, without a reply: a
client that sends a lone surrogate, or a number that JSON does not allow, would wait forever. And it
drops the pending requests when stdin is closed. Over both transports, it treats a request whose id
is neither a string nor an integer as a notification, which gets no reply.
"""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any, Protocol, TypeVar

import anyio
from mcp.shared.message import SessionMessage

from kb.errors import InvalidRequest, is_unicode
from kb.mcp import formatting
from mcp import types

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_CANCELLED = "notifications/cancelled"
_HINT = "send a JSON object in UTF-8 without lone surrogates"
_ID_HINT = "use a string or an integer as its id"

Item = SessionMessage | Exception
T_co = TypeVar("T_co", covariant=True)


class Receiver(Protocol[T_co]):
    """The part of the SDK's receiving streams that is used here."""

    async def receive(self) -> T_co: ...
    async def aclose(self) -> None: ...


class Sender(Protocol):
    """The part of the SDK's sending streams that is used here."""

    async def send(self, item: SessionMessage, /) -> None: ...


class Lines:
    """The lines of a text stream. `taken` keeps them until the reader removes them."""

    def __init__(self, stream: anyio.AsyncFile[str]) -> None:
        self._stream = stream
        self.taken: deque[str] = deque()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._stream.readline()
        if not line:
            raise StopAsyncIteration
        self.taken.append(line)
        return line


def stdin_lines() -> Lines:
    """Read from stdin here only: for other code of this process and for its child processes, stdin
    is empty."""
    private, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # It is not closed, because a thread may still read from it when the server ends.
    stream = open(private, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    return Lines(anyio.wrap_file(stream))


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
    to `drain_s` for the replies to the valid ones. `inner` has one item for each of the `lines`."""

    def __init__(
        self,
        inner: Receiver[Item],
        lines: Lines,
        replies: Sender,
        pending: PendingRequests,
        drain_s: float,
    ) -> None:
        self._inner = inner
        self._lines = lines
        self._replies = replies
        self._pending = pending
        self._drain_s = drain_s

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        try:
            while True:
                item = await self._inner.receive()
                line = self._lines.taken.popleft()
                if isinstance(item, SessionMessage) and not has_invalid_id(line, item.message):
                    break
                if (reply := reply_to(line)) is not None:
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


def has_invalid_id(text: str | bytes, message: Any = None) -> bool:
    """Whether JSON text is a request whose id is neither a string nor an integer. `message` is the
    message that the SDK parsed from it, if known."""
    if message is not None and not isinstance(message, types.JSONRPCNotification):
        return False
    request = _object(text)
    return request is not None and "method" in request and not _is_valid_id(request.get("id", ""))


def _is_valid_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def invalid_id() -> types.JSONRPCError:
    """The reply to a request whose id is neither a string nor an integer."""
    return _error(None, "not a JSON-RPC 2.0 request", _ID_HINT)


def reply_to(line: str) -> types.JSONRPCMessage | None:
    """Return the reply to a line that is not a valid message; None if the client expects none."""
    message = _object(line)
    if message is None:
        return None if line.isspace() or not line else _error(None, "not JSON", code=_PARSE_ERROR)
    if "id" not in message and "method" in message:
        return None  # a notification
    request_id = message.get("id")
    if not _is_valid_id(request_id):
        return invalid_id()
    if not is_unicode(str(request_id)):
        request_id = None
    if message.get("method") == "tools/call" and request_id is not None:
        failure = InvalidRequest("the arguments are not valid JSON", _HINT)
        content = types.TextContent(type="text", text=formatting.format_error(failure))
        result = types.CallToolResult(content=[content], is_error=True)
        body = result.model_dump(by_alias=True, exclude_none=True)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=body)
    return _error(request_id, "not a JSON-RPC 2.0 request")


def _error(
    request_id: int | str | None, problem: str, hint: str = _HINT, *, code: int = _INVALID_REQUEST
) -> types.JSONRPCError:
    data = types.ErrorData(code=code, message=f"{problem}; {hint}")
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=data)


def _object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in `text`; None if there is none."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
