"""Similar passages: a search with the stored vectors of a passage or a document.

If there are no vectors yet, or their model failed its exam, the words of the passage are the query,
and the response reports that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING

from kb.search.query.query_encoder import normalize
from kb.search.retrievers.availability import exam_verdict
from kb.search.searcher import Searcher
from kb.types import Chunk, Degraded, Response, SearchRequest, Vector

if TYPE_CHECKING:
    from kb.ports import Store

PROFILE = "similar"
_QUERY_CHARS = 1500  # of the passage, if its words are the query


def similar(
    searcher: Searcher, store: Store, request: SearchRequest, chunks: Sequence[Chunk]
) -> Response:
    """The passages nearest to the mean of `chunks`, without `chunks` themselves. The response shows
    `request.query` as the query; the other fields of the request apply as usual."""
    ids = frozenset(chunk.chunk_id for chunk in chunks)
    text = " ".join(chunk.text for chunk in chunks)[:_QUERY_CHARS]
    model = next(iter(store.vectors.models()), None)
    vectors = store.vectors.dense_vectors(model.model_id, ids) if model is not None else {}
    verdict = exam_verdict(model, "dense", text) if vectors else ""
    base = replace(request, exclude=ids, rerank=False)
    if vectors and not verdict:
        center = normalize(mean(vectors.values()))
        response = searcher.search(
            replace(base, query="", profile="notes", mode="vector", vector=center)
        )
    else:
        response = searcher.search(
            replace(base, query=_plain(text), profile="lexical", match="any")
        )
        reason = (
            Degraded("dense", "unfit", verdict) if verdict else _missing_vectors(searcher, len(ids))
        )
        response = replace(response, degraded=(*response.degraded, reason))
    explain = response.explain and {**response.explain, "profile": PROFILE}
    # Relevance is calibrated for questions, not for passages as queries.
    hits = tuple(replace(hit, relevance=None) for hit in response.hits)
    return replace(response, query=request.query, profile=PROFILE, hits=hits, explain=explain)


def _missing_vectors(searcher: Searcher, chunks: int) -> Degraded:
    """Why there are no vectors: there is no encoder, or it has not encoded the passages yet."""
    pending = Degraded("dense", "pending", chunks)
    reasons = searcher.status().required().degraded
    return next((part for part in reasons if part.reason == "no_model"), pending)


def mean(vectors: Iterable[Vector[float]]) -> list[float]:
    """The sum of vectors, which has the direction of their mean."""
    return [fsum(values) for values in zip(*vectors, strict=True)]


def _plain(text: str) -> str:
    """The text without quotes around it, so that it is not read as an FTS5 expression."""
    return text.strip().strip("'")
