"""Inverted lists over dense vectors (IVF): the rows of similar vectors, one list after another.

A search in a very large store compares the query with the lists' centroids, and then only with the
rows of the nearest lists. So it may miss a row that is near the query but in a list that is not
(see the measurements in docs/decisions/0054).
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

MIN_ROWS = 300_000  # fewer rows are compared one by one, which is exact
SHARE = 0.3  # of the lists, which a search compares
_LISTS = 2  # the number of lists is this times the square root of the number of rows
_SAMPLE = 40  # rows for each list that the centroids are computed from
_ROUNDS = 6
_BATCH = 8192  # rows compared with all centroids at a time


class Lists(NamedTuple):
    """The rows of each list: `order` has the numbers of all rows, and list `n` ends at
    `ends[n]`."""

    centroids: Rows
    order: NDArray[np.int32]
    ends: NDArray[np.int64]


def build(rows: Rows) -> Lists:
    """Divide normalized rows into lists, by k-means over a sample. The result is the same for the
    same rows."""
    import numpy as np

    count = max(1, min(len(rows), _LISTS * isqrt(len(rows))))
    chance = np.random.default_rng(len(rows))
    sample = rows[np.sort(chance.choice(len(rows), min(len(rows), count * _SAMPLE), replace=False))]
    centroids = sample[chance.choice(len(sample), count, replace=False)]
    for _ in range(_ROUNDS):
        centroids = _means(sample, _nearest(sample, centroids), centroids)
    of_row = _nearest(rows, centroids)
    order = np.argsort(of_row, kind="stable").astype(np.int32)
    return Lists(centroids, order, np.cumsum(np.bincount(of_row, minlength=count)))


def _nearest(rows: Rows, centroids: Rows) -> NDArray[np.int64]:
    """The nearest centroid of each row."""
    import numpy as np

    nearest = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BATCH):
        part = slice(start, start + _BATCH)
        nearest[part] = (rows[part] @ centroids.T).argmax(axis=1)
    return nearest


def _means(rows: Rows, of_row: NDArray[np.int64], before: Rows) -> Rows:
    """The normalized mean of the rows of each list. An empty list keeps its centroid."""
    import numpy as np

    order = np.argsort(of_row, kind="stable")
    numbers, starts = np.unique(of_row[order], return_index=True)
    sums = np.add.reduceat(rows[order], starts, axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    means = before.copy()
    means[numbers] = np.where(lengths > 0, sums / np.maximum(lengths, 1e-30), before[numbers])
    return means


def places(lists: Lists) -> NDArray[np.int64]:
    """The place of each row in `order`."""
    import numpy as np

    found = np.empty(len(lists.order), np.int64)
    found[lists.order] = np.arange(len(found))
    return found


def probe(lists: Lists, query: Rows, share: float = SHARE) -> list[slice]:
    """The places in `order` of the lists that are nearest to a query, in ascending order."""
    import numpy as np

    near = np.einsum("ij,j->i", lists.centroids, query)
    near[np.diff(lists.ends, prepend=0) == 0] = -np.inf
    count = min(len(near), max(1, round(share * len(near))))
    chosen = np.sort(np.argpartition(near, -count)[-count:])
    ends = lists.ends[chosen].tolist()
    starts = np.where(chosen > 0, lists.ends[chosen - 1], 0).tolist()
    return [slice(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
