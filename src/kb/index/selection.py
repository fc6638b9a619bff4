"""Selects the best chunks from an array of scores, with filters applied before the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 64  # scores; the best of each block form a sample, from which a lower bound is computed


def best_chunks(
    scores: NDArray[np.float64],
    ids: NDArray[np.int64],
    *,
    allowed: NDArray[np.int64] | None,
    hidden: Sequence[int],
    limit: int,
) -> list[tuple[int, float]]:
    """The chunks with the highest scores above 0, ties by id, among the `allowed` ones (None: all)
    that are not `hidden`. `ids` has the chunk of each score, in any order."""
    import numpy as np

    if limit < 1:
        return []
    least = 0.0 if allowed is not None else _lower_bound(scores, limit + len(hidden))
    places = np.flatnonzero(scores >= least if least > 0.0 else scores > 0.0)
    found = ids[places]
    if allowed is not None:
        places, found = _keep(np.isin(found, allowed), places, found)
    if hidden:
        kept = np.isin(found, np.array(hidden, np.int64), invert=True)
        places, found = _keep(kept, places, found)
    best = scores[places]
    if len(best) > limit:
        at = len(best) - limit
        best, found = _keep(best >= np.partition(best, at)[at], best, found)
    order = np.lexsort((found, -best))[:limit]
    return list(zip(found[order].tolist(), best[order].tolist(), strict=True))


def _lower_bound(scores: NDArray[np.float64], limit: int) -> float:
    """A lower bound for the `limit`-th best score: the `limit`-th highest of the blocks' maxima. 0
    if there are too few blocks."""
    import numpy as np

    blocks = len(scores) // _BLOCK
    if blocks <= limit:
        return 0.0
    # The scores of a block are far apart, so that numpy compares whole rows.
    best = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    best = best[best > 0.0]  # `partition` is slow if many numbers are equal
    if len(best) < limit:
        return 0.0
    return float(np.partition(best, len(best) - limit)[len(best) - limit])


def _keep(
    kept: NDArray[np.bool_], one: NDArray[Any], other: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    return one[kept], other[kept]
