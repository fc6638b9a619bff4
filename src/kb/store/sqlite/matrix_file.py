"""The matrix of vectors in a file beside the store, which a new process maps into memory instead of
reading every row. The file is derived data, and the store always wins.

    4096 bytes     header: JSON, padded with spaces; its first line is its checksum
    8 per row      chunk ids, ascending
    d * 4 per row  vectors, float32

A file that is missing, truncated, damaged, or from another store, model or machine is not an error:
the matrix is then built from the store.
"""

from __future__ import annotations

import json
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import KbError
from kb.regular_files import open_file
from kb.store.sqlite.embeddings import Mark

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER_BYTES = 4096
_FORMAT = f"kb-vectors.v1.{sys.byteorder}"


class Sidecar(NamedTuple):
    """The content of the file."""

    mark: Mark
    ids: NDArray[np.int64]
    rows: NDArray[np.float32]


class Owner(NamedTuple):
    """The store and the model that the vectors belong to."""

    store_id: str
    model_id: int
    dimension: int


def path_of(store: Path) -> Path:
    """The path of the file: `kb.sqlite-vectors` for `kb.sqlite`."""
    return store.with_name(store.name + "-vectors")


def read(store: Path, owner: Owner) -> Sidecar | None:
    """The content of the file, if it is complete and belongs to this owner. The arrays are mapped,
    not copied."""
    # The folder may come from another machine: opening a pipe must not block.
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        open_file(path_of(store), links="follow") as file,
    ):
        header = _parsed(file.head(_HEADER_BYTES))
        if header["owner"] != list(owner):
            return None
        return _mapped(file.descriptor, header, owner.dimension)
    return None


def write(store: Path, owner: Owner, content: Sidecar) -> bool:
    """Write the file atomically. Returns False if that is not possible."""
    import shutil  # not needed for reading

    from kb import atomic

    path = path_of(store)
    header = {
        "owner": owner,
        "mark": content.mark,
        "count": len(content.ids),
        "sum": _sum(content.ids, content.rows),
    }
    try:
        with atomic.atomic_path(path, overwrite=True) as part, open(part, "wb") as file:
            file.write(_formatted(header))
            content.ids.tofile(file)
            content.rows.tofile(file)
            shutil.copymode(store, part)  # the file is as private as the store
    except (OSError, KbError):  # no permission, no space, or mapped by another process on Windows
        return False
    return True


def _formatted(header: dict[str, Any]) -> bytes:
    body = json.dumps(header).encode()
    first = f"{_FORMAT} {zlib.crc32(body):08x}\n".encode()
    return (first + body).ljust(_HEADER_BYTES - 1) + b"\n"


def _parsed(raw: bytes) -> Any:
    first, _, rest = raw.partition(b"\n")
    body = rest.rstrip()
    if len(raw) != _HEADER_BYTES or first.decode() != f"{_FORMAT} {zlib.crc32(body):08x}":
        raise ValueError("not a header")
    return json.loads(body)


def _mapped(handle: int, header: Any, dimension: int) -> Sidecar | None:
    import mmap

    import numpy as np

    count = header["count"]
    data = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    if len(data) != _HEADER_BYTES + count * (8 + 4 * dimension):
        return None
    ids = np.frombuffer(data, np.int64, count, _HEADER_BYTES)
    rows = np.frombuffer(data, np.float32, count * dimension, _HEADER_BYTES + 8 * count)
    shaped = rows.reshape(count, dimension)
    if _sum(ids, shaped) != header["sum"]:
        return None
    return Sidecar(Mark(*header["mark"]), ids, shaped)


def _sum(ids: NDArray[np.int64], rows: NDArray[np.float32]) -> int:
    """A checksum that reads one value per page, which a search reads anyway."""
    import numpy as np

    bits = rows.reshape(-1).view(np.uint32)
    pairs = bits[: len(bits) // 2 * 2].view(np.uint64)
    odd = int(bits[-1]) if len(bits) % 2 else 0
    total = int(np.add.reduce(pairs, dtype=np.uint64)) + 31 * int(np.add.reduce(ids)) + odd
    return total % (1 << 64)
