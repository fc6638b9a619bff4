"""The numpy backend: all vectors of a model as one matrix, shared between threads.

A matrix belongs to one state of the store. The matrix of a later state is derived from it: changed
rows are marked as dead, and their new vectors are kept in a second, small matrix. When the second
matrix grows too large, all vectors are read again, and written to a file for other processes.

A large matrix has only the codes of its vectors (see `int8_codes`). The floats of the few rows that
may be among the nearest are read from the store, in the transaction of the search.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import apsw

from kb import deadline
from kb.errors import StoreUnusable
from kb.index import cosine, dense_codes, int8_codes, vector_lists
from kb.index.int8_codes import Candidates
from kb.index.rescoring import rescore
from kb.store.sqlite import embeddings
from kb.store.sqlite.embeddings import Mark
from kb.store.sqlite.matrix_file import StoredMatrix
from kb.types import ScoredChunk, StoredModel, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.int8_codes import Codes

    Ids = NDArray[np.int64]
    Rows = NDArray[np.float32]

_BATCH = 4096  # rows read at a time
_ROWS_PER_CHECK = 65_536  # rows between two checks of the deadline: about 10 ms
_ALLOWED_SHARE = 8  # if at most one row in this many is allowed, only allowed rows are multiplied
_FEW = 1000  # so few changed rows never cause a full read
_SHARE = 16  # nor does one changed row in this many
_CACHE_BYTES = 16 << 20  # of vectors that recent searches have read


@dataclass(frozen=True, eq=False)
class Matrix:
    """The ready vectors of a model in one state of the store. Immutable."""

    model_id: int
    mark: Mark
    ids: Ids  # in ascending order
    rows: Rows | None  # None if there are codes
    dead: Ids  # positions in `ids` that are dead
    new_ids: Ids  # in ascending order
    new_rows: Rows
    codes: Codes | None = None
    recent: dict[int, bytes] = field(default_factory=dict)  # vectors of `ids` that were read

    @property
    def drift(self) -> int:
        return len(self.dead) + len(self.new_ids)

    def to_stored(self) -> StoredMatrix:
        """What to write to the file; only for a matrix without changed rows."""
        return StoredMatrix(self.mark, self.ids, self.rows, self.codes)

    @cached_property
    def code_places(self) -> Ids | None:
        """The place of each row among the codes; None if they are in the same order."""
        lists = None if self.codes is None else self.codes.lists
        return None if lists is None else vector_lists.places(lists)


# --- building -------------------------------------------------------------------------------------


def from_stored(model: StoredModel, stored: StoredMatrix) -> Matrix:
    """The matrix that was read from the file."""
    import numpy as np

    none, no_rows = np.empty(0, np.int64), np.empty((0, model.dimension), np.float32)
    mark, ids, rows, codes, _ = stored
    return Matrix(model.model_id, mark, ids, rows, none, none, no_rows, codes)


def build(
    connection: apsw.Connection, model: StoredModel, mark: Mark, *, with_lists: bool = False
) -> Matrix:
    """Read every vector from the store. With `with_lists`, a very large matrix is divided into
    lists."""
    ids, rows = read_all(connection, model)
    if len(ids) < int8_codes.MIN_ROWS or not int8_codes.is_available():
        return from_stored(model, StoredMatrix(mark, ids, rows))
    lists = vector_lists.build(rows) if with_lists and len(ids) >= vector_lists.MIN_ROWS else None
    return from_stored(model, StoredMatrix(mark, ids, None, int8_codes.encode(rows, lists)))


def read_all(connection: apsw.Connection, model: StoredModel) -> tuple[Ids, Rows]:
    """Every vector of the store, ordered by chunk id."""
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
        rows[start:end] = _to_rows([dense for _, dense in batch], model.dimension)
        start = end
    return ids[:start], rows[:start]


def needs_lists(matrix: Matrix) -> bool:
    """Whether the matrix has enough vectors to be divided into lists, and is not divided yet."""
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
    rows = np.concatenate([earlier.new_rows[kept], stack(list(now.values()), model.dimension)])
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
        earlier.recent,  # the changed ones are dead
    )


def agrees(matrix: Matrix, ids: Ids, rows: Rows) -> bool:
    """Whether the matrix has exactly these vectors. Where it has only codes, whether these
    fit the vectors within their error bounds."""
    import numpy as np

    live = np.setdiff1d(np.arange(len(matrix.ids)), matrix.dead, assume_unique=True)
    own_ids = np.concatenate([matrix.ids[live], matrix.new_ids])
    order = np.argsort(own_ids)
    if not np.array_equal(own_ids[order], ids):
        return False
    by_place = np.empty_like(rows)
    by_place[order] = rows
    if not np.array_equal(by_place[len(live) :], matrix.new_rows):
        return False
    if matrix.codes is None:
        return matrix.rows is not None and np.array_equal(by_place[: len(live)], matrix.rows[live])
    at = live if matrix.code_places is None else matrix.code_places[live]
    return int8_codes.has_bounds(matrix.codes, by_place[: len(live)], at)


def _to_rows(blobs: Sequence[bytes], dimension: int) -> Rows:
    import numpy as np

    if any(len(blob) != 4 * dimension for blob in blobs):
        raise StoreUnusable("a stored vector is damaged", "repair it with: kb doctor --fix")
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dimension)


def stack(vectors: Sequence[Vector[float]], dimension: int) -> Rows:
    import numpy as np

    joined = array("f")
    for vector in vectors:
        joined.extend(vector)
    return np.array(joined, np.float32).reshape(len(vectors), dimension)


# --- searching ------------------------------------------------------------------------------------


def nearest(
    connection: apsw.Connection,
    matrix: Matrix,
    query: Vector[float],
    *,
    allowed: Ids | None,
    hidden: Sequence[int],
    limit: int,
    exact: bool = False,
) -> list[ScoredChunk]:
    """The best rows among the `allowed` chunks (None: all), without those in `hidden`. If the
    matrix has lists, only the nearest ones are searched, unless `exact` is set or the chunks are
    filtered. `connection` must see the state that the matrix belongs to."""
    import numpy as np

    query_row = np.frombuffer(query, np.float32)
    out = np.array(hidden, np.int64)
    if matrix.rows is None:
        places, rows = _by_codes(connection, matrix, query_row, allowed, out, limit, exact=exact)
    else:
        places, rows = _by_floats(
            matrix.ids, matrix.rows, query_row, matrix.dead, allowed, out, limit
        )
    none = matrix.dead[:0]
    new = _by_floats(matrix.new_ids, matrix.new_rows, query_row, none, allowed, out, limit)
    ids = np.concatenate([matrix.ids[places], matrix.new_ids[new.places]])
    rows = np.concatenate([rows, new.rows])
    chosen = _may_be_best(_products(rows, query_row), limit, len(query_row))
    return rescore(ids[chosen], rows[chosen], query_row, limit)


def _by_floats(
    ids: Ids, rows: Rows, query_row: Rows, dead: Ids, allowed: Ids | None, hidden: Ids, limit: int
) -> Candidates:
    """The rows that may be among the best. Compares floats."""
    import numpy as np

    out = _places_to_skip(ids, dead, hidden)
    if allowed is not None:
        places = _allowed_places(ids, allowed, out)
        cosines = (
            _products(rows[places], query_row)
            if len(places) * _ALLOWED_SHARE <= len(ids)
            else _products(rows, query_row)[places]
        )
    else:
        places, cosines = np.arange(len(ids)), _products(rows, query_row)
        cosines[out] = -2
    places = places[_may_be_best(cosines, limit, len(query_row))]
    return Candidates(places, rows[places])


def _by_codes(
    connection: apsw.Connection,
    matrix: Matrix,
    query_row: Rows,
    allowed: Ids | None,
    hidden: Ids,
    limit: int,
    *,
    exact: bool,
) -> Candidates:
    """The rows that may be among the best. Compares codes, and reads few floats."""
    import numpy as np

    assert matrix.codes is not None
    out, among, excluded = _places_to_skip(matrix.ids, matrix.dead, hidden), None, None
    places = None if allowed is None else _allowed_places(matrix.ids, allowed, out)
    if places is not None and len(places) * _ALLOWED_SHARE <= len(matrix.ids):
        among = places if matrix.code_places is None else matrix.code_places[places]
    else:
        excluded = _exclusion_mask(len(matrix.ids), out, places)

    def read(places: Ids) -> Candidates:
        deadline.check()
        ids = matrix.ids[places].tolist()
        stored = _read_vectors(connection, matrix, ids)
        if len(stored) < len(ids):  # the file is damaged
            places = places[[one in stored for one in ids]]
        vectors = [stored[one] for one in ids if one in stored]
        return Candidates(places, _to_rows(vectors, len(query_row)))

    if (among is not None and not len(among)) or not len(matrix.ids):
        return Candidates(np.empty(0, np.int64), np.empty((0, len(query_row)), np.float32))
    return int8_codes.candidates(
        matrix.codes,
        query_row,
        limit,
        excluded,
        read,
        exact=exact or allowed is not None,
        among=among,
    )


def _read_vectors(
    connection: apsw.Connection, matrix: Matrix, ids: Sequence[int]
) -> dict[int, bytes]:
    """The vectors of these chunks as float32 numbers. They are cached, because searches often
    read the same ones."""
    recent = matrix.recent
    stored = {one: vector for one in ids if (vector := recent.get(one)) is not None}
    if missing := [one for one in ids if one not in stored]:
        packed = embeddings.dense_bytes(connection, matrix.model_id, missing)
        dimension = matrix.new_rows.shape[1]
        vectors = dense_codes.unpack_all(list(packed.values()), dimension)
        read = dict(zip(packed, vectors, strict=True))
        if (len(recent) + len(read)) * 4 * dimension > _CACHE_BYTES:
            recent.clear()
        recent.update(read)
        stored |= read
    return stored


def _places_to_skip(ids: Ids, dead: Ids, hidden: Ids) -> Ids:
    """The places of dead and hidden rows."""
    import numpy as np

    return np.concatenate([dead, _places(ids, hidden)]) if len(hidden) else dead


def _allowed_places(ids: Ids, allowed: Ids, out: Ids) -> Ids:
    """The places of allowed rows, without those in `out`."""
    import numpy as np

    places = _places(ids, allowed)
    if not len(out):
        return places
    return places[np.isin(places, out, assume_unique=True, invert=True)]


def _may_be_best(cosines: Rows, limit: int, dimension: int) -> NDArray[np.intp]:
    """The positions of the cosines that may be among the best, with a margin for rounding."""
    import numpy as np

    return np.flatnonzero(cosines >= _last(cosines, limit) - cosine.slack(dimension))


def _exclusion_mask(count: int, out: Ids, places: Ids | None) -> NDArray[np.bool_] | None:
    """A mask of the rows to exclude: those in `out`, and all but `places` if it is given."""
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
    for start in range(0, len(rows), _ROWS_PER_CHECK):
        deadline.check()
        block = slice(start, start + _ROWS_PER_CHECK)
        np.einsum("ij,j->i", rows[block], query_row, out=products[block])
    return products


def _places(ids: Ids, wanted: Ids) -> Ids:
    """The positions of the wanted ids in `ids`, for those that occur."""
    import numpy as np

    if not len(ids):
        return ids[:0]
    places: Ids = np.searchsorted(ids, wanted)
    places[places == len(ids)] = 0
    matches: Ids = places[ids[places] == wanted]
    return matches


def _last(cosines: Rows, limit: int) -> float:
    """The cosine of the last candidate within the limit."""
    import numpy as np

    if len(cosines) <= limit:
        return -1.0
    at = len(cosines) - limit
    return max(-1.0, float(np.partition(cosines, at)[at]))
