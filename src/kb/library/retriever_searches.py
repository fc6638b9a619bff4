"""Searches with a fixed set of retrievers [004], where the number of hits is called `limit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.types import SearchRequest
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Hit

Options = dict[str, Any]  # fields of `SearchRequest`


def lexical(kb: KnowledgeBase, query: str, limit: int, options: Options) -> tuple[Hit, ...]:
    """See `KnowledgeBase.search_lexical`."""
    defaults: Options = {"top": limit, "profile": "lexical", "malformed": "empty"}
    return kb.search(query, mode="lexical", **defaults | options).hits


def sparse(kb: KnowledgeBase, query: str, limit: int, options: Options) -> tuple[Hit, ...]:
    """See `KnowledgeBase.search_sparse`."""
    defaults: Options = {"top": limit, "profile": "research"}
    return kb.search(query, mode="sparse", **defaults | options).hits


def dense(
    kb: KnowledgeBase, query: str, embedding: Sequence[float] | None, limit: int, options: Options
) -> tuple[Hit, ...]:
    """See `KnowledgeBase.search_vector`."""
    from kb.search.query.query_encoder import is_empty

    if is_empty(embedding):
        return ()
    defaults: Options = {"top": limit, "profile": "notes"}
    return _execute(kb, query, embedding, mode="vector", **defaults | options)


def hybrid(
    kb: KnowledgeBase,
    query: str,
    embedding: Sequence[float] | None,
    limit: int,
    k: float,
    options: Options,
) -> tuple[Hit, ...]:
    """See `KnowledgeBase.search_hybrid`."""
    from kb.search.query.query_encoder import is_empty

    settings = options.pop("settings", None)  # if they are invalid, the search rejects them
    if isinstance(settings, Mapping) or not settings:
        settings = {"k": k, **(settings or {})}
    defaults: Options = {"top": limit, "profile": "knowledge", "malformed": "empty"}
    vector = None if is_empty(embedding) else embedding
    return _execute(kb, query, vector, settings=settings, **defaults | options)


def _execute(
    kb: KnowledgeBase, query: str, embedding: Sequence[float] | None, **options: Any
) -> tuple[Hit, ...]:
    from kb.search.query.query_encoder import normalize

    vector = None if embedding is None else normalize(embedding)
    return kb.execute(SearchRequest(query, vector=vector, **options)).hits
