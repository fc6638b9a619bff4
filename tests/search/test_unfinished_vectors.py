"""Searches while vectors are being computed: never worse than words alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.models.weightless import Weightless

QUERY = "which harbour has boats"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    """Twenty embedded passages about bread, then twenty about the harbour without vectors."""
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        for number in range(20):
            opened.add(f"how does a baker keep bread {number}", title=f"bread {number}")
        opened.embed()
        for number in range(20):
            boats = " boats" * (1 + number % 3)
            opened.add(f"the harbour {number} and its{boats}", title=f"harbour {number}")
        yield opened


def order(kb: KnowledgeBase, **asked: object) -> list[str]:
    return [hit.title for hit in kb.search(QUERY, top=40, **asked)]  # type: ignore[arg-type]


def test_words_alone_decide_while_their_passages_have_no_vectors(kb: KnowledgeBase) -> None:
    words = order(kb, mode="lexical")
    assert order(kb)[: len(words)] == words
    assert len(words) == 20


def test_vectors_count_as_soon_as_they_are_there(kb: KnowledgeBase) -> None:
    kb.embed()
    assert order(kb) == order(kb, settings={"coverage": False})


def test_a_single_new_note_changes_no_weights(kb: KnowledgeBase) -> None:
    kb.embed()
    kb.add("the harbour and its new boats", title="new")
    found = kb.search(QUERY, top=41, explain=True)
    assert "new" in [hit.title for hit in found]
    assert found.explain is not None
    fuse = next(one for one in found.explain["stages"] if one["stage"] == "fuse")
    assert "passages by words" not in fuse.get("rules", "")


def test_it_is_explained(kb: KnowledgeBase) -> None:
    explain = kb.search(QUERY, explain=True).explain
    assert explain is not None
    fuse = next(one for one in explain["stages"] if one["stage"] == "fuse")
    assert "dense has " in fuse["rules"]
    assert fuse["weights"]["dense"] == 0.0


# --- the order of work ----------------------------------------------------------------------------


def embedded(kb: KnowledgeBase) -> set[str]:
    """The titles of the passages with vectors."""
    return {hit.title for hit in kb.search("bread harbour", mode="vector", top=50)}


def test_candidates_of_searches_are_embedded_first(kb: KnowledgeBase) -> None:
    (old,) = [hit.title for hit in kb.search('"harbour 3"', mode="lexical", match="all", top=1)]
    before = embedded(kb)
    kb.search("harbour 3", top=5)
    kb.embed(limit=1)
    assert embedded(kb) - before == {old}


def test_the_newest_documents_are_embedded_next(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        for name, day in (("old", 1), ("new", 3), ("between", 2)):
            text = f"---\nupdated: 2026-01-0{day}\n---\nbread of the {name} baker"
            (folder / f"{name}.md").write_text(text)
        kb.ingest(folder)
        for expected in ({"new"}, {"new", "between"}, {"new", "between", "old"}):
            kb.embed(limit=1)
            assert embedded(kb) == expected
