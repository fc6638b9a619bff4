"""Lines on stdin that are no messages of the protocol, and what they are answered with.

The SDK hands them on as exceptions, which nobody answers: a client that sent half of a surrogate
pair, or a number that JSON does not have, would wait forever.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

import anyio
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from kb.errors import InvalidRequest
from kb.mcp import formatting
from mcp import types

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_HINT = "send a JSON object in UTF-8, without halves of surrogate pairs"

Item = SessionMessage | Exception
T_co = TypeVar("T_co", covariant=True)


class Receiver(Protocol[T_co]):
    """As much of the SDK's streams as is used here."""

    async def receive(self) -> T_co: ...
    async def aclose(self) -> None: ...


class Sender(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


class Answering:
    """A stream of messages without those that are none, which get their answers here."""

    def __init__(self, inner: Receiver[Item], replies: Sender) -> None:
        self._inner = inner
        self._replies = replies

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        while isinstance(item := await self._inner.receive(), Exception):
            if (reply := reply_to(item)) is not None:
                await self._replies.send(SessionMessage(reply))
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Answering:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Answering:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def reply_to(error: Exception) -> types.JSONRPCMessage | None:
    """The answer to a line that the SDK could not read; None where none is expected."""
    line, message = _sent(error)
    if message is None:
        return None if line.isspace() or not line else _failed(None, _PARSE_ERROR, "not JSON")
    if "id" not in message and "method" in message:
        return None  # a notification
    key = message.get("id")
    if isinstance(key, bool) or not isinstance(key, int | str) or not _is_text(str(key)):
        key = None
    if message.get("method") == "tools/call" and key is not None:
        failure = InvalidRequest("the arguments cannot be read", _HINT)
        content = types.TextContent(type="text", text=formatting.failed(failure))
        result = types.CallToolResult(content=[content], is_error=True)
        body = result.model_dump(by_alias=True, exclude_none=True)
        return types.JSONRPCResponse(jsonrpc="2.0", id=key, result=body)
    return _failed(key, _INVALID_REQUEST, "not a request of JSON-RPC 2.0")


def _failed(key: int | str | None, code: int, what: str) -> types.JSONRPCError:
    data = types.ErrorData(code=code, message=f"{what}; {_HINT}")
    return types.JSONRPCError(jsonrpc="2.0", id=key, error=data)


def _sent(error: Exception) -> tuple[str, dict[str, Any] | None]:
    """The line that was sent, as far as the SDK's error has it, and the object that it holds."""
    if not isinstance(error, ValidationError):
        return "?", None
    given = [each["input"] for each in error.errors(include_url=False, include_context=False)]
    objects = [each for each in given if isinstance(each, dict)]
    lines = [each for each in given if isinstance(each, str)]
    if objects:
        whole = [each for each in objects if "jsonrpc" in each]
        return "?", (whole or objects)[0]
    try:
        message = json.loads(lines[0]) if lines else None
    except (ValueError, RecursionError):
        message = None
    return lines[0] if lines else "?", message if isinstance(message, dict) else None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
