"""The retriever for LangChain, also in LangChain's own tests where `langchain-tests` is
installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kb import Filters, KnowledgeBase

pytest.importorskip("langchain_core")
from kb.integrations.langchain import KbRetriever

try:
    from langchain_tests.integration_tests import RetrieversIntegrationTests
except ImportError:
    if not TYPE_CHECKING:
        RetrieversIntegrationTests = None


if RetrieversIntegrationTests is not None:

    class TestStandard(RetrieversIntegrationTests):
        """The tests that LangChain has for every retriever."""

        @pytest.fixture(autouse=True)
        def _use_store(self, store: Path) -> None:
            self._store = str(store)

        @property
        def retriever_constructor(self) -> type[KbRetriever]:
            return KbRetriever

        @property
        def retriever_constructor_params(self) -> dict[str, Any]:
            return {"store": self._store}

        @property
        def retriever_query_example(self) -> str:
            return "anchor"


def test_documents_have_text_and_citation(kb: KnowledgeBase) -> None:
    (document,) = KbRetriever(kb=kb, k=1).invoke("kedge mud")
    assert document.page_content == "# Anchors\n\nThe kedge holds in mud."
    assert document.metadata["source"] == "lib/anchors.md#L1-L3"
    assert Path(document.metadata["file"]).name == "anchors.md"
    assert (document.metadata["line"], document.metadata["title"]) == (1, "Anchors")


def test_filters(kb: KnowledgeBase) -> None:
    retriever = KbRetriever(kb=kb, filters=Filters(tags=("boat",)))
    assert [one.metadata["title"] for one in retriever.invoke("anchor")] == ["Chain"]


def test_any_text_is_a_query(kb: KnowledgeBase) -> None:
    for query in ("", "'", "AND OR (", "'\"unbalanced'"):
        assert isinstance(KbRetriever(kb=kb).invoke(query), list)
