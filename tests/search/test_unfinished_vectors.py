"""Searches while vectors are being made: never worse than words alone."""

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
