"""Looks for passages that contain the query literally, in the whole index (see
`ranking.literal`)."""

from __future__ import annotations

from collections.abc import Iterable

from kb.errors import IndexUnusable
from kb.search.ranking.literal import NONE, Evidence, evidence, literal_query
from kb.search.retrievers.base import Candidates, RetrievalRequest
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.ports import Store

LIMIT = 100  # passages to read; those that a retriever returned come first


def find_literal(
    store: Store, request: RetrievalRequest, lexical: Candidates, prefer: Iterable[int]
) -> dict[int, Evidence]:
    """The passages that contain the query or a part of it, by chunk id. `lexical` holds the
    candidates by words, and `prefer` those of all retrievers. Empty for FTS5 expressions, and if
    the index cannot be used."""
    analysis = request.analysis
    if analysis.empty or analysis.expression is not None:
        return {}
    query = literal_query(analysis.text, lexical.idf, lexical.frequencies.chunks)
    try:
        texts = store.fulltext.match_phrases(
            query.phrases(),
            prefer=prefer,
            filters=request.filters,
            now=request.now,
            limit=LIMIT,
        )
    except IndexUnusable:  # the lexical retriever reports it
        return {}
    found = {chunk_id: evidence(query, text) for chunk_id, text in texts.items()}
    return {chunk_id: one for chunk_id, one in found.items() if one != Evidence(NONE)}
