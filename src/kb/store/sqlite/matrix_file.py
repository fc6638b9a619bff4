"""The matrix of vectors in a file beside the store (see `array_file`).

Of many vectors, the file has only the codes: a search reads the floats of the few vectors that may
be among the nearest from the store, which has them anyway.
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


class Sidecar(NamedTuple):
    """The content of the file: the codes of the vectors, or the vectors if there are few."""

    mark: Mark
    ids: NDArray[np.int64]  # ascending
    rows: NDArray[np.float32] | None
    codes: Codes | None = None
    is_outdated: bool = False  # written by an earlier version, with codes and vectors


class Owner(NamedTuple):
    """The store and the model that the vectors belong to."""

    store_id: str
    model_id: int
    dimension: int


def path_of(store: Path) -> Path:
    """The path of the file: `kb.sqlite-vectors` for `kb.sqlite`."""
    return store.with_name(f"{store.name}-{_KIND}")


def read(store: Path, owner: Owner) -> Sidecar | None:
    """The content of the file, if it is complete and belongs to this owner."""

    def parse(content: Content) -> Sidecar | None:
        if content.about["owner"] != list(owner):
            return None
        mark = Mark(*array_file.check_numbers(content.about["mark"], len(Mark._fields)))
        ids = array_file.check_array(content, "ids", "i8", -1)
        array_file.check_ascending(ids)
        shape = (len(ids), owner.dimension)
        if content.about["bounds"] is None:
            return Sidecar(mark, ids, array_file.check_array(content, "rows", "f4", *shape))
        if not int8_codes.is_available():
            return None
        return Sidecar(mark, ids, None, _codes(content, *shape), "rows" in content.arrays)

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


def write(store: Path, owner: Owner, sidecar: Sidecar) -> bool:
    """Write the file atomically. Returns False if that is not possible."""
    codes, bounds = sidecar.codes, None
    arrays: dict[str, NDArray[Any]] = {"ids": sidecar.ids}
    if sidecar.rows is not None:
        arrays["rows"] = sidecar.rows
    if codes is not None:
        arrays |= {"center": codes.center, "codes": codes.codes, "scales": codes.scales}
        bounds = (codes.error, codes.length)
        arrays |= {} if codes.lists is None else codes.lists._asdict()
    about = {"owner": owner, "mark": sidecar.mark, "bounds": bounds}
    return array_file.write(path_of(store), _KIND, Content(about, arrays), like=store)
