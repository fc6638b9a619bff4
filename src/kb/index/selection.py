"""Selects the best chunks from an array of scores, with filters applied before the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    places = np.flatnonzero(scores > 0.0)
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


def _keep(
    kept: NDArray[np.bool_], one: NDArray[Any], other: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    return one[kept], other[kept]
