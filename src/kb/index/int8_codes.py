"""Dense vectors as bytes, to find the rows that may be among the nearest without reading floats.

Each row is centered and rounded to multiples of its own scale. By the Cauchy-Schwarz inequality,
the cosine by codes differs from the true one by at most

    |row - center - code| * |query|  +  |code| * |query - its code|

so only rows whose cosine by codes is within this bound of the lowest score in the result can be
among the nearest. That score is known once the rows that are best by their codes are scored
exactly. For the rows within the bound, the rest of the query is rounded and multiplied as well: the
second term is then almost zero, and fewer rows are left whose floats have to be read.

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


class Candidates(NamedTuple):
    """Row numbers, in any order, and their vectors."""

    places: NDArray[np.int64]
    rows: NDArray[np.float32]


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


def has_bounds(
    codes: Codes, rows: NDArray[np.float32], places: NDArray[np.int64] | None = None
) -> bool:
    """Whether the bounds of the codes hold for these rows, except for rounding. `places` has the
    place of each row among the codes; None if they are in the same order."""
    import numpy as np

    for start in range(0, len(rows), _BATCH):
        part = slice(start, start + _BATCH)
        at = part if places is None else places[part]
        decoded = codes.codes[at] * codes.scales[at, None]
        errors = np.linalg.norm(rows[part] - codes.center - decoded, axis=1)
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
    read: Callable[[NDArray[np.int64]], Candidates],
    *,
    exact: bool = True,
    among: NDArray[np.int64] | None = None,
) -> Candidates:
    """The rows that may be among the `limit` nearest of those that are not `excluded`, or of those
    whose codes are at `among`. `read` returns the floats of a few rows. Unless `exact`, only the
    rows of the nearest lists, if there are lists."""
    import numpy as np

    (scale,), rounded = _round(query[None, :])
    error = codes.error * float(np.linalg.norm(query))
    rest = query - rounded[0] * scale
    parts = [slice(0, len(codes.codes))]
    if among is None and codes.lists is not None and not exact:
        parts = vector_lists.probe(codes.lists, query)
    near = _near(codes, rounded, parts if among is None else [among])
    near *= scale
    if excluded is not None and among is None:
        near[excluded[_row_numbers(codes.lists, parts)]] = -np.inf

    def at(places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places among the codes of the rows at these positions of `near`."""
        return _in_parts(parts, places) if among is None else among[places]

    def floats(places: NDArray[np.int64]) -> Candidates:
        lists, chosen = codes.lists, at(places)
        return read(chosen if lists is None else lists.order[chosen].astype(np.int64))

    best = np.flatnonzero(near >= max(_last(near, limit), _LOWEST))
    if len(best) < limit and among is None and len(near) < len(codes.codes):
        # The lists have too few rows that are not excluded.
        return candidates(codes, query, limit, excluded, read)
    first = floats(best if len(best) >= limit else np.flatnonzero(near >= _LOWEST))
    if len(first.places) < limit:
        return first
    cosines = np.einsum("ij,j->i", first.rows, query)
    last = float(np.partition(cosines, -limit)[-limit])
    last -= float(np.dot(codes.center, query)) + _ROUNDING + cosine.slack(len(query))
    near[best] = -np.inf
    far = error + codes.length * float(np.linalg.norm(rest))
    more = np.flatnonzero(near >= max(_LOWEST, last - far))
    if not len(more):
        return first
    (fine,), rounded = _round(rest[None, :])
    far = error + codes.length * float(np.linalg.norm(rest - rounded[0] * fine))
    closer = near[more] + fine * _near(codes, rounded, [at(more)])
    second = floats(more[closer >= last - far])
    return Candidates(
        np.concatenate([first.places, second.places]), np.concatenate([first.rows, second.rows])
    )


def _near(
    codes: Codes, rounded: NDArray[np.int8], parts: Sequence[slice | NDArray[np.int64]]
) -> NDArray[np.float32]:
    """The products of a query's code with the codes of these parts, one after another."""
    import numpy as np
    import simsimd

    sizes = [part.stop - part.start if isinstance(part, slice) else len(part) for part in parts]
    near: NDArray[np.float32] = np.empty(sum(sizes), np.float32)
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        inside = near[start : start + size]
        inside[:] = np.asarray(simsimd.cdist(rounded, codes.codes[part], metric="dot"))[0]
        inside *= codes.scales[part]
        start += size
    return near


def _in_parts(parts: Sequence[slice], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Convert places within these parts of the codes to places among all codes."""
    import numpy as np

    starts = np.array([part.start for part in parts])
    ends = np.cumsum([part.stop - part.start for part in parts])
    part = np.searchsorted(ends, places, "right")
    inside: NDArray[np.int64] = places - np.concatenate([np.zeros(1, np.int64), ends])[part]
    inside += starts[part]
    return inside


def _row_numbers(lists: Lists | None, parts: Sequence[slice]) -> NDArray[np.int32] | slice:
    """The row of each product."""
    import numpy as np

    if lists is None:
        return parts[0]
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
