"""Limits on metadata, tags and languages, and the check of metadata that a caller passes. Pure.

All entry points use this check, so that a value stored through one is valid for the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kb.errors import InvalidRequest, check_text, short_repr
from kb.types import JsonDict

METADATA_DEPTH = 32  # of nested lists and objects, as in front matter
METADATA_BYTES = 64 << 10
LEGACY_METADATA_BYTES = 1 << 20  # in older stores and their exports
# The size of tags and metadata in one page of a list; they take far more memory once parsed.
PAGE_BYTES = 1 << 20
TAG_CHARS = 200
MAX_TAGS = 1_000  # of one document, or in one call
TITLE_CHARS = 500  # of a file; the title is stored with every passage
LANG_CHARS = 35  # the longest language tag that BCP 47 requires support for
LEGACY_TEXT_CHARS = 64 << 10  # of a tag or a language in older stores
LEGACY_TAGS = 32 << 10
_NUMBERS = 1 << 63


def check_metadata(value: object, *, stored: bool = False) -> JsonDict:
    """Return `value` as plain JSON values.

    Raises `InvalidRequest` if it is not an object, not JSON, nested deeper than `METADATA_DEPTH`,
    longer than `METADATA_BYTES`, or has numbers that some JSON readers cannot represent. Values
    already `stored` may have `LEGACY_METADATA_BYTES` and long integers.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"metadata has type {type(value).__name__}", "use an object")
    plain: JsonDict = _object(value, 1, stored)
    limit = LEGACY_METADATA_BYTES if stored else METADATA_BYTES
    if size_of(plain) > limit:
        raise InvalidRequest(
            f"metadata is longer than {limit:,} bytes", "put the data into the text"
        )
    return plain


def size_of(plain: JsonDict) -> int:
    """The size in bytes of the JSON that the store writes."""
    return len(json.dumps(plain, ensure_ascii=False).encode())


def _object(value: Mapping[Any, Any], depth: int, stored: bool) -> JsonDict:
    _check_depth(depth)
    return {
        check_text("a metadata key", key): _plain(each, depth, stored)
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
        f"metadata cannot hold {short_repr(value)}", "use strings, numbers, lists and objects"
    )


def _check_depth(depth: int) -> None:
    if depth > METADATA_DEPTH:
        raise InvalidRequest(
            f"metadata is nested deeper than {METADATA_DEPTH} levels", "reduce the nesting"
        )


def _number(value: float) -> float:
    """Check that a number is finite and that an integer fits 64 bits, as JSON readers expect."""
    if isinstance(value, int):
        if not -_NUMBERS <= value < _NUMBERS:
            raise InvalidRequest(
                f"metadata cannot hold the number {short_repr(value)}", "use a string instead"
            )
        return value
    if not math.isfinite(value):
        raise InvalidRequest(f"metadata cannot hold {value}", "omit it, or use null")
    return value
