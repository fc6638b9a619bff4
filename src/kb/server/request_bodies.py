"""What clients send, read within limits of size."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from kb.errors import ClientGone, InvalidRequest, TooLarge, short_repr
from kb.types import JsonDict

_MOST_LEVELS = 64
_MOST_LISTS = 10_000


async def read(request: Request, *, limit_bytes: int) -> bytes:
    """The whole body. One whose length is above the limit is not read at all."""
    data = bytearray()
    async for part in parts(request, limit_bytes=limit_bytes):
        data += part
    return bytes(data)


async def parts(request: Request, *, limit_bytes: int) -> AsyncIterator[bytes]:
    """The body as it arrives. How long that may take is for `traffic` to say."""
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
        raise ClientGone("the client has gone") from None


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"the request is larger than {limit_bytes:,} bytes", "send less at a time")


def parse_object(data: bytes) -> JsonDict:
    """A JSON object: no other value, no NaN, nothing that is not text."""
    try:
        value = json.loads(data, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()  # halves of characters have no bytes
    except RecursionError:
        raise InvalidRequest("the JSON is nested too deeply", "send a flat object") from None
    except ValueError as error:  # of JSON and of UTF-8
        raise InvalidRequest(f"the body is not JSON: {error}", "send a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body is a {type(value).__name__}", "send a JSON object")
    if data.count(b"[") + data.count(b"{") > _MOST_LEVELS:
        _check_shape(value)
    return value


def _check_shape(value: JsonDict) -> None:
    """What is nested deeply breaks whoever writes it out again; and many small lists take a hundred
    times the memory of their text."""
    levels, count, level = 0, 0, list[Any]([value])
    while level:
        levels, count = levels + 1, count + len(level)
        if levels > _MOST_LEVELS or count > _MOST_LISTS:
            raise InvalidRequest(
                f"the JSON has more than {_MOST_LEVELS} levels, or more than {_MOST_LISTS:,} lists "
                "and objects",
                "send a flat object, or less at a time",
            )
        inner = [
            one for each in level for one in (each.values() if isinstance(each, dict) else each)
        ]
        level = [one for one in inner if isinstance(one, dict | list)]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_NAMES = {str: "a text", bool: "true or false", int: "a whole number", dict: "an object",
          list: "a list of texts"}  # fmt: skip


def fields_of(
    data: Mapping[str, Any], shapes: Mapping[str, type], needed: Iterable[str] = ()
) -> JsonDict:
    """`data` without its nulls, if it has the fields of `shapes` and no others. Lists are of
    texts."""
    for name, value in data.items():
        if name not in shapes:
            known = ", ".join(shapes)
            raise InvalidRequest(f"there is no field {short_repr(name)}", f"fields: {known}")
        if value is not None and not _fits(value, shapes[name]):
            raise InvalidRequest(
                f"{name} cannot be {short_repr(value)}", f"it is {_NAMES[shapes[name]]}"
            )
    given = {name: value for name, value in data.items() if value is not None}
    for name in needed:
        if name not in given:
            raise InvalidRequest(f"there is no {name}", f"{name} is needed")
    return given


def _fits(value: Any, shape: type) -> bool:
    if isinstance(value, bool):
        return shape is bool
    if shape is list:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, shape)
