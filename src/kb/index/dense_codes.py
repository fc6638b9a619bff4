"""Dense vectors in fewer bytes, without any loss and without numpy.

Vectors of length 1 have few different exponents. So all bits are shifted by one (the sign of a
number becomes the lowest bit of the next one), the exponents are deflated, and the other bytes,
which look random, are kept. A vector of 384 numbers takes 1,300 bytes instead of 1,536.

    the most significant byte of each number, deflated
    the least significant bytes of all numbers, then their second, then their third bytes
    a byte 0 if the length would be even: an odd length shows that the numbers are packed
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

_WINDOW = -9  # the smallest window of zlib, without a header; Huffman codes alone need none
_MEMORY = 4  # enough for 1,024 numbers in one block
_MAX_NUMBERS = 1 << 20


def pack(data: bytes) -> bytes:
    """Pack float32 numbers, little-endian. Returns `data` itself if that is not shorter."""
    if not data or len(data) % 4:
        return data
    deflate = zlib.compressobj(
        zlib.Z_BEST_SPEED, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_HUFFMAN_ONLY
    )
    bits = 8 * len(data)
    number = int.from_bytes(data, "little") << 1
    shifted = (number & (1 << bits) - 1 | number >> bits).to_bytes(len(data), "little")
    packed = deflate.compress(shifted[3::4]) + deflate.flush()
    parts = [packed, shifted[0::4], shifted[1::4], shifted[2::4]]
    length = sum(map(len, parts))
    if length % 2 == 0:
        parts.append(b"\0")
    return b"".join(parts) if length + 1 < len(data) else data


def unpack(stored: bytes) -> bytes:
    """The numbers that were packed; no bytes if they are damaged. Data that is not packed is
    returned as it is, and so is a value of another type, which a damaged store may contain."""
    if not isinstance(stored, bytes) or len(stored) % 2 == 0:
        return stored
    top, rest = _split(stored)
    count = len(top)
    if not count:
        return b""
    shifted = bytearray(4 * count)
    shifted[3::4] = top
    for at in range(3):
        shifted[at::4] = rest[at * count : (at + 1) * count]
    number = int.from_bytes(shifted, "little")
    return (number >> 1 | (number & 1) << 32 * count - 1).to_bytes(4 * count, "little")


def unpack_all(stored: Sequence[bytes], dimension: int) -> list[bytes]:
    """`unpack` each of these vectors, which have this dimension. Needs numpy, and takes half the
    time of single calls."""
    import numpy as np

    parts: list[bytes] = []
    places: list[int] = []
    unpacked = list(stored)
    for place, one in enumerate(stored):
        if isinstance(one, bytes) and len(one) % 2:
            top, rest = _split(one)
            if len(top) == dimension:
                parts += (rest[: 3 * dimension], top)
                places.append(place)
            else:
                unpacked[place] = b""
    planes = np.frombuffer(b"".join(parts), np.uint8).reshape(len(places), 4, dimension)
    shifted = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<u4")[:, :, 0]
    numbers = shifted >> 1
    numbers |= np.roll(shifted, -1, axis=1) << 31
    data = numbers.astype("<u4", copy=False).tobytes()
    size = 4 * dimension
    for number, place in enumerate(places):
        unpacked[place] = data[number * size : (number + 1) * size]
    return unpacked


def _split(stored: bytes) -> tuple[bytes, bytes]:
    """The most significant bytes, and the others; nothing if the data is damaged."""
    inflate = zlib.decompressobj(_WINDOW)
    try:
        top = inflate.decompress(stored, _MAX_NUMBERS)
    except zlib.error:
        return b"", b""
    rest = inflate.unused_data
    is_whole = inflate.eof and len(rest) - 3 * len(top) in (0, 1)
    return (top, rest) if is_whole else (b"", b"")
