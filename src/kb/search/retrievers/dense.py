"""The dense retriever: by meaning, as a model sees it (spec 5).

The query's vector is compared with every ready vector of the store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from operator import mul
from typing import TYPE_CHECKING

from kb.errors import ModelMismatch
from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding, unusable_part
from kb.search.retrievers.availability import RetrieverStatus
from kb.search.retrievers.model_retriever import Encode, ModelRetriever, VectorQuery
from kb.types import Degraded, Filters, ScoredChunk, StoredModel, Vector, VectorMatches

if TYPE_CHECKING:
    from kb.ports import Store


class DenseRetriever(ModelRetriever):
    """Finds chunks by their vectors. `vector` is a ready-made one of the query, at length 1, and
    `exclude` are chunks not to find: those that it was made of."""

    name = "dense"

    def __init__(
        self,
        store: Store,
        status: RetrieverStatus,
        encode: Encode,
        *,
        vector: Vector[float] | None = None,
        backend: str = "auto",
        alone: bool = False,
        exclude: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(store, status, encode, alone=alone)
        self._vector = vector
        self.ready_made = vector is not None
        self._backend = backend
        self._exclude = exclude

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._status.model
        if model is None or not self._applies(analysis):
            return None
        vector = self._checked(self._query(analysis))
        return cosines(self._store.vectors_of(model.model_id, chunk_ids), vector)

    def _lookup(self, model: StoredModel, vector_query: VectorQuery) -> VectorMatches:
        found = self._store.nearest(
            model.model_id,
            self._checked(vector_query.query),
            filters=vector_query.filters,
            now=vector_query.now,
            limit=vector_query.limit + len(self._exclude),
            backend=self._backend,
        )
        return self._without_excluded(found, vector_query.limit) if self._exclude else found

    def _without_excluded(self, found: VectorMatches, limit: int) -> VectorMatches:
        kept = [one for one in found.chunks if one.chunk_id not in self._exclude][:limit]
        ranked = [ScoredChunk(one.chunk_id, one.score, at) for at, one in enumerate(kept, start=1)]
        return found._replace(chunks=ranked)

    def _checked(self, query: QueryEncoding) -> Vector[float]:
        if query.vector is None:
            raise unusable_part(self._status.encoder, "dense")
        return query.vector

    # --- a vector that the caller brings ----------------------------------------------------------

    def _query(self, analysis: Analysis) -> QueryEncoding:
        return super()._query(analysis) if self._vector is None else QueryEncoding(self._vector)

    def _applies(self, analysis: Analysis) -> bool:
        return self._vector is not None or super()._applies(analysis)

    def _check_syntax(self, analysis: Analysis, filters: Filters, now: str) -> None:
        if self._vector is None:
            super()._check_syntax(analysis, filters, now)

    def _unreadable(self, analysis: Analysis) -> tuple[Degraded, ...]:
        return super()._unreadable(analysis) if self._vector is None else ()

    def _is_caller_error(self, error: Exception) -> bool:
        """A ready-made vector that does not fit the store is its caller's mistake."""
        return self._vector is not None and isinstance(error, ModelMismatch)

    def _fallback(self, found: VectorMatches) -> tuple[Degraded, ...]:
        """As good as the one that was chosen, but maybe not as fast."""
        if self._backend in ("auto", found.backend):
            return ()
        why = found.fallback_reason or f"{self._backend} is not there"
        return (Degraded("dense", "fallback", f"{why}: by {found.backend}"),)


def cosines(vectors: Mapping[int, Vector[float]], query: Vector[float]) -> dict[int, float]:
    """Of vectors at length 1. By numpy, where it is loaded already: it is ten times faster."""
    if not vectors or "numpy" not in sys.modules:
        return {chunk_id: sum(map(mul, vector, query)) for chunk_id, vector in vectors.items()}
    import numpy as np

    rows = np.frombuffer(b"".join(vectors.values()), np.float32).reshape(len(vectors), -1)
    # Not by `@`: that wakes the threads of BLAS, which go on to compete with the encoder's.
    found = np.einsum("ij,j->i", rows, np.frombuffer(query, np.float32))
    return dict(zip(vectors, found.tolist(), strict=True))
