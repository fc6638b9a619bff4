"""The dense retriever: compares the query's vector with all vectors of the store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from operator import mul

from kb.errors import ModelMismatch
from kb.search.context import SearchContext
from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding, unusable_output
from kb.search.retrievers.availability import RetrieverStatus
from kb.search.retrievers.base import RetrievalRequest
from kb.search.retrievers.model_retriever import ModelRetriever
from kb.types import Degraded, ScoredChunk, StoredModel, Vector, VectorMatches


class DenseRetriever(ModelRetriever):
    """Finds chunks by the cosine of their vectors. A vector in the request replaces the query's
    encoding."""

    name = "dense"

    def __init__(self, context: SearchContext) -> None:
        self._vector = context.request.vector
        self._exclude = context.request.exclude
        self._exact = context.request.exact
        super().__init__(context)

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._status.model
        if model is None or not self._applies(analysis):
            return None
        vector = self._query_vector(self._encode(analysis))
        return cosines(self._store.vectors.dense_vectors(model.model_id, chunk_ids), vector)

    def _lookup(
        self, model: StoredModel, encoding: QueryEncoding, request: RetrievalRequest
    ) -> VectorMatches:
        matches = self._store.vectors.nearest_dense(
            model.model_id,
            self._query_vector(encoding),
            filters=request.filters,
            now=request.now,
            limit=request.limit + len(self._exclude),
            exact=self._exact,
        )
        return self._without_excluded(matches, request.limit) if self._exclude else matches

    def _without_excluded(self, matches: VectorMatches, limit: int) -> VectorMatches:
        kept = [one for one in matches.chunks if one.chunk_id not in self._exclude][:limit]
        return matches._replace(
            chunks=[
                ScoredChunk(one.chunk_id, one.score, rank) for rank, one in enumerate(kept, start=1)
            ]
        )

    def _query_vector(self, encoding: QueryEncoding) -> Vector[float]:
        if encoding.vector is None:
            raise unusable_output(self._status.encoder, "dense")
        return encoding.vector

    def _fallback(self, matches: VectorMatches) -> tuple[Degraded, ...]:
        """A note if another backend ran: the result is the same, but the search may be slower."""
        if not matches.fallback_reason:
            return ()
        reason = f"{matches.fallback_reason}; used {matches.backend} instead"
        return (Degraded("dense", "fallback", reason),)

    # --- a vector in the request ------------------------------------------------------------------

    def _model_status(self) -> RetrieverStatus:
        return self._context.model.status(self.name, has_vector=self._vector is not None)

    def _encodes_remotely(self) -> bool:
        return self._vector is None and super()._encodes_remotely()

    def _encode(self, analysis: Analysis) -> QueryEncoding:
        return super()._encode(analysis) if self._vector is None else QueryEncoding(self._vector)

    def _applies(self, analysis: Analysis) -> bool:
        return self._vector is not None or super()._applies(analysis)

    def _check_syntax(self, request: RetrievalRequest) -> None:
        if self._vector is None:
            super()._check_syntax(request)

    def _unreadable(self, analysis: Analysis) -> tuple[Degraded, ...]:
        return super()._unreadable(analysis) if self._vector is None else ()

    def _is_caller_error(self, error: Exception) -> bool:
        """Whether the caller's vector does not have the model's dimension."""
        return self._vector is not None and isinstance(error, ModelMismatch)


def cosines(vectors: Mapping[int, Vector[float]], query: Vector[float]) -> dict[int, float]:
    """The cosines of normalized vectors. Uses numpy if it is loaded, which is ten times faster."""
    if not vectors or "numpy" not in sys.modules:
        return {chunk_id: sum(map(mul, vector, query)) for chunk_id, vector in vectors.items()}
    import numpy as np

    rows = np.frombuffer(b"".join(vectors.values()), np.float32).reshape(len(vectors), -1)
    # `@` would start BLAS threads that compete with the encoder's.
    values = np.einsum("ij,j->i", rows, np.frombuffer(query, np.float32))
    return dict(zip(vectors, values.tolist(), strict=True))
