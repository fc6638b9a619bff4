"""The dense index: chooses a backend, and caches matrices and filters between searches.

Every backend only selects candidates; `kb.index.cosine` computes the scores, so that all backends
return the same results.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw

from kb.deadline import pause_deadline
from kb.errors import check_choice
from kb.index import cosine
from kb.store.model_rows import query_vector
from kb.store.sqlite import array_file, embeddings, matrix_file, python_scan, vec0
from kb.store.sqlite.connection import Database
from kb.store.sqlite.embeddings import Mark
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.visibility import FilterCache, Visible, visible
from kb.types import Filters, ScoredChunk, StoredModel, Vector, VectorMatches

if TYPE_CHECKING:
    from kb.store.sqlite.matrix import Matrix

BACKENDS = ("auto", "sqlite-vec", "numpy", "python")
# Importing numpy takes longer than searching this many vectors in Python.
SMALL = 3000
_MIN_FILE_ROWS = 1000  # fewer vectors can be read quickly without a file
_MAX_MATRICES = 3  # cached matrices: readers may still use an earlier state


class DenseIndex:
    """Searches the dense vectors of one store. Threads may share it."""

    def __init__(self, database: Database, filters: FilterCache) -> None:
        self._database = database
        self._filters = filters
        self._building = threading.Lock()
        self._matrices: dict[tuple[int, Mark], Matrix] = {}
        self._file: tuple[int, ...] | None = None  # the identity of the file that they map

    def forget(self) -> None:
        with self._building:
            self._matrices = {}
        self._filters.forget()

    def nearest(
        self,
        connection: apsw.Connection,
        model: StoredModel,
        vector: Sequence[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str,
        exact: bool = False,
    ) -> VectorMatches:
        """Search in the caller's transaction."""
        query = query_vector(vector, model)
        chosen = _backend(connection, model, check_choice("backend", backend, BACKENDS))
        seen = visible(connection, filters, now)
        why = "" if backend in ("auto", chosen) else f"{backend} is not installed"
        if limit < 1 or not model.ready:
            return VectorMatches([], chosen, why)
        if chosen == "sqlite-vec":
            candidates = vec0.nearest(connection, model, query, seen, limit)
            if candidates is not None:
                return VectorMatches(_rescore(candidates, query, limit), chosen)
            chosen = by_arrays(model)
            if backend != "auto":
                why = vec0.reason(connection, model.model_id) or f"{backend} is not available"
        if chosen == "numpy":
            return VectorMatches(
                self._by_matrix(connection, model, query, seen, limit, exact=exact), chosen, why
            )
        close = python_scan.nearest(connection, model, query, seen, limit)
        return VectorMatches(_rescore(close, query, limit), chosen, why)

    # --- numpy ------------------------------------------------------------------------------------

    def _by_matrix(
        self,
        connection: apsw.Connection,
        model: StoredModel,
        query: Vector[float],
        seen: Visible,
        limit: int,
        *,
        exact: bool,
    ) -> list[ScoredChunk]:
        from kb.store.sqlite import matrix

        allowed = None if seen.select is None else self._filters.chunk_ids(connection, seen)
        current = self.current(connection, model)
        return matrix.nearest(
            connection,
            current,
            query,
            allowed=allowed,
            hidden=seen.hidden,
            limit=limit,
            exact=exact,
        )

    def current(self, connection: apsw.Connection, model: StoredModel) -> Matrix:
        """The matrix of the state that `connection` sees."""
        mark = embeddings.mark(connection)
        key = (model.model_id, mark)
        path = matrix_file.path_of(self._database.path)
        if self._file == array_file.identity(path) and key in self._matrices:
            return self._matrices[key]
        with pause_deadline(), self._building:  # one thread builds the state for all
            if self._file != array_file.identity(path):
                self._matrices = {}
            if (known := self._matrices.get(key)) is None:
                known = self._load_matrix(connection, model, mark)
                self._file = array_file.identity(path)
                kept = list(self._matrices.items())[1 - _MAX_MATRICES :]
                self._matrices = {**dict(kept), key: known}
            return known

    def _load_matrix(self, connection: apsw.Connection, model: StoredModel, mark: Mark) -> Matrix:
        from kb.store.sqlite import matrix

        known = [one for one in self._matrices.values() if one.model_id == model.model_id]
        for earlier in sorted(known, key=lambda one: one.mark.change, reverse=True):
            if _precedes(connection, earlier.mark, mark):
                if made := matrix.update(connection, earlier, model, mark):
                    return made
                break
        owner = _owner(connection, model)
        stored = matrix_file.read(self._database.path, owner)
        if stored is not None and _precedes(connection, stored.mark, mark):
            earlier = matrix.from_stored(model, stored)
            if stored.is_outdated:  # without the vectors, the file is a quarter as long
                earlier = self._save(earlier, model, owner)
            if made := matrix.update(connection, earlier, model, mark):
                return made
        made = matrix.build(connection, model, mark)
        is_old = stored is not None and stored.mark.change > mark.change
        return made if is_old else self._save(made, model, owner)

    def build(self, connection: apsw.Connection, model: StoredModel) -> None:
        """Write the file if many vectors have changed. If there are very many, divide them into
        lists, which would take too long during a search."""
        from kb.store.sqlite import matrix

        current = self.current(connection, model)
        if self._database.read_only or not matrix.needs_lists(current):
            return
        with pause_deadline():
            built = matrix.build(connection, model, embeddings.mark(connection), with_lists=True)
            self._save(built, model, _owner(connection, model))
        self.forget()

    def _save(self, made: Matrix, model: StoredModel, owner: matrix_file.Owner) -> Matrix:
        """Write the matrix to a file for other processes, and map it from there, if possible."""
        from kb.store.sqlite import matrix

        path = self._database.path
        if len(made.ids) < _MIN_FILE_ROWS or self._database.read_only:
            return made
        if not matrix_file.write(path, owner, made.to_stored()):
            return made
        stored = matrix_file.read(path, owner)
        same = stored is not None and stored.mark == made.mark
        return matrix.from_stored(model, stored) if stored and same else made

    # --- derived indexes --------------------------------------------------------------------------

    def rewrite_file(self, connection: apsw.Connection, model: StoredModel) -> bool:
        """Rewrite the file from the store. Returns False if it cannot be written."""
        from kb.store.sqlite import matrix

        made = matrix.build(connection, model, embeddings.mark(connection))
        self.forget()
        return matrix_file.write(self._database.path, _owner(connection, model), made.to_stored())

    def file_fault(self, connection: apsw.Connection, model: StoredModel) -> str | None:
        """How the file differs from the store; None if it does not."""
        from kb.store.sqlite import matrix

        stored = matrix_file.read(self._database.path, _owner(connection, model))
        mark = embeddings.mark(connection)
        if stored is None:
            return "it is damaged, or belongs to another store or model"
        if not _precedes(connection, stored.mark, mark):
            return "it is out of date"
        earlier = matrix.from_stored(model, stored)
        made = matrix.update(connection, earlier, model, mark)
        if made is None:  # the next search rebuilds it
            return None
        same = matrix.agrees(made, *matrix.read_all(connection, model))
        return None if same else "its numbers differ"


def _precedes(connection: apsw.Connection, earlier: Mark, mark: Mark) -> bool:
    return earlier.change <= mark.change and embeddings.follows(connection, earlier)


def _owner(connection: apsw.Connection, model: StoredModel) -> matrix_file.Owner:
    store_id = str(scalar(connection, "SELECT store_id FROM state"))
    return matrix_file.Owner(store_id, model.model_id, model.dimension)


# --- which backend --------------------------------------------------------------------------------


def _backend(connection: apsw.Connection, model: StoredModel, configured: str) -> str:
    """The backend to use: for `auto`, the fastest one available; for `numpy`, if it is not
    installed, the next best."""
    if configured == "auto" and model.ready <= SMALL and not _numpy_is_loaded():
        return "python"
    if configured in ("auto", "numpy") and numpy_is_there():
        return "numpy"
    if configured == "auto" and vec0.position(connection, model.model_id) is not None:
        return "sqlite-vec"
    return "sqlite-vec" if configured == "sqlite-vec" else "python"


def by_arrays(model: StoredModel) -> str:
    """Return `numpy`, or `python` if numpy is missing or importing it would take longer than a
    search in Python."""
    loaded = _numpy_is_loaded()
    return "numpy" if (loaded or model.ready > SMALL) and numpy_is_there() else "python"


def _numpy_is_loaded() -> bool:
    return sys.modules.get("numpy") is not None


def numpy_is_there() -> bool:
    try:
        import numpy  # noqa: F401  # tests availability
    except ImportError:
        return False
    return True


def _rescore(
    vectors: dict[int, Vector[float]], query: Vector[float], limit: int
) -> list[ScoredChunk]:
    """Compute the scores of candidates. Uses numpy if it is loaded; the scores are the same either
    way."""
    if not _numpy_is_loaded() or not vectors:
        return cosine.rescore(vectors, query, limit)
    import numpy as np

    from kb.index.rescoring import rescore
    from kb.store.sqlite import matrix

    ids = np.array(list(vectors), np.int64)
    rows = matrix.stack(list(vectors.values()), len(query))
    return rescore(ids, rows, np.frombuffer(query, np.float32), limit)
