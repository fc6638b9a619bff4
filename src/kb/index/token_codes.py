"""Quantized token vectors: a short header, then a row of codes for each token.

    format (1 byte), dimension (uint16), count (uint32), rows; little-endian

Rows are normalized before encoding and after decoding, so no scale is stored. The bytes of a row
of `d` numbers, and the mean cosine of original and decoded rows in random directions:

    float32   4 d   1
    float16   2 d   1.000
    int8        d   1.000   127 steps up to the row's largest value
    2-bit   d / 4   0.94    the four levels that fit a normal distribution best
    1-bit   d / 8   0.80    signs
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kb.errors import StoreUnusable, check_choice
from kb.index.normalize import normalize
from kb.index.normalize_arrays import normalize_decoded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.types import TokenVectors

    Rows = NDArray[np.float32]
    Bytes = NDArray[np.uint8]

FORMATS = ("float32", "float16", "int8", "2-bit", "1-bit")  # the format byte is an index into this
DEFAULT = "2-bit"
_HEADER = struct.Struct("<BHI")
_BITS = {"float32": 32, "float16": 16, "int8": 8, "2-bit": 2, "1-bit": 1}
# Lloyd and Max: the best four levels for a normal distribution, in standard deviations.
_MIDDLE, _LEVELS = 0.9816, (-1.5104, -0.4528, 0.4528, 1.5104)


def row_bytes(dimension: int, form: str) -> int:
    """The size of one token's row."""
    return (dimension * _BITS[check_choice("format", form, FORMATS)] + 7) // 8


def header(form: str, dimension: int, count: int) -> bytes:
    """The header of `count` rows."""
    return _HEADER.pack(FORMATS.index(form), dimension, count)


def encode(vectors: TokenVectors, form: str = DEFAULT) -> bytes:
    """Quantize the vectors of one passage."""
    import numpy as np

    check_choice("format", form, FORMATS)
    rows = np.frombuffer(vectors.data, np.float32).reshape(-1, vectors.dimension)
    codes: bytes = _ENCODERS[form](rows).tobytes()
    return header(form, vectors.dimension, len(rows)) + codes


def decode(data: bytes) -> TokenVectors:
    """Read the vectors of one passage."""
    return decode_all([data])[0]


def decode_all(blobs: Sequence[bytes]) -> list[TokenVectors]:
    """Read the vectors of many passages. A single call of numpy takes 3 ms for 100 passages; a call
    for each passage takes 14 ms."""
    headers = [parse_header(data) for data in blobs]
    if len({header[:2] for header in headers}) > 1:  # written with different settings
        return [decode(data) for data in blobs]
    if not blobs:
        return []
    form, dimension, _ = headers[0]
    if not _has_numpy():
        return [_decode_plain(data[_HEADER.size :], form, dimension) for data in blobs]
    rows = _rows(b"".join(data[_HEADER.size :] for data in blobs), form, dimension)
    starts = [0]
    for header in headers:
        starts.append(starts[-1] + header[2])
    return [_vectors(rows[start:end]) for start, end in pairwise(starts)]


def _has_numpy() -> bool:
    try:
        import numpy  # noqa: F401  # checks for it
    except ImportError:
        return False
    return True


def _vectors(rows: Rows) -> TokenVectors:
    """The rows as they are in memory: a search reads megabytes of them."""
    from kb.types import TokenVectors

    return TokenVectors(rows.shape[1], rows.reshape(-1).data)


def decode_rows(data: bytes) -> Rows:
    """Read the vectors of one passage as a matrix of normalized rows."""
    form, dimension, _ = parse_header(data)
    return _rows(data[_HEADER.size :], form, dimension)


def _rows(codes: bytes, form: str, dimension: int) -> Rows:
    import numpy as np

    width = row_bytes(dimension, form)
    decoded = _DECODERS[form](np.frombuffer(codes, np.uint8).reshape(-1, width), dimension)
    rows: Rows = np.ascontiguousarray(decoded)
    return rows if form == "float32" else normalize_decoded(rows)


def parse_header(data: bytes) -> tuple[str, int, int]:
    """The format, dimension and count. Raises `StoreUnusable` if the data is damaged."""
    if len(data) >= _HEADER.size:
        number, dimension, count = _HEADER.unpack_from(data)
        if number < len(FORMATS) and dimension > 0:
            expected = _HEADER.size + count * row_bytes(dimension, FORMATS[number])
            if len(data) == expected:
                return FORMATS[number], dimension, count
    raise StoreUnusable("stored token vectors are damaged", "repair them with: kb doctor --fix")


# --- floats ---------------------------------------------------------------------------------------


def _encode_floats(code: str) -> Any:
    def encode_rows(rows: Rows) -> Any:
        return rows.astype(code)

    return encode_rows


def _decode_floats(code: str) -> Any:
    def decode_rows(codes: Bytes, dimension: int) -> Any:
        import numpy as np

        return codes.view(code).reshape(-1, dimension).astype(np.float32)

    return decode_rows


# --- codes ----------------------------------------------------------------------------------------


def _encode_int8(rows: Rows) -> Any:
    import numpy as np

    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return np.rint(rows * (127 / np.where(largest > 0, largest, 1.0))).astype(np.int8)


def _decode_int8(codes: Bytes, dimension: int) -> Any:
    import numpy as np

    return codes.view(np.int8)[:, :dimension].astype(np.float32)


def _encode_2_bit(rows: Rows) -> Any:
    """Four codes of 0 to 3 in each byte, the first in the lowest bits."""
    import numpy as np

    deviation = np.sqrt((rows * rows).mean(axis=1, keepdims=True))
    cut = _MIDDLE * deviation
    codes = (rows >= 0).astype(np.uint8) + (rows >= -cut) + (rows >= cut)
    padded = np.zeros((len(rows), row_bytes(rows.shape[1], "2-bit") * 4), np.uint8)
    padded[:, : rows.shape[1]] = codes
    quads = padded.reshape(len(rows), padded.shape[1] // 4, 4)
    return (quads << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8)


def _decode_2_bit(codes: Bytes, dimension: int) -> Any:
    """Look up each byte in a table. One lookup of 16 bytes is five times faster than four lookups
    of one number."""
    import numpy as np

    values = _values_of_bytes().take(codes.reshape(-1)).view(np.float32)
    return values.reshape(len(codes), codes.shape[1] * 4)[:, :dimension]


@lru_cache(1)
def _values_of_bytes() -> Any:
    """The four numbers that each byte encodes, as one value of 16 bytes."""
    import numpy as np

    every = np.arange(256, dtype=np.uint8)[:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return np.array(_LEVELS, np.float32)[every].view(np.complex128).reshape(256)


def _encode_signs(rows: Rows) -> Any:
    import numpy as np

    return np.packbits(rows >= 0, axis=1, bitorder="little")


def _decode_signs(codes: Bytes, dimension: int) -> Any:
    import numpy as np

    bits = np.unpackbits(codes, axis=1, count=dimension, bitorder="little")
    return bits.astype(np.float32) * 2 - 1


_ENCODERS = {
    "float32": _encode_floats("<f4"), "float16": _encode_floats("<f2"), "int8": _encode_int8,
    "2-bit": _encode_2_bit, "1-bit": _encode_signs,
}  # fmt: skip
_DECODERS = {
    "float32": _decode_floats("<f4"), "float16": _decode_floats("<f2"), "int8": _decode_int8,
    "2-bit": _decode_2_bit, "1-bit": _decode_signs,
}  # fmt: skip

# --- without numpy --------------------------------------------------------------------------------


_Numbers = Sequence[float]
_RowReader = Callable[[bytes], _Numbers]


def _decode_plain(codes: bytes, form: str, dimension: int) -> TokenVectors:
    from kb.types import TokenVectors

    width, read = row_bytes(dimension, form), _ROW_READERS[form]
    values = array("f")
    for start in range(0, len(codes), width):
        row = read(codes[start : start + width])[:dimension]
        values.extend(row if form == "float32" or not any(row) else normalize(row))
    return TokenVectors(dimension, values)


def _read_floats(code: str) -> _RowReader:
    size = struct.calcsize(f"<{code}")
    return lambda row: struct.unpack(f"<{len(row) // size}{code}", row)


def _read_2_bit(row: bytes) -> _Numbers:
    return [_LEVELS[byte >> shift & 3] for byte in row for shift in (0, 2, 4, 6)]


def _read_signs(row: bytes) -> _Numbers:
    return [2.0 * (byte >> shift & 1) - 1.0 for byte in row for shift in range(8)]


_ROW_READERS: Mapping[str, _RowReader] = {
    "float32": _read_floats("f"), "float16": _read_floats("e"),
    "int8": lambda row: array("b", row), "2-bit": _read_2_bit, "1-bit": _read_signs,
}  # fmt: skip
