"""Sparse vectors as text, as bytes and as numbers, without numpy.

Weights are stored with three significant digits and used as float32: further digits change no
ranking (docs/decisions/0047), and would make the text a quarter longer. A score is the sum of
weight times query weight in float64, in the order of the terms, so that every backend computes the
same score.

As bytes, a vector takes less than half of its text, and has the same weights:

    1 byte    1, the version of the format
    2 bytes   the number of terms, little-endian
    2 each    weights, as (first three digits - 100) * 72 + exponent + 40
    the rest  the terms in order, separated by zeros, deflated
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from array import array
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, ModelBroken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Weights = dict[str, float]
Stored = str | bytes  # a sparse vector as a store has it: a JSON object, or what `compress` returns

_FORMAT = 1
_HEADER_BYTES = 3
_LEAST, _EXPONENTS, _LOWEST = 100, 72, -40  # of a weight's digits, and of its exponent
_MAX_EXACT_POWER = 22  # powers of ten up to this one are exact in float64
_FEW_CODES = 32  # looking up fewer is faster without numpy
_MAX_TERMS = (1 << 16) - 1
_MAX_BYTES = 1 << 24  # of all terms of a vector
_SEPARATOR = "\0"


def to_text(weights: Mapping[str, float]) -> str:
    """Serialize weights as a JSON object, without terms of weight zero. Raises `ModelBroken`."""
    rounded = {term: float(f"{weight:.3g}") for term, weight in weights.items()}
    as_float32 = array("f", rounded.values())
    if not all(0 <= weight < math.inf for weight in as_float32):  # false for a NaN
        raise ModelBroken(
            "a sparse vector has weights that are negative or not finite", "check the model's files"
        )
    pairs = zip(rounded.items(), as_float32, strict=True)
    return json.dumps(
        {term: decimal for (term, decimal), weight in pairs if weight},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def compress(text: str) -> Stored:
    """The text of `to_text` as bytes, with the same weights; the text itself if that is not
    possible."""
    weights: Weights = json.loads(text)
    codes = [_code(weights[term]) for term in sorted(weights)]
    terms = _SEPARATOR.join(sorted(weights))
    if not 0 < len(codes) <= _MAX_TERMS or terms.count(_SEPARATOR) != len(codes) - 1:
        return text
    if None in codes or len(terms) > _MAX_BYTES // 4:
        return text
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    try:
        packed = deflate.compress(terms.encode()) + deflate.flush()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can have
        return text
    numbers = array("H", [code for code in codes if code is not None])
    return bytes([_FORMAT]) + pack(array("H", [len(codes)])) + pack(numbers) + packed


def _code(weight: float) -> int | None:
    """A weight of three significant digits as a number below 2^16."""
    digits, _, exponent = f"{weight:.2e}".partition("e")
    value, power = int(digits.replace(".", "")), int(exponent) - 2 - _LOWEST
    if not 0 <= power < _EXPONENTS or not value >= _LEAST or float(f"{weight:.3g}") != weight:
        return None
    return (value - _LEAST) * _EXPONENTS + power


@lru_cache(1 << 16)
def code_of(weight: float) -> int | None:
    """The code of a float32 weight; None if it has more than three significant digits, or is so
    small or large that no model gives it."""
    if not 0 < weight < math.inf:
        return None
    code = _code(float(f"{weight:.3g}"))
    if code is None or abs(code % _EXPONENTS + _LOWEST) > _MAX_EXACT_POWER:
        return None
    return code if array("f", [_decimal(code)])[0] == weight else None


def weights_of(codes: array[int]) -> array[float]:
    """The float32 weights of codes that `code_of` returned."""
    if len(codes) < _FEW_CODES or sys.modules.get("numpy") is None:
        return array("f", map(_decimal, codes))
    import numpy as np

    return array("f", _weight_table().take(np.array(codes, np.uint16)).tobytes())


@cache
def _weight_table() -> NDArray[np.float32]:
    """The weight of each code. Powers of ten up to 10^22 are exact, so that a product is rounded
    once, as by `float`."""
    import numpy as np

    digits = np.arange(_LEAST, _LEAST + (1 << 16) // _EXPONENTS + 1, dtype=np.float64)
    table = np.zeros((len(digits), _EXPONENTS), np.float32)
    for exponent in range(-_MAX_EXACT_POWER, _MAX_EXACT_POWER + 1):
        power = 10.0 ** abs(exponent)
        table[:, exponent - _LOWEST] = digits * power if exponent >= 0 else digits / power
    return table.reshape(-1)


@cache  # of at most 64,800 codes
def _decimal(code: int) -> float:
    value, power = divmod(code, _EXPONENTS)
    return float(f"{value + _LEAST}e{power + _LOWEST}")


def decimals(stored: Stored) -> Weights:
    """The weights as they were written, not as float32. Raises `ValueError` if `stored` is not the
    output of `to_text` or `compress`."""
    if isinstance(stored, bytes):
        return _decompress(stored)
    data = json.loads(stored)
    if not isinstance(data, dict) or not all(
        type(weight) in (int, float) for weight in data.values()
    ):
        raise ValueError("not an object of numbers")
    return data


def _decompress(data: bytes) -> Weights:
    if data[:1] != bytes([_FORMAT]) or len(data) < _HEADER_BYTES:
        raise ValueError("not a sparse vector")
    (count,) = unpack("H", data[1:_HEADER_BYTES])
    end = _HEADER_BYTES + 2 * count
    codes = unpack("H", data[_HEADER_BYTES:end])
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        terms = inflate.decompress(data[end:], _MAX_BYTES).decode().split(_SEPARATOR)
    except zlib.error as error:
        raise ValueError("damaged terms") from error
    if not inflate.eof or inflate.unused_data or not len(codes) == len(terms) == len({*terms}):
        raise ValueError("terms without weights")
    if max(codes) >= (1000 - _LEAST) * _EXPONENTS:
        raise ValueError("not a weight")
    return dict(zip(terms, map(_decimal, codes), strict=True))


def from_text(text: Stored) -> Weights:
    """Read weights as float32. Raises `ValueError` for what neither `to_text` nor `compress` can
    have written."""
    data = decimals(text)
    weights = array("f", data.values())
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError("a weight is negative or not finite")
    return {term: weight for term, weight in zip(data, weights, strict=True) if weight}


def from_text_or_empty(text: Stored | None) -> Weights:
    """Read weights. Returns none for a damaged vector, which `kb doctor` reports."""
    try:
        return from_text(text or "{}")
    except (ValueError, RecursionError):
        return {}


def query_terms(query: Mapping[str, float]) -> list[tuple[str, float]]:
    """The terms of a query with their weights, without zeros, in the order of summation."""
    if not all(0 <= weight < math.inf for weight in query.values()):
        raise InvalidRequest(
            "the query has weights that are negative or not finite", "encode it again"
        )
    return sorted((term, float(weight)) for term, weight in query.items() if weight)


# --- integers as bytes ----------------------------------------------------------------------------


def pack(numbers: array[int]) -> bytes:
    """Serialize integers, little-endian on every machine."""
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array(numbers.typecode, numbers)
    swapped.byteswap()
    return swapped.tobytes()


def unpack(typecode: str, data: bytes) -> array[int]:
    """Read integers that `pack` wrote."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers
