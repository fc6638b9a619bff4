"""Exact cosines of candidates that are in numpy arrays, equal to those of `kb.index.cosine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.index import cosine
from kb.types import ScoredChunk, rank_chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Rows = NDArray[np.float32]


def rescore(ids: Ids, rows: Rows, query_row: Rows, limit: int) -> list[ScoredChunk]:
    """Return the best `limit` chunks by their exact cosines. Computes the same scores and order as
    `cosine.fixed_point` and `cosine.rank`."""
    import numpy as np

    products = rows.astype(np.float64) * (query_row.astype(np.float64) * cosine.ONE)
    scores = np.clip(products.astype(np.int64).sum(axis=1) / cosine.ONE, -1.0, 1.0)
    order = np.lexsort((ids, -scores))[:limit]
    return rank_chunks(ids[order].tolist(), scores[order].tolist())
