"""Dense search in pure Python, if numpy is missing or the store is too small to be worth its
import."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import mul
from typing import Any

import apsw

from kb.index import cosine as scoring
from kb.index import dense_codes
from kb.store.sqlite import embeddings
from kb.store.sqlite.visibility import Visible
from kb.types import StoredModel, Vector

Dot = Callable[[Sequence[float], Sequence[float]], float]


def _sum_of_products(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other)))


_dot: Dot = getattr(math, "sumprod", _sum_of_products)  # Python 3.12


def nearest(
    connection: apsw.Connection,
    model: StoredModel,
    query: Vector[float],
    seen: Visible,
    limit: int,
) -> dict[int, Vector[float]]:
    """The candidates for the first `limit` hits."""
    hidden, values = set(seen.hidden), query.tolist()
    cosines = [
        (_dot(scoring.from_bytes(dense), values), chunk_id)
        for chunk_id, dense in _rows(connection, model.model_id, seen)
        if chunk_id not in hidden
    ]
    cosines.sort(reverse=True)
    last = cosines[limit - 1][0] if len(cosines) > limit else -2.0
    least = last - scoring.slack(model.dimension)
    chosen = [chunk_id for cosine, chunk_id in cosines if cosine >= least]
    return embeddings.dense_vectors(connection, model.model_id, chosen)


def _rows(connection: apsw.Connection, model_id: int, seen: Visible) -> Iterator[tuple[int, bytes]]:
    if seen.select is None:
        return embeddings.ready(connection, model_id)
    rows: Any = connection.execute(
        f"SELECT chunk_id, dense FROM embeddings WHERE chunk_id IN ({seen.select}) "
        "AND model_id = ? AND state = 'ready'",
        (*seen.params, model_id),
    )
    return ((chunk_id, dense_codes.unpack(dense)) for chunk_id, dense in rows)
