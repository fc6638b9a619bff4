"""The numpy backend: all vectors of a model as one matrix, shared between threads.

A matrix belongs to one state of the store. The matrix of a later state is derived from it: changed
rows are marked as dead, and their new vectors are kept in a second, small matrix. When the second
matrix grows too large, all vectors are read again, and written to a file for other processes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import apsw

from kb import deadline
from kb.errors import StoreUnusable
from kb.index import cosine, int8_codes, vector_lists
from kb.index.rescoring import rescored
from kb.store.sqlite import embeddings
from kb.store.sqlite.embeddings import Mark
from kb.store.sqlite.matrix_file import Sidecar
from kb.types import ScoredChunk, StoredModel, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.int8_codes import Codes

    Ids = NDArray[np.int64]
    Rows = NDArray[np.float32]

_BATCH = 4096  # rows read at a time
_SCANNED = 65_536  # rows between two checks of the deadline: about 10 ms
_GATHERED = 8  # if at most one row in this many is allowed, only those are multiplied
_MAX_GATHERED = 20_000  # for more, the codes of all rows are faster
_CODED = 8  # if at most one row in this many is wanted, codes select the candidates
_FEW = 1000  # so few changed rows never cause a full read
_SHARE = 16  # nor does one changed row in this many


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The ready vectors of a model in one state of the store. Immutable."""

    model_id: int
    mark: Mark
    ids: Ids  # in ascending order
    rows: Rows
    dead: Ids  # positions in `rows` that are dead
    new_ids: Ids  # in ascending order
    new_rows: Rows
    codes: Codes | None = None  # of `rows`

    @property
    def drift(self) -> int:
        return len(self.dead) + len(self.new_ids)

    def content(self) -> Sidecar:
        """The content of the file; only for a matrix without changed rows."""
        return Sidecar(self.mark, self.ids, self.rows, self.codes)


# --- building -------------------------------------------------------------------------------------


def of_sidecar(model_id: int, sidecar: Sidecar) -> Matrix:
    import numpy as np

    none = np.empty(0, np.int64)
    mark, ids, rows, codes = sidecar
    return Matrix(model_id, mark, ids, rows, none, none, rows[:0], codes)


def build(
    connection: apsw.Connection, model: StoredModel, mark: Mark, *, listed: bool = False
) -> Matrix:
    """Read every vector from the store. With `listed`, very many vectors are divided into lists."""
    import numpy as np

    ids = np.empty(model.ready, np.int64)
    rows = np.empty((model.ready, model.dimension), np.float32)
    vectors = embeddings.ready(connection, model.model_id)
    start = 0
    while batch := list(islice(vectors, _BATCH)):
        end = start + len(batch)
        if end > model.ready:  # more than were counted, which `kb doctor` repairs
            ids = np.resize(ids, end)
            rows = np.resize(rows, (end, model.dimension))
        ids[start:end] = [chunk_id for chunk_id, _ in batch]
        rows[start:end] = _unpacked([dense for _, dense in batch], model.dimension)
        start = end
    rows = rows[:start]
    codes = None
    if start >= int8_codes.MIN_ROWS and int8_codes.is_available():
        lists = vector_lists.build(rows) if listed and start >= vector_lists.MIN_ROWS else None
        codes = int8_codes.encode(rows, lists)
    return of_sidecar(model.model_id, Sidecar(mark, ids[:start], rows, codes))


def can_be_listed(matrix: Matrix) -> bool:
    """Whether the matrix has enough vectors for lists, and none yet."""
    codes = matrix.codes
    return codes is not None and codes.lists is None and len(matrix.ids) >= vector_lists.MIN_ROWS


def update(
    connection: apsw.Connection, earlier: Matrix, model: StoredModel, mark: Mark
) -> Matrix | None:
    """Derive the matrix of this state from an earlier one; None if too many rows changed."""
    import numpy as np

    if earlier.mark == mark:
        return earlier
    changed = embeddings.changed_chunks(connection, model.model_id, earlier.mark)
    bound = max(_FEW, len(earlier.ids) // _SHARE)
    if earlier.drift + len(changed) > bound:
        return None
    moved = np.array(changed, np.int64)
    kept = ~np.isin(earlier.new_ids, moved, assume_unique=True)
    now = embeddings.dense_vectors(connection, model.model_id, changed)
    ids = np.concatenate([earlier.new_ids[kept], np.array(list(now), np.int64)])
    rows = np.concatenate([earlier.new_rows[kept], stacked(list(now.values()), model.dimension)])
    order = np.argsort(ids)
    dead = np.union1d(earlier.dead, _places(earlier.ids, moved))
    return Matrix(
        model.model_id,
        mark,
        earlier.ids,
        earlier.rows,
        dead,
        ids[order],
        rows[order],
        earlier.codes,
    )


def agree(one: Matrix, other: Matrix) -> bool:
    """Whether both matrices have the same vectors, bit for bit, and codes that fit them."""
    import numpy as np

    (ids, rows), (other_ids, other_rows) = _live(one), _live(other)
    if not (np.array_equal(ids, other_ids) and np.array_equal(rows, other_rows)):
        return False
    return all(
        each.codes is None or int8_codes.has_bounds(each.codes, each.rows) for each in (one, other)
    )


def _live(matrix: Matrix) -> tuple[Ids, Rows]:
    import numpy as np

    kept = np.setdiff1d(np.arange(len(matrix.ids)), matrix.dead, assume_unique=True)
    ids = np.concatenate([matrix.ids[kept], matrix.new_ids])
    order = np.argsort(ids)
    return ids[order], np.concatenate([matrix.rows[kept], matrix.new_rows])[order]


def _unpacked(blobs: Sequence[bytes], dimension: int) -> Rows:
    import numpy as np

    if any(len(blob) != 4 * dimension for blob in blobs):
        raise StoreUnusable("a stored vector is damaged", "repair it with: kb doctor --fix")
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dimension)


def stacked(vectors: Sequence[Vector[float]], dimension: int) -> Rows:
    import numpy as np

    joined = array("f")
    for vector in vectors:
        joined.extend(vector)
    return np.array(joined, np.float32).reshape(len(vectors), dimension)


# --- searching ------------------------------------------------------------------------------------


def nearest(
    matrix: Matrix,
    query: Vector[float],
    *,
    allowed: Ids | None,
    hidden: Sequence[int],
    limit: int,
    exact: bool = False,
) -> list[ScoredChunk]:
    """The best rows among the `allowed` chunks (None: all) that are not `hidden`. Unless `exact` or
    filtered, those of the nearest lists, if there are lists."""
    import numpy as np

    query_row = np.frombuffer(query, np.float32)
    out = np.array(hidden, np.int64)
    candidates = [
        _candidates(
            matrix.ids,
            matrix.rows,
            query_row,
            matrix.dead,
            allowed,
            out,
            limit,
            matrix.codes,
            exact=exact or allowed is not None,
        ),
        _candidates(
            matrix.new_ids, matrix.new_rows, query_row, matrix.dead[:0], allowed, out, limit
        ),
    ]
    cosines = np.concatenate([each[1] for each in candidates])
    chosen = np.flatnonzero(cosines >= _last(cosines, limit) - cosine.slack(len(query_row)))
    first = len(candidates[0][1])
    split = np.searchsorted(chosen, first)
    old, new = candidates[0][0][chosen[:split]], candidates[1][0][chosen[split:] - first]
    ids = np.concatenate([matrix.ids[old], matrix.new_ids[new]])
    rows = np.concatenate([matrix.rows[old], matrix.new_rows[new]])
    return rescored(ids, rows, query_row, limit)


def _candidates(
    ids: Ids,
    rows: Rows,
    query_row: Rows,
    dead: Ids,
    allowed: Ids | None,
    hidden: Ids,
    limit: int,
    codes: Codes | None = None,
    *,
    exact: bool = True,
) -> tuple[Ids, Rows]:
    """The row numbers of candidates, and the cosine of each; -2 for rows that are excluded. With
    `codes`, only rows that may be among the best `limit` ones."""
    import numpy as np

    out = np.concatenate([dead, _places(ids, hidden)]) if len(hidden) else dead
    places = None
    if allowed is not None:
        places = _places(ids, allowed)
        if len(out):
            places = places[np.isin(places, out, assume_unique=True, invert=True)]
        if len(places) * _GATHERED <= len(ids) and (codes is None or len(places) <= _MAX_GATHERED):
            return places, _products(rows[places], query_row)
    if codes is not None and limit * _CODED <= len(ids):
        excluded = _excluded(len(ids), out, places)
        near = int8_codes.candidates(
            codes,
            query_row,
            limit,
            excluded,
            lambda some: _products(rows[some], query_row),
            exact=exact,
        )
        return near, _products(rows[near], query_row)
    cosines = _products(rows, query_row)
    if places is not None:
        return places, cosines[places]
    cosines[out] = -2
    return np.arange(len(ids)), cosines


def _excluded(count: int, out: Ids, places: Ids | None) -> NDArray[np.bool_] | None:
    """Which rows are excluded: those in `out`, and all but `places` if it is given."""
    import numpy as np

    if places is None and not len(out):
        return None
    excluded = np.full(count, places is not None)
    if places is not None:
        excluded[places] = False
    excluded[out] = True
    return excluded


def _products(rows: Rows, query_row: Rows) -> Rows:
    """`rows @ query` in this thread alone. BLAS would use its own threads, which compete with the
    encoder and with other searches; at 100,000 rows this is also faster."""
    import numpy as np

    products: Rows = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _SCANNED):
        deadline.check()
        block = slice(start, start + _SCANNED)
        np.einsum("ij,j->i", rows[block], query_row, out=products[block])
    return products


def _places(ids: Ids, wanted: Ids) -> Ids:
    """The positions of the wanted ids in `ids`, for those that occur."""
    import numpy as np

    if not len(ids):
        return ids[:0]
    places: Ids = np.searchsorted(ids, wanted)
    places[places == len(ids)] = 0
    there: Ids = places[ids[places] == wanted]
    return there


def _last(cosines: Rows, limit: int) -> float:
    """The cosine of the last candidate within the limit."""
    import numpy as np

    if len(cosines) <= limit:
        return -1.0
    at = len(cosines) - limit
    return max(-1.0, float(np.partition(cosines, at)[at]))
