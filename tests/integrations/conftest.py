"""A small library that the integrations search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase

TEXTS = {
    "anchors.md": "# Anchors\n\nThe kedge holds in mud.\n",
    "tide.md": "# Tide\n\nThe tide turns at noon, and the anchor drags.\n",
    "chain.md": "---\ntags: [boat]\n---\n# Chain\n\nAn anchor chain of ten metres.\n",
    "rope.md": "# Rope\n\nThe anchor rope is of nylon.\n",
}


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("integrations")
    (folder / "lib").mkdir()
    for name, text in TEXTS.items():
        (folder / "lib" / name).write_text(text, "utf-8")
    with KnowledgeBase(folder / "kb.sqlite", encoder="none") as kb:
        kb.ingest(folder / "lib")
    return folder / "kb.sqlite"


@pytest.fixture
def kb(store: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(store, encoder="none") as opened:
        yield opened
