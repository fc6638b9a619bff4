"""Reads tensors from a torch file, without torch and without running code from the file.

Such a file (`torch.save` of a state dict) is a zip archive: a pickle that describes the tensors,
and their bytes. A pickle can name any function to call; this reader accepts four names and refuses
all others.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.regular_files import open_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 256 << 20  # of a file, and of its contents
_PICKLE = "data.pkl"
_STORAGES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "DoubleStorage": "<f8",
    "BFloat16Storage": "<u2",
}
_BFLOAT16 = "BFloat16Storage"


class _Storage(NamedTuple):
    """The numbers behind a tensor."""

    values: NDArray[Any]


def read(path: Path) -> Mapping[str, NDArray[Any]]:
    """Read the tensors of a state dict as float32 arrays. Raises `ValueError` for a file with
    anything else, and `OSError`."""
    with open_file(path, links="follow") as file, open(file.descriptor, "rb", closefd=False) as raw:
        try:
            with zipfile.ZipFile(raw) as archive:
                return _state(archive)
        except zipfile.BadZipFile as error:
            raise ValueError(
                "it is not a zip archive, the format of torch since version 1.6"
            ) from error
        except (pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, AttributeError,
                NotImplementedError, RuntimeError, UnicodeDecodeError) as error:  # fmt: skip
            raise ValueError(f"it is not a state dict: {error}") from error


def _state(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES >> 20} MB")
    name = next(one for one in (*archive.namelist(), "") if one.endswith(_PICKLE) or not one)
    if not name:
        raise ValueError(f"it contains no {_PICKLE}")
    prefix = name.removesuffix(_PICKLE)
    state = _Unpickler(archive, prefix, archive.read(name)).load()
    if not isinstance(state, dict) or not state:
        raise ValueError("it is not a state dict")
    import numpy as np

    for key, value in state.items():
        if not isinstance(key, str) or not isinstance(value, np.ndarray):
            raise ValueError("it is not a state dict of tensors")
    return dict(state)


class _Unpickler(pickle.Unpickler):
    """Creates ordered dicts and tensors, and nothing else."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._archive = archive
        self._prefix = prefix

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild_tensor
        if module == "torch" and name in _STORAGES:
            return name
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        import numpy as np

        kind, storage, key, _, count = pid
        if kind != "storage" or storage not in _STORAGES:
            raise pickle.UnpicklingError(f"it contains a {kind}")
        data = self._archive.read(f"{self._prefix}data/{key}")
        values = np.frombuffer(data, _STORAGES[storage])
        if len(values) != count:
            raise pickle.UnpicklingError(f"data/{key} has {len(values)} numbers, not {count}")
        if storage == _BFLOAT16:  # the upper half of a float32
            return _Storage((values.astype("<u4") << 16).view("<f4"))
        return _Storage(values.astype("<f4"))


def _rebuild_tensor(
    storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> NDArray[Any]:
    """The array of a tensor, which may be a part of its storage."""
    import numpy as np

    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min((offset, *stride)) < 0 or min((1, *size)) < 1 or last >= len(storage.values):
        raise pickle.UnpicklingError("a tensor exceeds its storage")
    steps = [step * storage.values.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(storage.values[offset:], size, steps, writeable=False)
    return np.ascontiguousarray(view)
