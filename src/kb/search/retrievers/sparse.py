"""The sparse retriever: by words as a model weighs them (spec 5).

Like words, it finds what shares a term with the query; like meaning, a model says how much each
term matters, in the query and in the passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding, unusable_part
from kb.search.retrievers.model_retriever import ModelRetriever, VectorQuery
from kb.types import StoredModel, VectorMatches

_LARGEST = 3.4e38  # as much as a stored weight can be


class SparseRetriever(ModelRetriever):
    """Finds chunks by the weights of their terms."""

    name = "sparse"

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._status.model
        if model is None or not self._applies(analysis):
            return None
        query = self._checked(self._query(analysis))
        passages = self._store.sparse_of(model.model_id, chunk_ids)
        return {chunk_id: product(query, weights) for chunk_id, weights in passages.items()}

    def _lookup(self, model: StoredModel, vector_query: VectorQuery) -> VectorMatches:
        return self._store.sparse_nearest(
            model.model_id,
            self._checked(vector_query.query),
            filters=vector_query.filters,
            now=vector_query.now,
            limit=vector_query.limit,
        )

    def _checked(self, query: QueryEncoding) -> Mapping[str, float]:
        weights = query.sparse
        if weights is None or not all(0 <= weight <= _LARGEST for weight in weights.values()):
            raise unusable_part(self._status.encoder, "sparse")  # a NaN is neither
        return weights


def product(query: Mapping[str, float], passage: Mapping[str, float]) -> float:
    """The sum over the terms they share, in the order of the terms: so it is the store's, bit for
    bit."""
    shared = sorted(term for term, weight in query.items() if weight and term in passage)
    total = 0.0
    for term in shared:
        total += passage[term] * query[term]
    return total
