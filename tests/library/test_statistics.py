"""Figures about a library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.models.weightless import Weightless
from tests.schemas import validate


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "old.md").write_text("---\ndate: 2020-01-05\nupdated: 2020-01-05\n---\nAn old text.")
    (folder / "hub.md").write_text("---\ndate: 2026-02-01\n---\nSee [[leaf]].")
    (folder / "leaf.md").write_text("---\ndate: 2026-02-03\n---\nA leaf of the hub.")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        opened.ingest(folder)
        opened.add("The heron sleeps in the reeds.", tags=["birds"], kind="lesson", lang="en")
        opened.add("The heron sleeps in the reeds.", kind="lesson")
        opened.embed()
        yield opened


def paths(documents: list[dict[str, str]]) -> list[str]:
    return [each["doc_path"] for each in documents]


def test_documents_are_counted(kb: KnowledgeBase) -> None:
    figures = kb.statistics()
    validate(figures)
    assert (figures["documents"], figures["left_out"]) == (5, 0)
    assert figures["kinds"] == {"none": 3, "lesson": 2}
    assert figures["formats"] == {"markdown": 3, "note": 2}
    assert sum(figures["languages"].values()) == 5
    months = {each["month"]: each["documents"] for each in figures["months"]}
    assert (months["2020-01"], months["2026-02"]) == (1, 2)


def test_documents_that_deserve_a_look(kb: KnowledgeBase) -> None:
    kb.get("lib/leaf.md")
    figures = kb.statistics()
    assert paths(figures["most_read"]) == ["lib/leaf.md"]
    assert paths(figures["orphans"]) == ["lib/old.md", "note:5"]
    (pair,) = figures["near_duplicates"]
    assert paths(pair["documents"]) == ["note:4", "note:5"]
    assert "lib/hub.md" not in paths(figures["stale"])


def test_an_empty_store(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.create()
        assert kb.statistics()["months"] == []
