"""Seed 004, keyword half: the full-text part of the knowledge search and its options.

Vectors, fusion, type weights and the access boost follow with dense retrieval.
"""

from __future__ import annotations

import pytest

from kb import Filters, KnowledgeBase, sanitize
from kb.errors import InvalidRequest
from tests.conftest import Clock

DAY = 86_400


class TestFts5KeywordSearch:
    def test_bm25_ranked(self, kb: KnowledgeBase) -> None:
        """Tested scenario: "SQLite storage" is ranked by BM25."""
        kb.add("SQLite storage is one file. Storage in SQLite is simple.", title="both")
        kb.add("Storage can be many things, such as a barn or a cellar.", title="one")
        kb.add("Nothing of the kind.", title="none")
        assert [hit.title for hit in kb.search("SQLite storage")] == ["both", "one"]

    def test_query_sanitization(self) -> None:
        """Special character sanitization, to the letter."""
        assert sanitize("test (query) *special*") == "test query special"
        assert sanitize('(){}[]^"~*?:\\') == ""

    @pytest.mark.parametrize("query", ['(){}[]^"~*?:\\', '"', "a AND (", "NEAR(a b)", "x NOT"])
    def test_malformed_queries_find_and_never_raise(self, kb: KnowledgeBase, query: str) -> None:
        kb.add("a near b and x")
        kb.search(query)
        kb.search_lexical(query)

    def test_a_malformed_expression_is_an_empty_list_in_the_library(
        self, kb: KnowledgeBase
    ) -> None:
        kb.add("a b")
        assert kb.search_lexical("'a AND'") == ()

    def test_empty_query(self, kb: KnowledgeBase) -> None:
        """Empty query handling: [] without errors."""
        kb.add("a b")
        assert kb.search_lexical("") == ()

    def test_default_limits(self, kb: KnowledgeBase) -> None:
        """10 for a search, 20 for a single retriever."""
        for number in range(30):
            kb.add(f"word {number}")
        assert len(kb.search("word")) == 10
        assert len(kb.search_lexical("word")) == 20
        assert len(kb.search_lexical("word", limit=3)) == 3


class TestFiltering:
    def test_types(self, kb: KnowledgeBase) -> None:
        """Type filtering: lessons only; several at once."""
        for kind in ("decision", "lesson", "summary", "temp_note"):
            kb.add("a word", kind=kind)
        kb.add("a word")
        assert [hit.kind for hit in kb.search("word", filters=Filters(kind=("lesson",)))] == [
            "lesson"
        ]
        found = kb.search("word", filters=Filters(kind=("decision", "lesson")))
        assert {hit.kind for hit in found} == {"decision", "lesson"}

    def test_scope(self, kb: KnowledgeBase) -> None:
        """Scope filtering: project-only results."""
        kb.add("a word", title="everywhere")
        kb.add("a word", title="here", scope="project")
        found = kb.search("word", filters=Filters(scope="project"))
        assert [hit.title for hit in found] == ["here"]

    def test_unknown_kind_and_scope_are_refused(self, kb: KnowledgeBase) -> None:
        with pytest.raises(InvalidRequest, match="kind"):
            kb.add("x", kind="idea")
        with pytest.raises(InvalidRequest, match="scope"):
            kb.add("x", scope="galaxy")


class TestExpiry:
    def test_expired_entries_are_absent_from_every_search(
        self, kb: KnowledgeBase, clock: Clock
    ) -> None:
        kb.add("a passing word", title="short", ttl="7d")
        kb.add("a lasting word", title="long", ttl="never")
        assert len(kb.search("word")) == 2
        clock.seconds += 7 * DAY + 1
        for filters in (Filters(), Filters(scope="global")):
            for match in ("any", "all", "auto"):
                found = kb.search("word", match=match, filters=filters)
                assert [hit.title for hit in found] == ["long"]
        assert kb.search("passing").hits == ()
        assert kb.search("'passing'").hits == ()
        assert kb.search("assin").hits == ()
        assert [document.title for document in kb.documents()] == ["long"]

    def test_gc_removes_them(self, kb: KnowledgeBase, clock: Clock) -> None:
        kb.add("a passing word", ttl="12h")
        clock.seconds += DAY
        assert kb.gc(dry_run=True) == ["note:1"]
        assert kb.gc() == ["note:1"]
        assert kb.gc() == []
        assert kb.documents(expired=True) == []


class TestIdentifiers:
    def test_ids_are_never_reused(self, kb: KnowledgeBase) -> None:
        """AUTOINCREMENT: a deleted entry's id does not come back."""
        first = kb.add("one")
        kb.remove(first.doc_path)
        assert kb.add("two").doc_id > first.doc_id

    def test_source_tracking(self, kb: KnowledgeBase) -> None:
        kb.add("a word")
        assert kb.search("word").hits[0].sources == ("fts",)
