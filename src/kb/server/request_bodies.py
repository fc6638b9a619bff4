"""Reads request bodies within limits on size and shape."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from kb.errors import ClientGone, InvalidRequest, TooLarge, short_repr
from kb.types import JsonDict

_MAX_LEVELS = 64
_MAX_CONTAINERS = 10_000
_MAX_COMMAS = 10_000  # in longer texts, commas inside strings are not counted
_QUOTES_AT_ONCE = 16_384  # an even number, so that each batch starts outside a string
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_BYTES_PER_VALUE = 200  # for a key and a value in a dict
_BYTES_PER_CONTAINER = 300
_TEXT_COPIES = 3  # the body, the decoded text and the strings of the parsed object


async def read(request: Request, *, limit_bytes: int) -> bytes:
    """Return the whole body. Raises `TooLarge` without reading one that declares a larger size."""
    data = bytearray()
    async for part in parts(request, limit_bytes=limit_bytes):
        data += part
    return bytes(data)


async def parts(request: Request, *, limit_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. `transfer_limits` bounds the time."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit_bytes:
        raise _too_large(limit_bytes)
    size_bytes = 0
    try:
        async for part in request.stream():
            size_bytes += len(part)
            if size_bytes > limit_bytes:
                raise _too_large(limit_bytes)
            yield part
    except ClientDisconnect:
        raise ClientGone("the client disconnected") from None


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"the request is larger than {limit_bytes:,} bytes", "send less at a time")


# --- shape ----------------------------------------------------------------------------------------


def check_shape(data: bytes) -> int:
    """Check the nesting of JSON text before it is parsed; return the bytes that parsing may take.

    Deep nesting breaks the code that serializes the value again, and many small lists take a
    hundred times the memory of their text. Raises `InvalidRequest`.
    """
    containers = data.count(b"[") + data.count(b"{")
    commas = data.count(b",")
    if containers > _MAX_LEVELS or commas > _MAX_COMMAS:
        structure = _structure(data)
        containers = structure.count(b"[") + structure.count(b"{")
        commas = structure.count(b",")
        if containers > _MAX_CONTAINERS or _levels(structure) > _MAX_LEVELS:
            raise InvalidRequest(
                f"the JSON has more than {_MAX_LEVELS} levels, or more than {_MAX_CONTAINERS:,} "
                "lists and objects",
                "send a flat object, or less at a time",
            )
    return (
        _TEXT_COPIES * len(data)
        + _BYTES_PER_CONTAINER * containers
        + _BYTES_PER_VALUE * (containers + commas)
    )


def _structure(data: bytes) -> bytes:
    """The brackets and commas of JSON text outside its strings. Stops early if there are too many
    lists and objects."""
    rest = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = bytearray()
    while rest:
        pieces = rest.split(b'"', _QUOTES_AT_ONCE)
        rest = pieces.pop() if len(pieces) > _QUOTES_AT_ONCE else b""
        structure += b"".join(pieces[::2]).translate(None, _NOT_STRUCTURE)
        if structure.count(b"[") + structure.count(b"{") > _MAX_CONTAINERS:
            break
    return bytes(structure)


def _levels(structure: bytes) -> int:
    """How deep the brackets are nested."""
    level = deepest = 0
    for byte in structure.translate(None, b","):
        if byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        else:
            level -= 1
    return deepest


def parse_object(data: bytes) -> JsonDict:
    """Parse a JSON object whose shape was checked. Raises `InvalidRequest` for any other value, for
    NaN and infinity, and for text that is not valid Unicode."""
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()  # fails on lone surrogates
    except RecursionError:
        raise InvalidRequest("the JSON is nested too deeply", "send a flat object") from None
    except ValueError as error:  # invalid JSON or invalid UTF-8
        raise InvalidRequest(f"the body is not JSON: {error}", "send a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidRequest(
            f"the body is not an object but a {type(value).__name__}", "send a JSON object"
        )
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


# --- fields ---------------------------------------------------------------------------------------

_TYPE_NAMES = {str: "a string", bool: "true or false", int: "an integer", dict: "an object",
               list: "a list of strings"}  # fmt: skip


def check_fields(
    data: Mapping[str, Any], types: Mapping[str, type], required: Iterable[str] = ()
) -> JsonDict:
    """Return `data` without nulls. Raises `InvalidRequest` for an unknown field, a value that does
    not have its type in `types`, or a missing `required` field. Lists hold strings."""
    for name, value in data.items():
        if name not in types:
            known = ", ".join(types)
            raise InvalidRequest(f"unknown field {short_repr(name)}", f"fields: {known}")
        if value is not None and not _has_type(value, types[name]):
            raise InvalidRequest(
                f"{name} cannot be {short_repr(value)}", f"send {_TYPE_NAMES[types[name]]}"
            )
    fields = {name: value for name, value in data.items() if value is not None}
    for name in required:
        if name not in fields:
            raise InvalidRequest(f"the field {name} is missing", f"send {name}")
    return fields


def _has_type(value: Any, expected: type) -> bool:
    if isinstance(value, bool):
        return expected is bool
    if expected is list:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, expected)
