"""Seed 000: keyword search, vector search, their fusion by rank, tags, types, threshold, count.

Synonyms are given by hand: `CONCEPTS` lists the words with the same meaning.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

import pytest

from kb import Filters, KnowledgeBase
from kb.cli.run import run as run_kb
from kb.errors import InvalidRequest, ModelMismatch
from kb.types import Encoding, ModelSpec
from tests.conftest import Clock
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store, write_vectors

Library = Callable[[dict[str, str]], Path]

CONCEPTS = (("git", "version", "control", "mercurial"), ("install", "set", "up", "setup"),
            ("deploy", "release", "staging"), ("flour", "bread", "salt"))  # fmt: skip


class Concepts:
    """An encoder that knows a few synonyms."""

    spec = ModelSpec("concepts", "1", len(CONCEPTS) + 1, frozenset({"dense"}))

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        return [Encoding(dense=self._dense(text.lower().split())) for text in texts]

    def _dense(self, words: list[str]) -> array[float]:
        counts = [sum(word.strip(".,") in group for word in words) for group in CONCEPTS]
        return array("f", [*counts, 0.01])


@pytest.fixture
def kb(place: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[KnowledgeBase]:
    """A knowledge base that uses sqlite-vec in SQLite, as the seed requires."""
    monkeypatch.setenv("KB_STORE_VECTOR_BACKEND", "sqlite-vec")
    with KnowledgeBase(place, clock=clock, encoder=Concepts()) as opened:
        yield opened


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
    kb.embed()
    return kb


AHEAD = [1, 0, 0, 0, 0]  # a query's vector
MANY = 400  # more better passages than any margin over the requested count


def by_hand(kb: KnowledgeBase, notes: dict[str, tuple[str, float | None]]) -> None:
    """Add notes by title: a text, and the cosine to `AHEAD`; None: without a vector."""
    rows = []
    for title, (text, cosine) in notes.items():
        (chunk,) = kb.chunks(kb.add(text, title=title).doc_path)
        if cosine is not None:
            rows.append((chunk.chunk_id, cosine))
    model = kb._store.vectors.use_model(Concepts.spec)
    write_vectors(kb._store,
        model.model_id,
        [(chunk_id, Encoding(dense=array("f", [cosine, 0, 0, 0, math.sqrt(1 - cosine**2)])))
         for chunk_id, cosine in rows],
    )  # fmt: skip


def paths(found: object) -> list[str]:
    return [hit.doc_path for hit in found]  # type: ignore[attr-defined]  # a Response iterates hits


class TestFullTextSearchViaFts5:
    """Requirement: Full-text search via FTS5."""

    def test_keyword_search(self, notes: KnowledgeBase) -> None:
        """Scenario: Keyword search: either word, stemmed variants too, ranked by BM25."""
        found = notes.search("install git", mode="lexical")
        assert paths(found) == ["lib/install.md", "lib/git.md"]
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)

    def test_fts_only_mode(self, notes: KnowledgeBase) -> None:
        """Scenario: FTS-only mode."""
        found = notes.search("install git", mode="lexical")
        assert found.mode == "lexical"
        assert all(hit.sources == ("fts",) for hit in found)
        assert all(hit.retrieval.vector_rank is None for hit in found)
        assert "dense" not in found.timing_ms

    def test_synchronised_by_triggers(self, notes: KnowledgeBase, library: Library) -> None:
        """The FTS table follows every change of the chunks."""
        root = library({"git.md": "# Git\n\nMercurial, rather.\n"})
        notes.ingest(root)

        def found(query: str) -> list[str]:
            return paths(notes.search(query, mode="lexical"))

        assert found("git version") == ["lib/git.md", "lib/install.md"]
        assert found("mercurial") == ["lib/git.md"]
        (root / "git.md").unlink()
        notes.ingest(root)
        assert found("mercurial") == []

    @pytest.mark.parametrize("query", ['"git', "git*", "git AND", "(git)", "git:", "^git", "-git"])
    def test_special_characters_are_escaped(self, notes: KnowledgeBase, query: str) -> None:
        assert "lib/git.md" in paths(notes.search(query))


class TestVectorSimilaritySearch:
    """Requirement: Vector similarity search via sqlite-vec."""

    def test_semantic_search(self, notes: KnowledgeBase) -> None:
        """Scenario: Semantic search: similar chunks though they lack the words."""
        found = notes.search("how to set up version control", profile="notes")
        near = next(hit for hit in found if hit.doc_path == "lib/install.md")
        assert near.rank <= 2
        assert "version" not in near.snippet
        assert "control" not in near.snippet
        assert near.sources == ("vec",)

    def test_vector_only_mode(self, notes: KnowledgeBase) -> None:
        """Scenario: Vector-only mode: only vector results, no FTS search is performed."""
        found = notes.search("how to set up version control", profile="notes", mode="vector")
        assert found.mode == "vector"
        assert all(hit.sources == ("vec",) for hit in found)
        assert all(hit.retrieval.lexical_rank is None for hit in found)
        assert "lexical" not in found.timing_ms
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert {hit.score_kind for hit in found} == {"cosine"}

    def test_the_model_that_made_the_vectors_encodes_the_query(self, notes: KnowledgeBase) -> None:
        """Queries and chunks need the same model: another one is refused, and its vectors are not
        mixed in."""
        with KnowledgeBase(notes.location, encoder=Weightless()) as other:
            assert other.search("version control", mode="vector").hits == ()
            assert other.search("git").degraded[0].reason == "model_mismatch"
            with pytest.raises(ModelMismatch):
                other.embed()

    def test_every_chunk_is_compared(self, notes: KnowledgeBase) -> None:
        chunks = notes.status()["chunks"]
        assert notes.search("git", mode="vector", top=100).returned == chunks

    def test_three_times_the_count_are_candidates(self, kb: KnowledgeBase) -> None:
        for number in range(40):
            kb.add(f"deploy {number}")
        kb.embed()
        for top in (1, 5, 10):
            explain = kb.search("deploy", profile="notes", top=top, explain=True).explain
            assert explain is not None
            counts = {stage["stage"]: stage.get("found") for stage in explain["stages"]}
            assert counts["lexical"] == counts["dense"] == 3 * top

    def test_chunks_vec_is_a_table_of_sqlite_vec(self, notes: KnowledgeBase) -> None:
        """Resolution: `chunks_vec` is one of three backends with the same results."""
        (model,) = notes._store.vectors.models()
        expected = sqlite_store(notes).vectors.nearest_dense(
            model.model_id, [1.0, 1.0, 0.0, 0.0, 0.0], filters=Filters(), now="2026-05-28",
            limit=10, backend="python",
        )  # fmt: skip
        found = sqlite_store(notes).vectors.nearest_dense(
            model.model_id, [1.0, 1.0, 0.0, 0.0, 0.0], filters=Filters(), now="2026-05-28",
            limit=10, backend="sqlite-vec",
        )  # fmt: skip
        assert found.backend == "sqlite-vec"
        assert found.chunks == expected.chunks


class TestReciprocalRankFusion:
    """Requirement: Reciprocal Rank Fusion merging."""

    def test_hybrid_search_combines_both_signals(self, notes: KnowledgeBase) -> None:
        """Scenario: Hybrid search combines both signals: sorted by the combined score."""
        found = notes.search("install git", profile="notes")
        assert found.mode == "hybrid"
        assert found.hits[0].sources == ("fts", "vec")
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        for hit in found:
            ranks = [hit.retrieval.lexical_rank, hit.retrieval.vector_rank]
            expected = sum(1 / (60 + rank) for rank in ranks if rank is not None)
            assert hit.score == pytest.approx(expected)
            assert hit.score_kind == "rrf"

    def test_document_appears_in_both_result_sets(self, kb: KnowledgeBase) -> None:
        """Scenario: Document appears in both result sets: ranks 2 and 5 give 0.0315."""
        by_hand(kb, {"words": ("deploy deploy", 0.0), "both": ("a deploy", 0.5), "a": ("x", 0.9),
                     "b": ("x", 0.8), "c": ("x", 0.7), "d": ("x", 0.6)})  # fmt: skip
        hits = kb.search_hybrid("deploy", embedding=AHEAD, profile="notes")
        both = next(hit for hit in hits if hit.title == "both")
        assert (both.retrieval.lexical_rank, both.retrieval.vector_rank) == (2, 5)
        assert round(both.score, 4) == 0.0315
        assert both.score == pytest.approx(1 / (60 + 2) + 1 / (60 + 5))
        one_list = [hit.score for hit in hits if len(hit.sources) == 1]
        assert one_list
        assert both.score > max(one_list)

    def test_ties_are_ordered_by_lexical_rank(self, kb: KnowledgeBase) -> None:
        """Resolution: whatever their chunk ids; lexical hits come before others."""
        by_hand(
            kb,
            {
                "meaning only": ("x", 0.5),
                "words second": ("a deploy", 0.9),
                "words first": ("deploy deploy", 0.8),
                "words only": ("a deploy among quite a few other words", None),
            },
        )
        hits = kb.search_hybrid("deploy", embedding=AHEAD, profile="notes")
        ranks = [(hit.title, hit.retrieval.lexical_rank, hit.retrieval.vector_rank) for hit in hits]
        assert ranks == [("words first", 1, 2), ("words second", 2, 1), ("words only", 3, None),
                         ("meaning only", None, 3)]  # fmt: skip
        assert hits[0].score == hits[1].score
        assert hits[2].score == hits[3].score

    def test_any_word_is_enough(self, kb: KnowledgeBase) -> None:
        """Resolution: hybrid modes match any word, ranked by BM25 alone: a passage with every word
        gets no further preference."""
        for number in range(8):
            kb.add(f"script {number}")
        kb.add("deploy deploy deploy", title="one word, often")
        kb.add("deploy " + "and many other things " * 20 + "script", title="every word, once")
        hits = kb.search("deploy script", profile="notes").hits
        ranks = {hit.title: hit.retrieval.lexical_rank for hit in hits}
        assert ranks["one word, often"] == 1
        assert ranks["every word, once"] == 2
        assert len(hits) == 10

    def test_k_is_configurable(self, notes: KnowledgeBase) -> None:
        first = notes.search("install git", profile="notes", settings={"k": 1}).hits[0]
        assert first.score == pytest.approx(1 / 2 + 1 / 2)


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

    @pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
    def test_in_every_mode(self, notes: KnowledgeBase, mode: str) -> None:
        found = notes.search("deploy", mode=mode, profile="notes", filters=Filters(tags=("ops",)))
        assert sorted(paths(found)) == ["lib/deploy.md", "lib/staging.md"]

    @pytest.fixture
    def crowded(self, kb: KnowledgeBase, library: Library) -> KnowledgeBase:
        """Few tagged passages, and many others that suit the query better, by words and meaning."""
        better = "".join(f"# Deploy {number}\n\ndeploy deploy\n\n" for number in range(MANY))
        few = "".join(f"# Note {number}\n\nTo deploy flour and salt.\n\n" for number in range(5))
        kb.ingest(library({"better.md": better, "few.md": f"---\ntags: [ops]\n---\n{few}"}))
        kb.embed()
        return kb

    @pytest.mark.parametrize(
        ("query", "mode"),
        [
            ("deploy", "lexical"),
            ("'deploy'", "lexical"),
            ("deploy", "vector"),
            ("deploy", "hybrid"),
        ],
    )
    def test_a_filter_is_no_cut_of_the_best(
        self, crowded: KnowledgeBase, query: str, mode: str
    ) -> None:
        """The filter is part of the SQL query, so it applies before ranking."""
        kept = Filters(tags=("ops",))
        found = crowded.search(query, mode=mode, profile="notes", top=5, filters=kept)
        assert {hit.doc_path for hit in found} == {"lib/few.md"}
        assert found.returned == 5
        ranks = [hit.retrieval.lexical_rank or hit.retrieval.vector_rank for hit in found]
        assert ranks == [1, 2, 3, 4, 5]
        assert crowded.search(query, mode=mode, profile="notes", top=100).returned == 100
        best = crowded.search(query, mode=mode, profile="notes", top=100).hits
        assert {hit.doc_path for hit in best} == {"lib/better.md"}

    @pytest.mark.parametrize("backend", ["sqlite-vec", "numpy", "python"])
    def test_nor_is_it_in_any_backend(self, crowded: KnowledgeBase, backend: str) -> None:
        (model,) = crowded._store.vectors.models()
        query = Concepts().encode(["deploy"])[0].dense
        assert query is not None
        found = sqlite_store(crowded).vectors.nearest_dense(
            model.model_id, query, filters=Filters(tags=("ops",)), now="2026-05-28", limit=5,
            backend=backend,
        )  # fmt: skip
        assert found.backend == backend
        few = {chunk.chunk_id for chunk in crowded.chunks("lib/few.md")}
        assert {one.chunk_id for one in found.chunks} == few
        assert [one.rank for one in found.chunks] == [1, 2, 3, 4, 5]


class TestTypeBasedFiltering:
    """Requirement: Type-based filtering."""

    def test_filter_by_type(self, notes: KnowledgeBase) -> None:
        """Scenario: Filter by type."""
        found = notes.search("deploy", filters=Filters(type=("code",)))
        assert paths(found) == ["lib/deploy.py"]

    def test_filter_by_several_types(self, notes: KnowledgeBase) -> None:
        found = notes.search("deploy flour", mode="lexical", filters=Filters(type=("code", "note")))
        assert sorted(paths(found)) == ["lib/bread.txt", "lib/deploy.py"]

    def test_valid_types_are_listed(self, notes: KnowledgeBase) -> None:
        with pytest.raises(InvalidRequest) as error:
            notes.search("deploy", filters=Filters(type=("film",)))
        assert "pdf, markdown, code, note" in error.value.hint


class TestScoreThreshold:
    """Requirement: Score threshold: it compares with the score that is shown."""

    def test_apply_score_threshold(self, notes: KnowledgeBase) -> None:
        """Scenario: Apply score threshold: 0.02 means found by both."""
        every = notes.search("deploy", profile="notes")
        found = notes.search("deploy", profile="notes", threshold=0.02)
        assert 0 < found.returned < every.returned
        assert all(hit.score >= 0.02 and hit.sources == ("fts", "vec") for hit in found)
        assert all(hit.score < 0.02 for hit in every if len(hit.sources) == 1)

    def test_a_hit_of_one_list_peaks_below_it(self, notes: KnowledgeBase) -> None:
        assert max(
            hit.score for hit in notes.search("deploy", profile="notes") if len(hit.sources) == 1
        ) <= 1 / 61  # fmt: skip

    def test_it_compares_with_the_score_that_is_shown(self, notes: KnowledgeBase) -> None:
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
        with KnowledgeBase(kb.location) as again:
            assert again.search("deploy").returned == 7

    def test_fewer_matches_than_requested(self, notes: KnowledgeBase) -> None:
        """Scenario: Fewer matches than requested: `returned: 3`."""
        assert notes.search("deploy", top=10, mode="lexical").returned == 3
        three = Filters(path_glob="lib/[dg]*")
        assert notes.search("deploy", profile="notes", filters=three).returned == 3

    def test_returned_3_in_the_output(
        self, notes: KnowledgeBase, capsys: pytest.CaptureFixture[str]
    ) -> None:
        notes.close()
        store = ["--store", notes.location]
        assert run_kb([*store, "search", "deploy", "--fts-only", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["returned"] == 3
