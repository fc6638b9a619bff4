"""A retriever for LlamaIndex (extra `llama-index`).

from kb.integrations.llama_index import KbRetriever

retriever = KbRetriever(store="~/notes/.kb/kb.sqlite", top_k=5)
nodes = retriever.retrieve("how long do the batteries last?")
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from kb.integrations import passages
from kb.library.knowledge_base import KnowledgeBase
from kb.types import Filters


class KbRetriever(BaseRetriever):
    """Searches a knowledge base. Each node is a whole passage, with its citation as `source` in the
    metadata. Its score is the probability that it is relevant to the query or, if that is unknown,
    the score of the search.

    `kb` is an open knowledge base; without it, the one at `store` is opened.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        kb: KnowledgeBase | None = None,
        top_k: int = 5,
        profile: str | None = None,
        filters: Filters | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._kb = kb or KnowledgeBase(store)
        self._top_k = top_k
        self._profile = profile
        self._filters = filters

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = passages.search(
            self._kb, query_bundle.query_str, self._top_k, self._profile, self._filters
        )
        return [
            NodeWithScore(
                node=TextNode(
                    id_=str(hit.chunk_id),
                    text=hit.text or hit.snippet,
                    metadata=passages.metadata_of(hit),
                    excluded_embed_metadata_keys=["chunk_id", "relevance", "score"],
                    excluded_llm_metadata_keys=["chunk_id", "file", "link", "relevance", "score"],
                ),
                score=hit.relevance if hit.relevance is not None else hit.score,
            )
            for hit in hits
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
