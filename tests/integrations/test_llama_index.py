"""The retriever for LlamaIndex."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kb import KnowledgeBase

pytest.importorskip("llama_index.core")
from kb.integrations.llama_index import KbRetriever


def test_nodes_have_text_score_and_citation(store: Path) -> None:
    nodes = KbRetriever(str(store), top_k=3).retrieve("anchor")
    assert len(nodes) == 3
    assert all(node.score is not None for node in nodes)
    assert all(node.metadata["source"].startswith("lib/") for node in nodes)
    assert "anchor" in nodes[0].get_content().lower()


def test_async(kb: KnowledgeBase) -> None:
    nodes = asyncio.run(KbRetriever(kb=kb, top_k=1).aretrieve("kedge"))
    assert [node.metadata["title"] for node in nodes] == ["Anchors"]
