"""Arrays in a file beside the store, which a new process maps into memory instead of reading every
row. The file is derived data, and the store always wins.

    4096 bytes   header: JSON, padded with spaces; its first line is its checksum
    the arrays   one after another, each at a multiple of 8 bytes

A file that is missing, truncated, damaged, or from another store or machine is not an error: the
arrays are then built from the store. The checksums detect only accidents. So a reader also checks
that the arrays have the right types and that no number in them points outside another array; `kb
doctor` finds numbers that are merely wrong.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kb.errors import KbError
from kb.regular_files import open_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_BYTES = 4096
_ALIGNMENT = 8
_DTYPES = ("i1", "u1", "u2", "i4", "u4", "i8", "f4")
_DAMAGED = (
    OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError,
    RecursionError,
)  # fmt: skip

T = TypeVar("T")


class Content(NamedTuple):
    """The metadata of a file, as JSON values, and its arrays by name."""

    about: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def identity(path: Path) -> tuple[int, ...] | None:
    """A value that changes if the file is replaced or written in place; None if there is no file.
    Compare it before using mapped arrays: reading beyond the end of a shortened file would kill the
    process."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def read(path: Path, kind: str, parse: Callable[[Content], T | None]) -> T | None:
    """The content of a file, converted by `parse`; None unless the file is complete and of this
    kind. An error that `parse` raises means that the file is damaged. The arrays are mapped, not
    copied."""
    # The folder may come from another machine: opening a pipe must not block.
    with suppress(*_DAMAGED), open_file(path, links="follow") as file:
        header = _parse(file.head(_HEADER_BYTES), kind)
        content = _map(file.descriptor, header)
        return None if content is None else parse(content)
    return None


def check_array(content: Content, name: str, dtype: str, *shape: int) -> NDArray[Any]:
    """The array, if it has this type and shape. Raises `ValueError`; -1 is any length."""
    array = content.arrays[name]
    expected = [have if want < 0 else want for have, want in zip(array.shape, shape, strict=True)]
    if array.dtype.str[1:] != dtype or list(array.shape) != expected:
        raise ValueError(name)
    return array


def check_ascending(array: NDArray[Any]) -> None:
    """Raise `ValueError` unless the numbers ascend strictly."""
    if not bool((array[1:] > array[:-1]).all()):
        raise ValueError("not ascending")


def check_bounds(array: NDArray[Any], *, first: int, last: int) -> None:
    """Raise `ValueError` unless the numbers ascend strictly, from at least `first` to `last`."""
    check_ascending(array)
    if len(array) and (int(array[0]) < first or int(array[-1]) != last):
        raise ValueError("out of bounds")


def check_numbers(values: Any, count: int) -> list[int]:
    """The values, if they are `count` 64-bit integers. Raises `ValueError`."""
    if len(values) != count or not all(
        type(each) is int and -(1 << 63) <= each < 1 << 63 for each in values
    ):
        raise ValueError("not numbers")
    return list(values)


def write(path: Path, kind: str, content: Content, *, like: Path) -> bool:
    """Write a file atomically, with the permissions of the file `like`. Returns False if that is
    not possible."""
    import shutil  # not needed for reading

    import numpy as np

    from kb import atomic

    arrays = {name: np.ascontiguousarray(array) for name, array in content.arrays.items()}
    header = {
        "about": dict(content.about),
        "arrays": {
            name: [array.dtype.str, list(array.shape), _checksum(array)]
            for name, array in arrays.items()
        },
    }
    try:
        with atomic.atomic_path(path, overwrite=True) as part, open(part, "wb") as file:
            file.write(_format(header, kind))
            for array in arrays.values():
                array.tofile(file)
                file.write(bytes(-array.nbytes % _ALIGNMENT))
            shutil.copymode(like, part)  # the file is as private as the store
    except (OSError, KbError):  # no permission, no space, or mapped by another process on Windows
        return False
    return True


def _format(header: dict[str, Any], kind: str) -> bytes:
    body = json.dumps(header).encode()
    first = f"{_first_line(kind)} {zlib.crc32(body):08x}\n".encode()
    return (first + body).ljust(_HEADER_BYTES - 1) + b"\n"


def _parse(raw: bytes, kind: str) -> Any:
    first, _, rest = raw.partition(b"\n")
    body = rest.rstrip()
    if len(raw) != _HEADER_BYTES or first.decode() != f"{_first_line(kind)} {zlib.crc32(body):08x}":
        raise ValueError("not a header")
    return json.loads(body)


def _first_line(kind: str) -> str:
    return f"kb-{kind}.v4.{sys.byteorder}"


def _map(handle: int, header: Any) -> Content | None:
    import mmap

    import numpy as np

    data = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    arrays, at = {}, _HEADER_BYTES
    for name, (kind, shape, checksum) in header["arrays"].items():
        dtype = np.dtype(kind[1:] if kind[1:] in _DTYPES else "V")
        if dtype.str != kind:
            raise ValueError(kind)
        array = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        if _checksum(array) != checksum:
            return None
        arrays[name] = array
        at += array.nbytes + -array.nbytes % _ALIGNMENT
    return Content(header["about"], arrays) if len(data) == at else None


def _checksum(array: NDArray[Any]) -> int:
    """The sum of the array as 64-bit numbers, plus that of the remaining bytes."""
    import numpy as np

    raw = array.reshape(-1).view(np.uint8)
    whole = len(raw) // 8 * 8
    total = int(np.add.reduce(raw[:whole].view(np.uint64), dtype=np.uint64))
    return (total + int.from_bytes(raw[whole:].tobytes(), "little")) % (1 << 64)
