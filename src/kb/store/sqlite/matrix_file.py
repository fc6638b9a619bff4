"""The matrix of vectors as a file beside the store, so that a fresh process maps it into memory
rather than reading every row again. Derived: never trusted over the store.

    4096 bytes   header: JSON, padded with spaces; its own checksum stands in its first line
    8 a row      chunk ids, rising
    d * 4 a row  vectors, float32

Whatever is wrong with the file (not there, cut, damaged, of another store, model or machine) is no
error: the matrix is then built from the store.
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
    """What stands in the file."""

    mark: Mark
    ids: NDArray[np.int64]
    rows: NDArray[np.float32]


class Owner(NamedTuple):
    """Whose vectors they are."""

    store_id: str
    model_id: int
    dimension: int


def path_of(store: Path) -> Path:
    """Where it stands: `kb.sqlite-vectors` for `kb.sqlite`."""
    return store.with_name(store.name + "-vectors")


def read(store: Path, owner: Owner) -> Sidecar | None:
    """The file's content, if it is whole and of this owner. The arrays are mapped, not copied."""
    # The folder may have come from elsewhere: a pipe there must not be waited for.
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
    """Put the file in its place, whole; False where that cannot be."""
    import shutil  # not for the many that only read

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
            shutil.copymode(store, part)  # who may not read the one may not read the other
    except (OSError, KbError):  # no right to write, no room, or mapped by others on Windows
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
    """Tells damage for the price of one look at every page, which a search takes anyway."""
    import numpy as np

    bits = rows.reshape(-1).view(np.uint32)
    pairs = bits[: len(bits) // 2 * 2].view(np.uint64)
    odd = int(bits[-1]) if len(bits) % 2 else 0
    total = int(np.add.reduce(pairs, dtype=np.uint64)) + 31 * int(np.add.reduce(ids)) + odd
    return total % (1 << 64)
