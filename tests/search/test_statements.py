"""How many SQL statements a search runs: what one snapshot needs is read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase
from tests.models.weightless import Weightless

LIMIT = 12  # BEGIN and ROLLBACK included
TEXTS = (
    "the harbour keys hang in the office",
    "a boat lies in the harbour in the morning",
    "retry storms and how to calm them",
    "backup and restore of the buoy's battery log",
)
QUERIES = (
    "harbour",
    "harbour keys in the morning",
    "how do I restore a backup?",
    "what calms a retry storm",
    "battery_log()",
)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of all connections that are opened from now on."""
    seen: list[str] = []

    def trace(connection: apsw.Connection) -> None:
        def record(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
            seen.append(sql)
            return True

        connection.exec_trace = record

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace])
    return seen


@pytest.fixture
def kb(tmp_path: Path, statements: list[str]) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        for text in TEXTS:
            opened.add(text)
        opened.embed()
        opened.search("warm")  # opens the connection, builds the matrix
        yield opened


def count(kb: KnowledgeBase, statements: list[str], query: str, profile: str | None) -> int:
    statements.clear()
    response = kb.search(query, profile=profile)
    assert response.hits
    assert not response.degraded
    return len(statements)


@pytest.mark.parametrize("query", QUERIES)
def test_a_default_search(kb: KnowledgeBase, statements: list[str], query: str) -> None:
    assert count(kb, statements, query, None) <= LIMIT, "\n".join(statements)
    stages = kb.search(query, explain=True).explain
    assert stages is not None
    assert {"lexical", "dense", "sparse"} <= {stage["stage"] for stage in stages["stages"]}


@pytest.mark.parametrize(("profile", "most"), [("lexical", 9), ("notes", 10), ("research", 13)])
def test_other_profiles(kb: KnowledgeBase, statements: list[str], profile: str, most: int) -> None:
    for query in QUERIES:
        assert count(kb, statements, query, profile) <= most, "\n".join(statements)


def test_the_model_is_read_once(kb: KnowledgeBase, statements: list[str]) -> None:
    count(kb, statements, "harbour", "research")
    assert sum("FROM models" in sql for sql in statements) == 1
    assert sum("vector_changes" in sql for sql in statements) == 1
    assert sum("FROM state" in sql and "FROM models" not in sql for sql in statements) == 1


def test_a_snapshot_ends_with_the_search(kb: KnowledgeBase) -> None:
    """Nothing that was read in one snapshot is used in the next one."""
    before = kb.index_version()
    assert kb.search("unheard").returned == 0 or kb.search("unheard").hits[0].title != "unheard"
    kb.add("unheard of", title="unheard")
    assert kb.index_version() != before
    assert kb.search("unheard", mode="lexical").hits[0].title == "unheard"
    assert kb.pending() == 1
    kb.embed()
    assert kb.pending() == 0
