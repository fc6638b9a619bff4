"""Writes files as `torch.save` does, without torch: a zip archive with a pickle and raw numbers."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STORAGES = {"<f4": "FloatStorage", "<f2": "HalfStorage", "<u2": "BFloat16Storage"}
_DICT = b"ccollections\nOrderedDict\n)R"


def write(path: Path, tensors: Mapping[str, NDArray[Any]]) -> Path:
    """Write the arrays as a state dict; uint16 stands for bfloat16."""
    items = b"".join(
        text(name) + tensor(array, number) for number, (name, array) in enumerate(tensors.items())
    )
    data = {str(number): array.tobytes() for number, array in enumerate(tensors.values())}
    return write_archive(path, b"\x80\x02" + _DICT + b"(" + items + b"u.", data)


def write_archive(path: Path, pickled: bytes, data: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, content in data.items():
            archive.writestr(f"archive/data/{key}", content)
    return path


def tensor(array: NDArray[Any], key: int, *, size: tuple[int, ...] | None = None) -> bytes:
    """The pickle of a tensor, or of one that claims to have another size."""
    size = array.shape if size is None else size
    strides = [1]
    for length in size[:0:-1]:
        strides.insert(0, strides[0] * length)
    storage = f"ctorch\n{_STORAGES[array.dtype.str]}\n".encode()
    pid = text("storage") + storage + text(str(key)) + text("cpu") + number(array.size)
    shape, steps = (b"(" + b"".join(map(number, values)) + b"t" for values in (size, strides))
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n((" + pid + b"tQ" + number(0) + shape + steps
        + b"\x89" + _DICT + b"tR"
    )  # fmt: skip


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def bfloat16(array: NDArray[np.float32]) -> NDArray[Any]:
    """The upper halves of float32 numbers."""
    upper: NDArray[Any] = (array.view("<u4") >> 16).astype("<u2")
    return upper
