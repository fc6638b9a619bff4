"""A retriever for LangChain (extra `langchain`).

from kb.integrations.langchain import KbRetriever

retriever = KbRetriever(store="~/notes/.kb/kb.sqlite", k=5)
documents = retriever.invoke("how long do the batteries last?")
"""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, PrivateAttr

from kb.integrations import passages
from kb.library.knowledge_base import KnowledgeBase
from kb.types import Filters


class KbRetriever(BaseRetriever):
    """Searches a knowledge base. Each document is a whole passage, with its citation as `source` in
    the metadata.

    `kb` is an open knowledge base; without it, the one at `store` is opened when it is first used.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    store: str | None = None
    kb: Any = None
    k: int = 5
    profile: str | None = None
    filters: Filters | None = None
    _opened: KnowledgeBase | None = PrivateAttr(default=None)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 (LangChain passes it by name)
        **options: Any,
    ) -> list[Document]:
        hits = passages.search(
            self._knowledge_base(),
            query,
            options.get("k", self.k),
            options.get("profile", self.profile),
            options.get("filters", self.filters),
        )
        return [
            Document(
                page_content=hit.text or hit.snippet,
                metadata=passages.metadata_of(hit),
                id=str(hit.chunk_id),
            )
            for hit in hits
        ]

    def _knowledge_base(self) -> KnowledgeBase:
        if self.kb is not None:
            opened: KnowledgeBase = self.kb
            return opened
        if self._opened is None:
            self._opened = KnowledgeBase(self.store)
        return self._opened
