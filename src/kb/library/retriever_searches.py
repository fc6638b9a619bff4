"""Searches with a fixed set of retrievers [004], where the number of hits is called `limit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.types import Hit, Response, SearchRequest
from kb.values import Any


class RetrieverSearches:
    """The base class of `KnowledgeBase` with these searches. `options` are fields of
    `SearchRequest`."""

    def execute(self, request: SearchRequest) -> Response:
        """Run a search from a `SearchRequest`."""
        raise NotImplementedError

    def search_lexical(self, query: str, *, limit: int = 20, **options: Any) -> tuple[Hit, ...]:
        """Search with the lexical retriever alone [004]. A malformed expression finds nothing."""
        defaults = {"top": limit, "profile": "lexical", "malformed": "empty"}
        return self._hits(query, None, defaults, options, mode="lexical")

    def search_vector(
        self,
        query: str = "",
        *,
        embedding: Sequence[float] | None = None,
        limit: int = 20,
        **options: Any,
    ) -> tuple[Hit, ...]:
        """Search with the dense retriever alone, by a query or by its embedding [004]."""
        from kb.search.query.query_encoder import is_empty

        if is_empty(embedding):
            return ()
        defaults = {"top": limit, "profile": "notes"}
        return self._hits(query, embedding, defaults, options, mode="vector")

    def search_sparse(self, query: str, *, limit: int = 20, **options: Any) -> tuple[Hit, ...]:
        """Search with the sparse retriever alone: by weighted terms. Needs usable vectors."""
        defaults = {"top": limit, "profile": "research"}
        return self._hits(query, None, defaults, options, mode="sparse")

    def search_hybrid(
        self,
        query: str,
        *,
        embedding: Sequence[float] | None = None,
        limit: int = 10,
        k: float = 60,
        **options: Any,
    ) -> tuple[Hit, ...]:
        """Search by words and vectors, fused by rank, with weights for the kind of a document and
        for how often it was opened [004]. `embedding` is the query's embedding, if the caller has
        it. `k` is the constant of reciprocal rank fusion, unless `settings` contain it."""
        from kb.search.query.query_encoder import is_empty

        settings = options.pop("settings", None)  # if they are invalid, the search rejects them
        if isinstance(settings, Mapping) or not settings:
            settings = {"k": k, **(settings or {})}
        defaults = {"top": limit, "profile": "knowledge", "malformed": "empty"}
        vector = None if is_empty(embedding) else embedding
        return self._hits(query, vector, defaults, options, settings=settings)

    def _hits(
        self,
        query: str,
        embedding: Sequence[float] | None,
        defaults: dict[str, Any],
        options: dict[str, Any],
        **fixed: Any,
    ) -> tuple[Hit, ...]:
        vector = None
        if embedding is not None:
            from kb.search.query.query_encoder import normalize

            vector = normalize(embedding)
        request = SearchRequest(query, vector=vector, **fixed, **defaults | options)
        return self.execute(request).hits
