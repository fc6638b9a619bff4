"""Reads that a standby ends, because it has to replay a change that conflicts with them.

The standby is played by the primary, which ends a read on purpose: only the connection pool knows
the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from kb import KnowledgeBase
from kb.deadline import Deadline
from kb.store.postgres.session import Session
from tests.models.weightless import Weightless, unexamined
from tests.postgres import Server

Read = Callable[[KnowledgeBase], Any]


@pytest.fixture
def kb(postgres: Server, schema: str) -> Iterator[KnowledgeBase]:
    url = postgres.url(schema=schema, read="standby")
    with KnowledgeBase(url, config=unexamined(), encoder=Weightless()) as kb:
        for number in range(5):
            kb.add(f"The harbour has {number} cranes. Boats wait for the tide.")
        kb.embed()
        yield kb


class Conflict:
    """Ends a read on the standby at one of its statements; the later ones fail too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left = at
        execute = Session.execute

        def run(session: Session, sql: str, params: Any = None) -> Any:
            self.left -= session.on_standby
            if self.left == 0 and session.on_standby:
                with suppress(psycopg.Error):
                    session.connection.execute("SELECT 1 / 0")
                raise psycopg.errors.SerializationFailure("conflict with recovery")
            return execute(session, sql, params)

        monkeypatch.setattr(Session, "execute", run)


def reads_standby(kb: KnowledgeBase) -> bool:
    with kb._store.snapshot() as session:
        assert isinstance(session, Session)
        return session.on_standby


READS: dict[str, Read] = {
    "search": lambda kb: [hit.doc_path for hit in kb.search("harbour", mode="lexical").hits],
    "hybrid": lambda kb: [(hit.doc_path, hit.sources) for hit in kb.search("harbour").hits],
    "similar": lambda kb: [hit.doc_path for hit in kb.similar("note:1").hits],
    "ask": lambda kb: kb.ask("How many cranes has the harbour?").answered,
    "compare": lambda kb: {
        name: method.error for name, method in kb.compare("harbour").methods.items()
    },
    "status": lambda kb: kb.status()["documents"],
    "documents": lambda kb: [each.doc_path for each in kb.documents()],
    "get": lambda kb: kb.get("note:1", count=False).text,
    "statistics": lambda kb: kb.statistics()["documents"],
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("at", [1, 4])
def test_a_read_that_a_standby_ends_is_repeated_on_the_primary(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, name: str, at: int
) -> None:
    assert reads_standby(kb)
    read = READS[name]
    expected = read(kb)
    conflict = Conflict(monkeypatch, at)
    with Deadline(60.0):  # as in a server, where a read under a deadline is not retried
        assert read(kb) == expected
    assert reads_standby(kb) == (conflict.left > 0)
