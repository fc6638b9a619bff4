"""Stored token vectors read without numpy: the same numbers, slowly. See `kb.index.token_codes`."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.types import TokenVectors

Numbers = Sequence[float]
Reader = Callable[[bytes], Numbers]


def vectors(codes: bytes, form: str, dimension: int, width: int, levels: Numbers) -> TokenVectors:
    """Rows of `width` bytes each, every one of them brought to length 1. `levels` are what the four
    codes of two bits mean."""
    from kb.types import TokenVectors

    read = _READERS.get(form) or (
        lambda row: [levels[byte >> shift & 3] for byte in row for shift in (0, 2, 4, 6)]
    )
    found = array("f")
    for start in range(0, len(codes), width):
        row = read(codes[start : start + width])[:dimension]
        found.extend(row if form == "float32" else _unit(row))
    return TokenVectors(dimension, found)


def _floats(code: str) -> Reader:
    size = struct.calcsize(f"<{code}")
    return lambda row: struct.unpack(f"<{len(row) // size}{code}", row)


def _signs(row: bytes) -> Numbers:
    return [2.0 * (byte >> shift & 1) - 1.0 for byte in row for shift in range(8)]


def _unit(row: Numbers) -> Numbers:
    length = math.sqrt(math.fsum(map(mul, row, row))) or 1.0
    return [value / length for value in row]


_READERS: Mapping[str, Reader] = {
    "float32": _floats("f"), "float16": _floats("e"),
    "int8": lambda row: array("b", row), "1-bit": _signs,
}  # fmt: skip
