from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.store.sqlite.store import SqliteStore
from tests.conftest import Clock
from tests.store.library import LIBRARY


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "kb.sqlite", clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def filled(kb: KnowledgeBase, clock: Clock) -> KnowledgeBase:
    """The example library, notes in other scripts, and holes in the ids."""
    kb.ingest(LIBRARY)
    kb.add("東京は日本の首都です。用kb搜索 targetHost", tags=["地名"], title="東京")
    gone = kb.add("北京是中国的首都。", ttl="7d")
    kb.add("a note that stays", metadata={"base64": "eA==", "n": 1.5}, kind="lesson")
    kb.remove(gone.doc_path)
    kb.add("and one that goes", ttl="1h")
    kb.tag("library/lessons/retry-storm.md", add=["mine"])
    kb.get("library/lessons/retry-storm.md")
    return kb
