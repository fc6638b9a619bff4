"""Links between documents: read from Markdown, and a filter in every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import Filters, KnowledgeBase

VAULT = {
    "Anchors.md": "# Anchors\n\nThe kedge holds in mud. #boat\n",
    "sea/Tide.md": "---\naliases: [Ebb]\n---\nThe anchor drags, see [[Anchors|the kedge]].\n",
    "sea/Chain.md": "An anchor chain: [it](../Anchors.md#kedge) and [[Tide]].\n",
    "Rope.md": "An anchor rope, without links; links_to is a word.\n",
    "Odd.md": "---\nlinks_to: anchors\n---\nan anchor\n",
}


@pytest.fixture
def vault(kb: KnowledgeBase, tmp_path: Path) -> KnowledgeBase:
    for name, text in VAULT.items():
        path = tmp_path / "vault" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    kb.ingest(tmp_path / "vault")
    return kb


def linking(kb: KnowledgeBase, name: str) -> list[str]:
    return [document.doc_path for document in kb.documents(Filters(links_to=name))]


def test_documents_that_link_to_another(vault: KnowledgeBase) -> None:
    wanted = ["vault/sea/Chain.md", "vault/sea/Tide.md"]
    for name in ("vault/Anchors.md", "Anchors", "anchors.MD", "vault/Anchors.md#L3"):
        assert [path for path in linking(vault, name) if path != "vault/Odd.md"] == wanted
    assert linking(vault, "vault/sea/Tide.md") == ["vault/sea/Chain.md"]
    assert linking(vault, "nothing") == []


def test_a_name_is_the_end_of_a_path(kb: KnowledgeBase, tmp_path: Path) -> None:
    for name, text in {
        "sub/deep.md": "sub text",
        "by_path.md": "see [x](sub/deep.md)",
        "by_name.md": "see [[deep]]",
        "by_reference.md": "see [x][y]\n\n[y]: sub/deep.md",
        "other.md": "see [[not_deep]] [[sub]]",
    }.items():
        path = tmp_path / "lk" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kb.ingest(tmp_path / "lk")
    for name in ("deep.md", "Deep", "sub/deep.md", "lk/sub/deep.md"):
        assert linking(kb, name) == ["lk/by_name.md", "lk/by_path.md", "lk/by_reference.md"], name
    assert linking(kb, ".") == []


def test_searches_are_filtered(vault: KnowledgeBase) -> None:
    response = vault.search("anchor", filters=Filters(links_to="vault/sea/Tide.md"), mode="lexical")
    assert [hit.doc_path for hit in response.hits] == ["vault/sea/Chain.md"]


def test_links_tags_and_aliases(vault: KnowledgeBase) -> None:
    assert vault.document("vault/sea/Chain.md").metadata["links_to"] == ["anchors", "tide"]
    assert vault.document("vault/Anchors.md").tags == ("boat",)
    (hit, *_) = vault.search("Ebb", mode="lexical").hits
    assert hit.doc_path == "vault/sea/Tide.md"
