"""Seed 000, lexical half: keyword search, tags, types, threshold and count.

The vector and fusion scenarios follow with dense retrieval.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kb import Filters, KnowledgeBase
from kb.errors import InvalidRequest

Library = Callable[[dict[str, str]], Path]


@pytest.fixture
def notes(kb: KnowledgeBase, library: Library) -> KnowledgeBase:
    root = library(
        {
            "install.md": "# Setup\n\nThe installation of git takes a minute.\n",
            "git.md": "# Git\n\nGit keeps every version of a file.\n",
            "deploy.md": "---\ntags: [ops, production]\n---\n# Deploy\n\nDeploy with the script.\n",
            "staging.md": "---\ntags: [ops]\n---\n# Staging\n\nDeploy to staging first.\n",
            "deploy.py": 'def deploy(host):\n    """Deploy to a host."""\n    return host\n',
            "bread.txt": "Flour, water, salt.\n",
        }
    )
    kb.ingest(root)
    return kb


def paths(found: object) -> list[str]:
    return [hit.doc_path for hit in found]  # type: ignore[attr-defined]  # a Response iterates hits


class TestFullTextSearchViaFts5:
    """Requirement: Full-text search via FTS5."""

    def test_keyword_search(self, notes: KnowledgeBase) -> None:
        """Scenario: Keyword search: either word, stemmed variants too, ranked by BM25."""
        found = notes.search("install git")
        assert paths(found) == ["lib/install.md", "lib/git.md"]
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)

    def test_fts_only_mode(self, notes: KnowledgeBase) -> None:
        """Scenario: FTS-only mode."""
        found = notes.search("install git", mode="lexical")
        assert found.mode == "lexical"
        assert all(hit.sources == ("fts",) for hit in found)
        assert all(hit.retrieval.vector_rank is None for hit in found)

    def test_synchronised_by_triggers(self, notes: KnowledgeBase, library: Library) -> None:
        """The FTS table follows every change of the chunks."""
        root = library({"git.md": "# Git\n\nMercurial, rather.\n"})
        notes.ingest(root)
        assert paths(notes.search("git version")) == ["lib/git.md", "lib/install.md"]
        assert paths(notes.search("mercurial")) == ["lib/git.md"]
        (root / "git.md").unlink()
        notes.ingest(root)
        assert paths(notes.search("mercurial")) == []

    @pytest.mark.parametrize("query", ['"git', "git*", "git AND", "(git)", "git:", "^git", "-git"])
    def test_special_characters_are_escaped(self, notes: KnowledgeBase, query: str) -> None:
        assert "lib/git.md" in paths(notes.search(query))


class TestTagBasedFiltering:
    """Requirement: Tag-based filtering."""

    def test_filter_by_single_tag(self, notes: KnowledgeBase) -> None:
        """Scenario: Filter by single tag."""
        found = notes.search("deploy", filters=Filters(tags=("ops",)))
        assert sorted(paths(found)) == ["lib/deploy.md", "lib/staging.md"]

    def test_filter_by_multiple_tags(self, notes: KnowledgeBase) -> None:
        """Scenario: Filter by multiple tags: all of them."""
        found = notes.search("deploy", filters=Filters(tags=("ops", "production")))
        assert paths(found) == ["lib/deploy.md"]


class TestTypeBasedFiltering:
    """Requirement: Type-based filtering."""

    def test_filter_by_type(self, notes: KnowledgeBase) -> None:
        """Scenario: Filter by type."""
        found = notes.search("deploy", filters=Filters(type=("code",)))
        assert paths(found) == ["lib/deploy.py"]

    def test_valid_types_are_listed(self, notes: KnowledgeBase) -> None:
        with pytest.raises(InvalidRequest) as error:
            notes.search("deploy", filters=Filters(type=("film",)))
        assert "pdf, markdown, code, note" in error.value.hint


class TestScoreThreshold:
    """Requirement: Score threshold: it compares with the score that is shown."""

    def test_apply_score_threshold(self, notes: KnowledgeBase) -> None:
        """Scenario: Apply score threshold."""
        scores = [hit.score for hit in notes.search("install git")]
        cut = notes.search("install git", threshold=scores[0])
        assert [hit.score for hit in cut] == scores[:1]
        assert len(notes.search("install git", threshold=0.0)) == len(scores)
        assert len(notes.search("install git", threshold=1.0)) == 0


class TestResultCountControl:
    """Requirement: Result count control."""

    def test_request_specific_number_of_results(self, notes: KnowledgeBase) -> None:
        """Scenario: Request specific number of results."""
        for number in range(30):
            notes.add(f"deploy note {number}")
        assert notes.search("deploy", top=5).returned == 5
        assert notes.search("deploy").returned == 10

    def test_default_top_is_a_setting(
        self, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(30):
            kb.add(f"deploy note {number}")
        monkeypatch.setenv("KB_SEARCH_DEFAULT_TOP", "7")
        with KnowledgeBase(kb.path) as again:
            assert again.search("deploy").returned == 7

    def test_fewer_matches_than_requested(self, notes: KnowledgeBase) -> None:
        """Scenario: Fewer matches than requested: `returned: 3`."""
        assert notes.search("deploy", top=10).returned == 3
