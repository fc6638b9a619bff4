"""A retriever from outside kb: ranks chunks by how often they contain the letter z."""

from __future__ import annotations

from collections.abc import Iterable

from kb.search.context import SearchContext
from kb.search.query.analysis import Analysis
from kb.search.retrievers.base import Candidates, RetrievalRequest
from kb.search.retrievers.registry import RetrieverSpec
from kb.types import ScoredChunk

CHUNKS = (1, 2, 3)


class LetterRetriever:
    name = "letters"
    is_slow = False

    def __init__(self, context: SearchContext) -> None:
        self._store = context.store

    def __repr__(self) -> str:
        return "letters(z)"

    def search(self, request: RetrievalRequest) -> Candidates:
        counts = self._counts(CHUNKS)
        order = sorted((chunk for chunk in counts if counts[chunk]), key=lambda one: -counts[one])
        chunks = (ScoredChunk(one, counts[one], rank) for rank, one in enumerate(order, start=1))
        return Candidates(tuple(chunks)[: request.limit])

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float]:
        return self._counts(chunk_ids)

    def missing(self, chunk_ids: Iterable[int]) -> frozenset[int]:
        return frozenset()

    def _counts(self, chunk_ids: Iterable[int]) -> dict[int, float]:
        chunks = self._store.catalog.chunks_by_id(chunk_ids)
        return {chunk_id: float(chunk.text.count("z")) for chunk_id, chunk in chunks.items()}


LETTERS = RetrieverSpec(
    name="letters",
    mode="zeds",
    label="letters",
    source="zed",
    score_kind="count",
    implementation="tests.search.toy_retriever:LetterRetriever",
    index_version=lambda store: store.catalog.version(),
)
