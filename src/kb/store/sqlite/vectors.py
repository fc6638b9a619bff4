"""The vectors port over SQLite: opens the transactions for `embeddings`, `model_switch`, and the
dense and sparse indexes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kb.store.sqlite import embeddings, schema

if TYPE_CHECKING:
    import apsw

    from kb.store.sqlite.connection import Database
    from kb.store.sqlite.dense import DenseIndex
    from kb.store.sqlite.sparse import SparseIndex
    from kb.store.sqlite.visibility import FilterCache
    from kb.types import (
        ExamMark,
        Filters,
        JsonDict,
        ModelSpec,
        StoredModel,
        TokenVectors,
        Vector,
        VectorMatches,
    )


class SqliteVectors:
    """See `kb.ports.Vectors`. The `backend` arguments override the configured backend in tests and
    benchmarks."""

    def __init__(self, database: Database, backend: str, filters: FilterCache) -> None:
        self._database = database
        self._filters = filters
        self._backend = backend
        self._lock = threading.Lock()
        self._dense: DenseIndex | None = None  # imported with the first search by vectors
        self._sparse: SparseIndex | None = None

    def close(self) -> None:
        """Drop the cached indexes."""
        if self._dense is not None:
            self._dense.forget()
        if self._sparse is not None:
            self._sparse.forget()

    def version(self) -> str:
        """The schema's version and the number of changes: `v<schema>.<changes>`."""
        with self._database.reading() as connection:
            return f"v{schema.VERSION}.{embeddings.mark(connection).change}"

    # --- models -----------------------------------------------------------------------------------

    def models(self) -> list[StoredModel]:
        with self._database.reading() as connection:
            return embeddings.models(connection)

    def models_within(self, filters: Filters) -> list[StoredModel]:
        with self._database.reading() as connection:
            return embeddings.models_within(connection, filters)

    def model_counts(self) -> list[JsonDict]:
        with self._database.reading() as connection:
            return embeddings.counts(connection)

    def use_model(self, spec: ModelSpec, source: str | None = None) -> StoredModel:
        with self._database.writing() as connection:
            return embeddings.use_model(connection, spec, source)

    def set_exam_marks(self, model_id: int, marks: Sequence[ExamMark] | None) -> None:
        with self._database.writing() as connection:
            embeddings.set_exam_marks(connection, model_id, marks)

    # --- switching models -------------------------------------------------------------------------

    def begin_switch(
        self, spec: ModelSpec, source: str | None, *, keep_old: bool = False
    ) -> StoredModel:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.begin(connection, spec, source, keep_old=keep_old)

    def can_switch(self, model_id: int) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.reading() as connection:
            return model_switch.is_ready(connection, model_id, force=False)

    def switch(self, model_id: int, *, force: bool = False) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.switch(connection, model_id, force=force)

    def drop_retired(self, limit: int = 500) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.drop_retired(connection, limit)

    def drop_all(self) -> int:
        with self._database.writing() as connection:
            return embeddings.drop(connection)

    def count_missing_part(self, model_id: int, part: str, filters: Filters | None = None) -> int:
        with self._database.reading() as connection:
            return embeddings.count_missing_part(connection, model_id, part, filters)

    # --- retrieval --------------------------------------------------------------------------------

    def nearest_dense(
        self,
        model_id: int,
        vector: Sequence[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        exact: bool = False,
        backend: str | None = None,
    ) -> VectorMatches:
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            return self.dense.nearest(
                connection,
                model,
                vector,
                filters=filters,
                now=now,
                limit=limit,
                exact=exact,
                backend=backend or self._backend,
            )

    def nearest_sparse(
        self,
        model_id: int,
        query: Mapping[str, float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str = "auto",
    ) -> VectorMatches:
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            return self.sparse.nearest(
                connection, model, query, filters=filters, now=now, limit=limit, backend=backend
            )

    def dense_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        with self._database.reading() as connection:
            return embeddings.dense_vectors(connection, model_id, chunk_ids)

    def sparse_vectors(
        self, model_id: int, chunk_ids: Iterable[int]
    ) -> dict[int, dict[str, float]]:
        with self._database.reading() as connection:
            return embeddings.sparse_vectors(connection, model_id, chunk_ids)

    def chunks_with(self, model_id: int, part: str, chunk_ids: Iterable[int]) -> set[int]:
        with self._database.reading() as connection:
            return embeddings.chunks_with(connection, model_id, part, chunk_ids)

    def token_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        with self._database.reading() as connection:
            return embeddings.token_vectors(connection, model_id, chunk_ids)

    # --- indexes ----------------------------------------------------------------------------------

    @property
    def dense(self) -> DenseIndex:
        from kb.store.sqlite.dense import DenseIndex

        with self._lock:
            if self._dense is None:
                self._dense = DenseIndex(self._database, self._filters)
            return self._dense

    @property
    def sparse(self) -> SparseIndex:
        from kb.store.sqlite.sparse import SparseIndex

        with self._lock:
            if self._sparse is None:
                self._sparse = SparseIndex(self._filters)
            return self._sparse

    def build_index(self, model_id: int) -> None:
        """Write the file that numpy maps, and the table of sqlite-vec if that is configured."""
        from kb.store.sqlite import dense

        if self._backend == "sqlite-vec" and not self._database.read_only:
            with self._database.writing() as connection:
                self._update_vec_table(connection, model_id)
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            if model.ready > dense.SMALL and dense.numpy_is_there():
                self.dense.build(connection, model)

    def update_indexes(self, connection: apsw.Connection, model_id: int) -> None:
        """Bring the sparse segments and the table of sqlite-vec up to date, inside the transaction
        that has written vectors."""
        from kb.store.sqlite import segments

        segments.flush(connection, model_id)
        self._update_vec_table(connection, model_id)

    def _update_vec_table(self, connection: apsw.Connection, model_id: int) -> None:
        """Update the table, which exists only if sqlite-vec was ever configured, and holds only the
        vectors of the model that searches use."""
        from kb.store.sqlite import vec0

        current = embeddings.models(connection)[0]
        if current.model_id != model_id:
            return
        wanted = self._backend == "sqlite-vec" or vec0.exists(connection)
        if wanted and vec0.load(connection):
            vec0.reconcile(connection, current)
