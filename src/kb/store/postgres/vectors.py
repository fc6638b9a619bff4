"""The vectors port over PostgreSQL: opens the transactions for `embeddings`, `model_switch`, and
the dense and sparse indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kb.store.postgres import dense, embeddings, model_switch, schema, segments
from kb.store.postgres.sparse import SparseIndex

if TYPE_CHECKING:
    from kb.store.postgres.block_cache import BlockCache
    from kb.store.postgres.connection import Database
    from kb.store.postgres.filters import FilterCache
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


class PostgresVectors:
    """See `kb.ports.Vectors`."""

    def __init__(self, database: Database, filters: FilterCache, blocks: BlockCache) -> None:
        self._database = database
        self.sparse = SparseIndex(filters, blocks)

    def close(self) -> None:
        """Clear the caches."""
        self.sparse.forget()

    def version(self) -> str:
        """The schema's version and the number of changes: `v<schema>.<changes>`."""
        return self._database.read(lambda session: f"v{schema.VERSION}.{session.state.vectors}")

    # --- models -----------------------------------------------------------------------------------

    def models(self) -> list[StoredModel]:
        return self._database.read(lambda session: embeddings.models(session))

    def models_within(self, filters: Filters) -> list[StoredModel]:
        return self._database.read(lambda session: embeddings.models_within(session, filters))

    def model_counts(self) -> list[JsonDict]:
        return self._database.read(lambda session: embeddings.counts(session))

    def use_model(self, spec: ModelSpec, source: str | None = None) -> StoredModel:
        return self._database.repeat(lambda session: embeddings.use_model(session, spec, source))

    def set_exam_marks(self, model_id: int, marks: Sequence[ExamMark] | None) -> None:
        self._database.repeat(lambda session: embeddings.set_exam_marks(session, model_id, marks))

    # --- switching models -------------------------------------------------------------------------

    def begin_switch(
        self, spec: ModelSpec, source: str | None, *, keep_old: bool = False
    ) -> StoredModel:
        with self._database.writing() as session:
            return model_switch.begin(session, spec, source, keep_old=keep_old)

    def can_switch(self, model_id: int) -> bool:
        if self._database.read_only:
            return False
        return self._database.read(
            lambda session: model_switch.is_ready(session, model_id, force=False)
        )

    def switch(self, model_id: int, *, force: bool = False) -> bool:
        return self._database.repeat(
            lambda session: model_switch.switch(session, model_id, force=force)
        )

    def drop_retired(self, limit: int = 500) -> bool:
        if self._database.read_only:
            return False
        return self._database.repeat(lambda session: model_switch.drop_retired(session, limit))

    def drop_all(self) -> int:
        with self._database.writing() as session:
            return embeddings.drop(session)

    def count_missing_part(self, model_id: int, part: str, filters: Filters | None = None) -> int:
        return self._database.read(
            lambda session: embeddings.count_missing_part(session, model_id, part, filters)
        )

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
    ) -> VectorMatches:
        with self._database.reading() as session:
            embeddings.model(session, model_id)
            matches = [
                dense.nearest(
                    each, model, vector, filters=filters, now=now, limit=limit, exact=exact
                )
                for each in session.shards
                for model in embeddings.models(each)
                if model.model_id == model_id
            ]
            return matches[0] if len(matches) == 1 else _merged(matches, limit)

    def nearest_sparse(
        self, model_id: int, query: Mapping[str, float], *, filters: Filters, now: str, limit: int
    ) -> VectorMatches:
        with self._database.reading() as session:
            model = embeddings.model(session, model_id)
            return self.sparse.nearest(session, model, query, filters=filters, now=now, limit=limit)

    def dense_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: embeddings.dense_vectors(session, model_id, ids))

    def sparse_vectors(
        self, model_id: int, chunk_ids: Iterable[int]
    ) -> dict[int, dict[str, float]]:
        ids = list(chunk_ids)
        return self._database.read(
            lambda session: embeddings.sparse_vectors(session, model_id, ids)
        )

    def chunks_with(self, model_id: int, part: str, chunk_ids: Iterable[int]) -> set[int]:
        ids = list(chunk_ids)
        return self._database.read(
            lambda session: embeddings.chunks_with(session, model_id, part, ids)
        )

    def token_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: embeddings.token_vectors(session, model_id, ids))

    def build_index(self, model_id: int) -> None:
        if self._database.read_only:
            return
        segments.flush(self._database, "sparse", model_id)
        model = self._database.read(lambda session: embeddings.model(session, model_id))
        self._database.retry(lambda: dense.build_index(self._database, model))


def _merged(matches: Sequence[VectorMatches], limit: int) -> VectorMatches:
    """The best of the chunks of all shards."""
    from kb.types import VectorMatches

    chunks = sorted(
        (one for each in matches for one in each.chunks), key=lambda one: (-one.score, one.chunk_id)
    )
    best = [one._replace(rank=rank) for rank, one in enumerate(chunks[:limit], start=1)]
    return VectorMatches(best, max(each.backend for each in matches))
