"""Metadata that a caller brings: a JSON object of bounded depth and size. And how much a document's
tags and language may be. Pure.

Every door checks by this, so that what one of them stores no other stumbles over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kb.errors import InvalidRequest, check_text, short_repr
from kb.types import JsonDict

DEPTH = 32  # of lists and objects in each other, as in front matter
BYTES = 64 << 10
STORED_BYTES = 1 << 20  # what older stores may hold, and their exports
PAGE_BYTES = 1 << 20  # of tags and metadata in one page of a list: parsed, they take many times it
TAG_CHARS = 200
MOST_TAGS = 1_000  # of one document, and of one call
TITLE_CHARS = 500  # of a file; the title is stored with every passage
LANG_CHARS = 35  # the longest language tag that BCP 47 asks to make room for
STORED_CHARS = 64 << 10  # of a tag or a language in older stores: a whole front matter
STORED_TAGS = 32 << 10
_NUMBERS = 1 << 63


def check_metadata(value: object, *, stored: bool = False) -> JsonDict:
    """`value` as the plain object that JSON makes of it. Raises `InvalidRequest` for what is no
    object, not JSON, nested deeper than `DEPTH`, longer than `BYTES`, or has numbers that not every
    reader of JSON can hold. What is `stored` already may be as long as `STORED_BYTES`, and have
    long numbers."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"metadata is a {type(value).__name__}", "give an object")
    plain: JsonDict = _object(value, 1, stored)
    most = STORED_BYTES if stored else BYTES
    if size_of(plain) > most:
        raise InvalidRequest(f"metadata is longer than {most:,} bytes", "put it into the text")
    return plain


def size_of(plain: JsonDict) -> int:
    """Its bytes as JSON, as the store writes it."""
    return len(json.dumps(plain, ensure_ascii=False).encode())


def _object(value: Mapping[Any, Any], depth: int, stored: bool) -> JsonDict:
    _check_depth(depth)
    return {
        check_text("a key of metadata", key): _plain(each, depth, stored)
        for key, each in value.items()
    }


def _plain(value: object, depth: int, stored: bool) -> Any:
    if isinstance(value, str):
        return check_text("metadata", value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if stored and isinstance(value, int) else _number(value)
    if isinstance(value, Mapping):
        return _object(value, depth + 1, stored)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        _check_depth(depth + 1)
        return [_plain(each, depth + 1, stored) for each in value]
    raise InvalidRequest(
        f"metadata cannot hold {short_repr(value)}", "use texts, numbers, lists and objects"
    )


def _check_depth(depth: int) -> None:
    if depth > DEPTH:
        raise InvalidRequest(f"metadata is nested deeper than {DEPTH} levels", "nest it less")


def _number(value: float) -> float:
    """A finite one; whole ones of 64 bits, which every reader of JSON can hold."""
    if isinstance(value, int):
        if not -_NUMBERS <= value < _NUMBERS:
            raise InvalidRequest(
                f"metadata cannot hold the number {short_repr(value)}", "give it as a text"
            )
        return value
    if not math.isfinite(value):
        raise InvalidRequest(f"metadata cannot hold {value}", "leave it out, or use null")
    return value
