"""The sparse retriever: compares term weights that a model learned.

Like lexical retrieval, it finds chunks that share a term with the query. As in dense retrieval, a
model decides how much each term matters, in the query and in the chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding, unusable_output
from kb.search.retrievers.base import RetrievalRequest
from kb.search.retrievers.model_retriever import ModelRetriever
from kb.types import StoredModel, VectorMatches

_LARGEST = 3.4e38  # the largest weight that a store can hold


class SparseRetriever(ModelRetriever):
    """Finds chunks by the dot product of their term weights and the query's."""

    name = "sparse"

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._status.model
        if model is None or not self._applies(analysis):
            return None
        query = self._query_weights(self._encode(analysis))
        weights_by_chunk = self._store.vectors.sparse_vectors(model.model_id, chunk_ids)
        return {chunk_id: product(query, weights) for chunk_id, weights in weights_by_chunk.items()}

    def _lookup(
        self, model: StoredModel, encoding: QueryEncoding, request: RetrievalRequest
    ) -> VectorMatches:
        return self._store.vectors.nearest_sparse(
            model.model_id,
            self._query_weights(encoding),
            filters=request.filters,
            now=request.now,
            limit=request.limit,
        )

    def _query_weights(self, encoding: QueryEncoding) -> Mapping[str, float]:
        weights = encoding.sparse
        # The comparison is False for a NaN.
        if weights is None or not all(0 <= weight <= _LARGEST for weight in weights.values()):
            raise unusable_output(self._status.encoder, "sparse")
        return weights


def product(query: Mapping[str, float], passage: Mapping[str, float]) -> float:
    """The dot product, summed in the order of the terms. The store sums in the same order, so both
    results are identical bit for bit."""
    shared = sorted(term for term, weight in query.items() if weight and term in passage)
    total = 0.0
    for term in shared:
        total += passage[term] * query[term]
    return total
