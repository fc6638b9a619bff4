"""What is specific to FTS5: leaving out common terms changes no score, and errors of its tables."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from kb.errors import IndexUnusable, StoreMissing
from kb.store import lexical_terms
from kb.store.sqlite import fulltext, functions
from kb.store.sqlite.store import SqliteStore
from kb.text.normalize import count_substrings
from kb.types import Filters, LexicalQuery, TextMatches
from tests.store.builders import put

NOW = "2026-05-28T00:00:00Z"


def words(*each: str) -> LexicalQuery:
    return LexicalQuery(tuple((word,) for word in each))


def match(store: SqliteStore, query: LexicalQuery, **options: object) -> TextMatches:
    asked: dict[str, object] = {"every": False, "filters": Filters(), "now": NOW, "limit": 10}
    return store.fulltext.match(query, **(asked | options))  # type: ignore[arg-type]  # keywords by name


def test_pruned_and_unpruned_agree(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    vocabulary = [f"w{n}" for n in range(30)]
    weights = [1 / (n + 1) for n in range(30)]
    put(store, "a", *(" ".join(chance.choices(vocabulary, weights, k=20)) for _ in range(300)))
    queries = [words(*dict.fromkeys(chance.choices(vocabulary, weights, k=4))) for _ in range(50)]
    pruned = [match(store, query) for query in queries]
    monkeypatch.setattr(lexical_terms, "_COMMON", 1.0)
    full = [match(store, query) for query in queries]
    assert any(one.dropped_terms for one in pruned)
    for one, other in zip(pruned, full, strict=True):
        ours = [round(hit.score, 3) for hit in one.chunks]
        assert ours == [round(hit.score, 3) for hit in other.chunks]


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE chunks_fts",
        "DELETE FROM chunks_fts_data",
        "UPDATE state SET chunks = 'many'",
    ],
)
def test_a_damaged_index_has_its_own_error(store: SqliteStore, damage: str) -> None:
    """Only this error makes the lexical retriever scan the text."""
    put(store, "a", "word")
    with store._database.writing() as connection:
        connection.execute(damage)
    store.close()
    with pytest.raises(IndexUnusable):
        match(store, words("word", "other"))
    found = store.fulltext.scan_substrings(["word"], filters=Filters(), now=NOW, limit=3)
    assert len(found.chunks) == 1


def test_other_errors_are_unchanged(store: SqliteStore) -> None:
    with pytest.raises(StoreMissing):
        match(store, words("word"))


def test_characters_whose_lower_case_is_ascii() -> None:
    """LIKE does not know them, so texts with one of them are always read."""
    codes = (code for code in range(128, 0x110000) if not 0xD800 <= code < 0xE000)
    assert (
        "".join(chr(code) for code in codes if any(map(str.isascii, chr(code).lower())))
        == fulltext.BECOME_ASCII
    )


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("300 \u212aelvin", "kelv"),
        ("\u0130zmir", "\u0130zmir".lower()[:1]),
        ("GRÖSSE der Größen", "größ"),
        ("100 % sure", "0 % s"),
        ("a_b", "A_B"),
        ("wow!", "OW!"),
    ],
)
def test_substrings_ignore_case(store: SqliteStore, text: str, term: str) -> None:
    put(store, "a", text, "100 x sure, aXb")
    found = store.fulltext.match_substrings([term], filters=Filters(), now=NOW, limit=3)
    assert len(found.chunks) == 1


def test_a_substring_is_read_no_further_than_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its first word is typed, a query is a part of a word at almost every key."""
    read: list[str] = []

    def counted(text: str, terms: tuple[str, ...]) -> int:
        read.append(text)
        return count_substrings(text, terms)

    monkeypatch.setattr(functions, "count_substrings", counted)
    with closing(SqliteStore(tmp_path / "kb.sqlite")) as store:
        put(store, "a", *("The boathouse is shut." for _ in range(50)))
        found = store.fulltext.match_substrings(["oathou"], filters=Filters(), now=NOW, limit=3)
        assert [one.chunk_id for one in found.chunks] == [1, 2, 3]
        assert len(read) <= 4


def test_a_long_substring(store: SqliteStore) -> None:
    """SQLite limits the patterns of LIKE to 50,000 bytes."""
    long = "x" * 60_000
    put(store, "a", f"a{long}b", "short")
    found = store.fulltext.match_substrings([long], filters=Filters(), now=NOW, limit=3)
    assert len(found.chunks) == 1


def test_many_substrings(store: SqliteStore) -> None:
    put(store, "a", "boathouse", "tree")
    terms = [f"none{number}" for number in range(20)] + ["oathou"]
    found = store.fulltext.match_substrings(terms, filters=Filters(), now=NOW, limit=3)
    assert len(found.chunks) == 1


@pytest.mark.parametrize("phrase", ["a few words", "\u4e2d\u6587"])
def test_a_filter_does_not_repeat_the_lookup_of_phrases(store: SqliteStore, phrase: str) -> None:
    """FTS5 must look up the phrases once, and not once for every passage that the filter allows."""
    put(store, "a", "a few words", "\u4e2d\u6587")
    plans: list[str] = []

    class Explained:
        def __init__(self, connection: apsw.Connection) -> None:
            self._connection = connection

        def execute(self, sql: str, params: tuple[Any, ...] = ()) -> apsw.Cursor:
            rows = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            plans.extend(row[3] for row in rows)
            return self._connection.execute(sql, params)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    with store._database.reading() as connection:
        found = fulltext.match_phrases(
            Explained(connection),  # type: ignore[arg-type]  # stands in for a connection
            [phrase], prefer=(), filters=Filters(type=("note",)), now=NOW, limit=5,
        )  # fmt: skip
    assert len(found) == 1
    lookups = [plan for plan in plans if "VIRTUAL TABLE INDEX" in plan and "chunks_" in plan]
    assert lookups
    assert not [plan for plan in lookups if ":=" in plan]  # a lookup of one rowid
