"""Dense vectors as bytes, to find the rows that may be among the nearest without reading floats.

Each row is centered and rounded to multiples of its own scale. By the Cauchy-Schwarz inequality,
the cosine by codes differs from the true one by at most

    |row - center - code| * |query|  +  |code| * |query - its code|

so only rows whose cosine by codes is within this bound of the lowest score in the result can be
among the nearest. That score is known once the rows that are best by their codes are scored
exactly.

With very many rows, the codes are in the order of inverted lists, and a search may compare only a
few lists (see `vector_lists`). The bound then holds for the rows of those lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kb.index import cosine, vector_lists
from kb.index.vector_lists import Lists

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_ROWS = 5_000  # with fewer rows, floats are fast enough
_BATCH = 4096  # rows encoded at a time
_BLOCK = 64
_BLOCKS = 8  # at least this many for each result, else all rows are compared
_ROUNDING = 1e-5  # more than the errors of float32 sums
_LOWEST = -1e30  # excluded rows have -inf


class Codes(NamedTuple):
    """Rows as multiples of their scales, in the order of `lists` if there are any. `error` is the
    largest distance of a row from its code, `length` the greatest length of a code."""

    center: NDArray[np.float32]
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    error: float
    length: float
    lists: Lists | None = None


def is_available() -> bool:
    """Whether the library with the kernels is installed."""
    try:
        import simsimd  # noqa: F401  # tests availability
    except ImportError:
        return False
    return True


def encode(rows: NDArray[np.float32], lists: Lists | None = None) -> Codes:
    """The codes of rows, in the order of `lists` if there are any."""
    import numpy as np

    center = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    codes = np.empty(rows.shape, np.int8)
    scales = np.empty(len(rows), np.float32)
    error = length = 0.0
    for start in range(0, len(rows), _BATCH):
        batch = _rows(rows, lists, slice(start, start + _BATCH)) - center
        scale, rounded = _round(batch)
        codes[start : start + _BATCH], scales[start : start + _BATCH] = rounded, scale
        decoded = rounded * scale[:, None]
        error = max(error, float(np.linalg.norm(batch - decoded, axis=1).max()))
        length = max(length, float(np.linalg.norm(decoded, axis=1).max()))
    return Codes(center, codes, scales, error, length, lists)


def _rows(rows: NDArray[np.float32], lists: Lists | None, part: slice) -> NDArray[np.float32]:
    """A part of the rows in the order of their codes."""
    return rows[part] if lists is None else rows[lists.order[part]]


def has_bounds(codes: Codes, rows: NDArray[np.float32]) -> bool:
    """Whether the bounds of the codes hold for these rows, except for rounding."""
    import numpy as np

    for start in range(0, len(rows), _BATCH):
        part = slice(start, start + _BATCH)
        decoded = codes.codes[part] * codes.scales[part, None]
        errors = np.linalg.norm(_rows(rows, codes.lists, part) - codes.center - decoded, axis=1)
        lengths = np.linalg.norm(decoded, axis=1)
        if not (errors <= codes.error + _ROUNDING).all():  # false for a NaN
            return False
        if not (lengths <= codes.length + _ROUNDING).all():
            return False
    return True


def _round(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    import numpy as np

    scale = np.maximum(np.abs(rows).max(axis=1) / 127.0, 1e-30).astype(np.float32)
    return scale, np.rint(rows / scale[:, None]).astype(np.int8)


def candidates(
    codes: Codes,
    query: NDArray[np.float32],
    limit: int,
    excluded: NDArray[np.bool_] | None,
    cosines: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    *,
    exact: bool = True,
) -> NDArray[np.int64]:
    """The rows that may be among the `limit` nearest of those that are not `excluded`. `cosines`
    computes the true cosines of a few rows, those that are best by their codes. Unless `exact`,
    only the rows of the nearest lists, if there are lists."""
    import numpy as np

    (scale,), rounded = _round(query[None, :])
    rest = float(np.linalg.norm(query - rounded[0] * scale))
    bound = codes.error * float(np.linalg.norm(query)) + codes.length * rest + _ROUNDING
    parts = [slice(0, len(codes.codes))]
    if codes.lists is not None and not exact:
        parts = vector_lists.probe(codes.lists, query)
    near = _near(codes, rounded, parts)
    near *= scale
    rows = _row_numbers(codes.lists, parts)
    if excluded is not None:
        near[excluded if rows is None else excluded[rows]] = -np.inf

    def numbers(places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places if rows is None else rows[places].astype(np.int64)

    best = np.flatnonzero(near >= max(_last(near, limit), _LOWEST))
    if len(best) < limit:
        if len(near) < len(codes.codes):  # the lists have too few rows that are not excluded
            return candidates(codes, query, limit, excluded, cosines)
        return numbers(np.flatnonzero(near >= _LOWEST))
    last = float(np.partition(cosines(numbers(best)), -limit)[-limit])
    centered = last - float(np.dot(codes.center, query))
    least = max(_LOWEST, centered - bound - cosine.slack(len(query)))
    return numbers(np.flatnonzero(near >= least))


def _near(codes: Codes, rounded: NDArray[np.int8], parts: Sequence[slice]) -> NDArray[np.float32]:
    """The products of a query's code with the codes of these parts, one after another."""
    import numpy as np
    import simsimd

    near: NDArray[np.float32] = np.empty(sum(each.stop - each.start for each in parts), np.float32)
    at = 0
    for part in parts:
        end = at + part.stop - part.start
        near[at:end] = np.asarray(simsimd.cdist(rounded, codes.codes[part], metric="dot"))[0]
        near[at:end] *= codes.scales[part]
        at = end
    return near


def _row_numbers(lists: Lists | None, parts: Sequence[slice]) -> NDArray[np.int32] | None:
    """The row of each product; None if they are in the order of the rows."""
    import numpy as np

    if lists is None:
        return None
    return np.concatenate([lists.order[one] for one in parts])


def _last(near: NDArray[np.float32], limit: int) -> float:
    """A lower bound for the `limit`-th best value, which few more rows reach. Among many rows, the
    best of each block decide: that many blocks have a row with at least this value."""
    import numpy as np

    best = near
    if len(near) >= _BLOCK * _BLOCKS * limit:
        whole = len(near) // _BLOCK * _BLOCK
        best = near[:whole].reshape(-1, _BLOCK).max(axis=1)
    if len(best) <= limit:
        return -np.inf
    at = len(best) - limit
    return float(np.partition(best, at)[at])
