"""Token vectors as stored: a short header, then a row of codes for each token.

    format (1 byte), dimension (uint16), count (uint32), rows; little-endian

Rows are directions: each is at length 1 on the way in and made so again on the way out, so no
scale is kept. What a row of `d` numbers takes, and how close (cosine, random directions) it stays:

    float32   4 d   1
    float16   2 d   1.000
    int8        d   1.000   127 steps up to the row's largest number
    2-bit   d / 4   0.94    four levels, those that fit a normal distribution best
    1-bit   d / 8   0.80    signs
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kb.errors import StoreUnusable, check_choice
from kb.index import token_codes_plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.types import TokenVectors

    Rows = NDArray[np.float32]
    Bytes = NDArray[np.uint8]

FORMATS = ("float32", "float16", "int8", "2-bit", "1-bit")  # the format byte is the place here
DEFAULT = "2-bit"
_HEADER = struct.Struct("<BHI")
_BITS = {"float32": 32, "float16": 16, "int8": 8, "2-bit": 2, "1-bit": 1}
# Lloyd and Max: the best four levels for a normal distribution, in standard deviations.
_MIDDLE, _LEVELS = 0.9816, (-1.5104, -0.4528, 0.4528, 1.5104)


def row_bytes(dimension: int, form: str) -> int:
    """What a token takes."""
    return (dimension * _BITS[check_choice("format", form, FORMATS)] + 7) // 8


def header(form: str, dimension: int, count: int) -> bytes:
    return _HEADER.pack(FORMATS.index(form), dimension, count)


def encode(vectors: TokenVectors, form: str = DEFAULT) -> bytes:
    import numpy as np

    check_choice("format", form, FORMATS)
    rows = np.frombuffer(vectors.data, np.float32).reshape(-1, vectors.dimension)
    written: bytes = _ENCODERS[form](rows).tobytes()
    return header(form, vectors.dimension, len(rows)) + written


def decode(data: bytes) -> TokenVectors:
    return decode_all([data])[0]


def decode_all(every: Sequence[bytes]) -> list[TokenVectors]:
    """Those of many passages. What numpy costs a call is then paid once: of 100 passages 3 ms
    where it was 14, one after the other."""
    heads = [parts(data) for data in every]
    if len({head[:2] for head in heads}) > 1:  # written under several settings
        return [decode(data) for data in every]
    if not every:
        return []
    form, dimension, _ = heads[0]
    if not _numpy():
        width = row_bytes(dimension, form)
        return [token_codes_plain.vectors(data[_HEADER.size :], form, dimension, width, _LEVELS)
                for data in every]  # fmt: skip
    rows = _rows(b"".join(data[_HEADER.size :] for data in every), form, dimension)
    places = [0]
    for head in heads:
        places.append(places[-1] + head[2])
    return [_vectors(rows[start:end]) for start, end in pairwise(places)]


def _numpy() -> bool:
    try:
        import numpy  # noqa: F401  # whether it is there
    except ImportError:
        return False
    return True


def _vectors(rows: Rows) -> TokenVectors:
    from kb.types import TokenVectors

    values = array("f")
    values.frombytes(rows.tobytes())
    return TokenVectors(rows.shape[1], values)


def decoded(data: bytes) -> Rows:
    """The rows as a matrix of float32, each at length 1."""
    form, dimension, _ = parts(data)
    return _rows(data[_HEADER.size :], form, dimension)


def _rows(codes: bytes, form: str, dimension: int) -> Rows:
    import numpy as np

    width = row_bytes(dimension, form)
    rows: Rows = _DECODERS[form](np.frombuffer(codes, np.uint8).reshape(-1, width), dimension)
    return rows if form == "float32" else _unit(rows)


def parts(data: bytes) -> tuple[str, int, int]:
    """Format, dimension and count; `StoreUnusable` if these are not the bytes of an `encode`."""
    if len(data) >= _HEADER.size:
        number, dimension, count = _HEADER.unpack_from(data)
        if number < len(FORMATS) and dimension > 0:
            wanted = _HEADER.size + count * row_bytes(dimension, FORMATS[number])
            if len(data) == wanted:
                return FORMATS[number], dimension, count
    raise StoreUnusable("stored token vectors are damaged", "mend them with: kb doctor --fix")


def _unit(rows: Rows) -> Rows:
    import numpy as np

    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    lengths[lengths == 0] = 1.0
    scaled: Rows = (rows / lengths).astype(np.float32, copy=False)
    return scaled


# --- floats ---------------------------------------------------------------------------------------


def _floats_out(code: str) -> Any:
    def encode_rows(rows: Rows) -> Any:
        return rows.astype(code)

    return encode_rows


def _floats_in(code: str) -> Any:
    def decode_rows(codes: Bytes, dimension: int) -> Any:
        import numpy as np

        return codes.view(code).reshape(-1, dimension).astype(np.float32)

    return decode_rows


# --- codes ----------------------------------------------------------------------------------------


def _int8_out(rows: Rows) -> Any:
    import numpy as np

    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return np.rint(rows * (127 / np.where(largest > 0, largest, 1.0))).astype(np.int8)


def _int8_in(codes: Bytes, dimension: int) -> Any:
    import numpy as np

    return codes.view(np.int8)[:, :dimension].astype(np.float32)


def _two_bits_out(rows: Rows) -> Any:
    """0 to 3 for each number, four to a byte, the first in the lowest bits."""
    import numpy as np

    deviation = np.sqrt((rows * rows).mean(axis=1, keepdims=True))
    cut = _MIDDLE * deviation
    codes = (rows >= 0).astype(np.uint8) + (rows >= -cut) + (rows >= cut)
    padded = np.zeros((len(rows), row_bytes(rows.shape[1], "2-bit") * 4), np.uint8)
    padded[:, : rows.shape[1]] = codes
    quads = padded.reshape(len(rows), padded.shape[1] // 4, 4)
    return (quads << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8)


def _two_bits_in(codes: Bytes, dimension: int) -> Any:
    """By a table of what each byte means. Its four numbers are looked up as one of 16 bytes, which
    is five times faster than as four."""
    import numpy as np

    found = _four_of_each_byte().take(codes.reshape(-1)).view(np.float32)
    return found.reshape(len(codes), codes.shape[1] * 4)[:, :dimension]


@lru_cache(1)
def _four_of_each_byte() -> Any:
    import numpy as np

    every = np.arange(256, dtype=np.uint8)[:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return np.array(_LEVELS, np.float32)[every].view(np.complex128).reshape(256)


def _signs_out(rows: Rows) -> Any:
    import numpy as np

    return np.packbits(rows >= 0, axis=1, bitorder="little")


def _signs_in(codes: Bytes, dimension: int) -> Any:
    import numpy as np

    bits = np.unpackbits(codes, axis=1, count=dimension, bitorder="little")
    return bits.astype(np.float32) * 2 - 1


_ENCODERS = {
    "float32": _floats_out("<f4"), "float16": _floats_out("<f2"), "int8": _int8_out,
    "2-bit": _two_bits_out, "1-bit": _signs_out,
}  # fmt: skip
_DECODERS = {
    "float32": _floats_in("<f4"), "float16": _floats_in("<f2"), "int8": _int8_in,
    "2-bit": _two_bits_in, "1-bit": _signs_in,
}  # fmt: skip
