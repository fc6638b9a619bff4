"""Reads and writes the file with the matrix of vectors, beside the store (see `array_file`).

For a large matrix, the file has only the codes of the vectors: a search reads the floats of the few
vectors that may be among the nearest from the store.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import int8_codes
from kb.index.int8_codes import Codes
from kb.index.vector_lists import Lists
from kb.store.sqlite import array_file
from kb.store.sqlite.array_file import Content
from kb.store.sqlite.embeddings import Mark

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KIND = "vectors"


class StoredMatrix(NamedTuple):
    """A matrix as it is in the file: with `codes` if it is large, with `rows` if it is small.
    `mark` is the state of the store that it belongs to."""

    mark: Mark
    ids: NDArray[np.int64]  # ascending
    rows: NDArray[np.float32] | None
    codes: Codes | None = None
    is_outdated: bool = False  # an earlier version wrote the file, with both codes and rows


class Owner(NamedTuple):
    """The store and the model that the vectors belong to."""

    store_id: str
    model_id: int
    dimension: int


def path_of(store: Path) -> Path:
    """The path of the file: `kb.sqlite-vectors` for `kb.sqlite`."""
    return store.with_name(f"{store.name}-{_KIND}")


def read(store: Path, owner: Owner) -> StoredMatrix | None:
    """The matrix in the file; None if the file is incomplete or belongs to another owner."""

    def parse(content: Content) -> StoredMatrix | None:
        if content.about["owner"] != list(owner):
            return None
        mark = Mark(*array_file.check_numbers(content.about["mark"], len(Mark._fields)))
        ids = array_file.check_array(content, "ids", "i8", -1)
        array_file.check_ascending(ids)
        shape = (len(ids), owner.dimension)
        if content.about["bounds"] is None:
            return StoredMatrix(mark, ids, array_file.check_array(content, "rows", "f4", *shape))
        if not int8_codes.is_available():
            return None
        return StoredMatrix(mark, ids, None, _codes(content, *shape), "rows" in content.arrays)

    return array_file.read(path_of(store), _KIND, parse)


def _codes(content: Content, count: int, dimension: int) -> Codes:
    error, length = content.about["bounds"]
    if not (0 <= error < inf and 0 <= length < inf):
        raise ValueError("bounds")
    return Codes(
        array_file.check_array(content, "center", "f4", dimension),
        array_file.check_array(content, "codes", "i1", count, dimension),
        array_file.check_array(content, "scales", "f4", count),
        error,
        length,
        _lists(content, count, dimension) if "order" in content.arrays else None,
    )


def _lists(content: Content, count: int, dimension: int) -> Lists:
    ends = array_file.check_array(content, "ends", "i8", -1)
    order = array_file.check_array(content, "order", "i4", count)
    if not len(ends) or int(ends[0]) < 0 or int(ends[-1]) != count or (ends[1:] < ends[:-1]).any():
        raise ValueError("ends")
    if count and (int(order.min()) < 0 or int(order.max()) >= count):
        raise ValueError("order")
    return Lists(
        array_file.check_array(content, "centroids", "f4", len(ends), dimension), order, ends
    )


def write(store: Path, owner: Owner, matrix: StoredMatrix) -> bool:
    """Write the file atomically. Returns False if that is not possible."""
    codes, bounds = matrix.codes, None
    arrays: dict[str, NDArray[Any]] = {"ids": matrix.ids}
    if matrix.rows is not None:
        arrays["rows"] = matrix.rows
    if codes is not None:
        arrays |= {"center": codes.center, "codes": codes.codes, "scales": codes.scales}
        bounds = (codes.error, codes.length)
        arrays |= {} if codes.lists is None else codes.lists._asdict()
    about = {"owner": owner, "mark": matrix.mark, "bounds": bounds}
    return array_file.write(path_of(store), _KIND, Content(about, arrays), like=store)
