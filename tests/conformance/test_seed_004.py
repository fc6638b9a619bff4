"""Seed 004: full-text, vector and hybrid search over knowledge, with type weights, the access
boost, scopes and expiry. Vectors are given by hand, as the seed's own tests give them."""

from __future__ import annotations

import math
from array import array
from pathlib import Path

import pytest

from kb import TYPE_WEIGHTS, Filters, KnowledgeBase, normalize, sanitize
from kb.errors import InvalidRequest, ModelBroken
from kb.types import Encoding, ModelSpec
from tests.conftest import NOON, Clock
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store, write_vectors

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
        lessons = kb.search("word", profile="knowledge", filters=Filters(kind=("lesson",)))
        assert [hit.kind for hit in lessons] == ["lesson"]
        both = Filters(kind=("decision", "lesson"))
        found = kb.search("word", profile="knowledge", filters=both)
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

    def test_at_the_very_second(self, kb: KnowledgeBase, clock: Clock) -> None:
        """`expires_at`: the entry is found one second before it, and not at that second."""
        know(kb, "a passing word", EAST, ttl="7d")
        know(kb, "a lasting word", EAST)
        for second, left in ((7 * DAY - 1, 2), (7 * DAY, 1)):
            clock.seconds = NOON + second
            for filters in (Filters(), Filters(scope="global")):
                assert len(kb.search("word", filters=filters)) == left
                assert len(kb.search("'word'", filters=filters)) == left
                assert len(kb.search("asti assi", filters=filters)) == left
                assert len(kb.search_vector(embedding=EAST, filters=filters)) == left
                assert len(kb.search_hybrid("word", embedding=EAST, filters=filters)) == left
                for backend in ("numpy", "python"):
                    found = sqlite_store(kb).vectors.nearest_dense(
                        1, EAST, filters=filters, now=kb._now(), limit=9, backend=backend
                    )
                    assert len(found.chunks) == left
            assert len(kb.documents()) == left

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


# --- vectors --------------------------------------------------------------------------------------

SPEC = ModelSpec("by-hand", "1", 4, frozenset({"dense"}))
EAST, NORTH, UP = [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]


def know(kb: KnowledgeBase, text: str, vector: list[float] | None = None, **said: str) -> int:
    """Add an entry with its embedding; returns its chunk's id."""
    document = kb.add(text, **said)  # type: ignore[arg-type]
    (chunk,) = kb.chunks(document.doc_path)
    if vector is not None:
        model = kb._store.vectors.use_model(SPEC)
        rows = [(chunk.chunk_id, Encoding(dense=array("f", vector)))]
        write_vectors(kb._store, model.model_id, rows)
    return chunk.chunk_id


class TestVectorSimilaritySearch:
    def test_a_matching_embedding(self, kb: KnowledgeBase) -> None:
        """Vector search with matching embedding: distance 0 (identical), so cosine 1."""
        chunk = know(kb, "one", EAST)
        (hit,) = kb.search_vector(embedding=EAST)
        assert (hit.chunk_id, hit.score_kind) == (chunk, "cosine")
        assert hit.score == pytest.approx(1.0)

    def test_distinct_embeddings_are_ordered_by_similarity(self, kb: KnowledgeBase) -> None:
        """Vector search with distinct embeddings: correct similarity ordering; opposite is last."""
        know(kb, "opposite", [-1.0, 0, 0, 0])
        know(kb, "near", [0.9, 0.1, 0, 0])
        know(kb, "right angle", NORTH)
        know(kb, "same", EAST)
        found = kb.search_vector(embedding=EAST)
        assert [hit.snippet for hit in found] == ["same", "near", "right angle", "opposite"]
        assert found[-1].score == pytest.approx(-1.0)

    def test_l2_normalization(self, kb: KnowledgeBase) -> None:
        """Embeddings are normalized to length 1 before they are compared."""
        know(kb, "long", [50.0, 0, 0, 0])
        (hit,) = kb.search_vector(embedding=[0.001, 0, 0, 0])
        assert hit.score == pytest.approx(1.0)
        know(kb, "longer, and in another direction", [50.0, 50.0, 0, 0])
        know(kb, "short, and nearer", [0.02, 0.01, 0, 0])
        scores = {hit.snippet: hit.score for hit in kb.search_vector(embedding=[7.0, 0, 0, 0])}
        assert list(scores) == ["long", "short, and nearer", "longer, and in another direction"]
        assert list(scores.values()) == pytest.approx([1.0, 2 / math.sqrt(5), 1 / math.sqrt(2)])
        assert list(normalize([3, 4])) == pytest.approx([0.6, 0.8])
        assert math.hypot(*normalize([1, 2, 3])) == pytest.approx(1.0)

    def test_a_zero_vector_is_refused(self, kb: KnowledgeBase) -> None:
        """It has no direction: neither as a query nor as an embedding."""
        chunk = know(kb, "a word", EAST)
        nothing = [0.0, 0.0, 0.0, 0.0]
        with pytest.raises(InvalidRequest, match="zero"):
            normalize(nothing)
        with pytest.raises(InvalidRequest, match="zero"):
            kb.search_vector(embedding=nothing)
        model = kb._store.vectors.use_model(SPEC)
        with pytest.raises(ModelBroken, match="zero"):
            write_vectors(kb._store, model.model_id, [(chunk, Encoding(dense=array("f", nothing)))])
        (hit,) = kb.search_vector(embedding=EAST)
        assert hit.score == pytest.approx(1.0)

    def test_graceful_degradation(self, kb: KnowledgeBase) -> None:
        """Without vectors to compare with, or without an encoder, the list is empty, and lexical
        search still works."""
        know(kb, "a word")
        assert kb.search_vector(embedding=EAST) == ()
        assert kb.search_vector("word") == ()
        assert [hit.sources for hit in kb.search_hybrid("word", embedding=EAST)] == [("fts",)]
        assert [hit.sources for hit in kb.search_hybrid("word")] == [("fts",)]

    def test_empty_embeddings(self, kb: KnowledgeBase) -> None:
        """Empty queries and embeddings are handled gracefully: an empty list."""
        know(kb, "a word", EAST)
        assert kb.search_vector(embedding=[]) == ()
        assert kb.search_vector("") == ()
        assert kb.search_hybrid("", embedding=[]) == ()

    def test_filtering(self, kb: KnowledgeBase, clock: Clock) -> None:
        """The same scope, type and TTL support as full text, and exact."""
        know(kb, "everywhere", EAST, kind="lesson")
        know(kb, "here", NORTH, kind="decision", scope="project")
        know(kb, "passing", EAST, ttl="7d")

        def found(filters: Filters) -> list[str]:
            return [hit.snippet for hit in kb.search_vector(embedding=EAST, filters=filters)]

        assert found(Filters(scope="project")) == ["here"]
        assert found(Filters(kind=("lesson", "decision"))) == ["everywhere", "here"]
        assert "passing" in found(Filters())
        clock.seconds += 7 * DAY + 1
        assert found(Filters()) == ["everywhere", "here"]

    def test_a_filter_never_leaves_too_few(self, kb: KnowledgeBase) -> None:
        """Resolution: not "fetch 3x, then filter", but exact."""
        for number in range(200):
            know(kb, f"near {number}", EAST)
        for number in range(5):
            know(kb, f"far from being near {number}", NORTH, kind="lesson")
        only = Filters(kind=("lesson",))
        assert len(kb.search_vector(embedding=EAST, limit=5, filters=only)) == 5
        assert len(kb.search_lexical("near", limit=5, filters=only)) == 5
        found = kb.search_hybrid("near", embedding=EAST, limit=5, filters=only)
        assert [hit.kind for hit in found] == ["lesson"] * 5
        assert [hit.retrieval.lexical_rank for hit in found] == [1, 2, 3, 4, 5]

    def test_default_limit(self, kb: KnowledgeBase) -> None:
        """20 for an individual search."""
        for number in range(30):
            know(kb, f"word {number}", EAST)
        assert len(kb.search_vector(embedding=EAST)) == 20
        assert len(kb.search_vector(embedding=EAST, limit=7)) == 7

    def test_an_embedding_can_be_updated(self, kb: KnowledgeBase) -> None:
        """Resolution: the seed's limit came from its driver."""
        chunk = know(kb, "a word", EAST)
        model = kb._store.vectors.use_model(SPEC)
        write_vectors(kb._store, model.model_id, [(chunk, Encoding(dense=array("f", NORTH)))])
        (hit,) = kb.search_vector(embedding=NORTH)
        assert hit.score == pytest.approx(1.0)


class TestHybridSearchWithRrf:
    def test_sources(self, kb: KnowledgeBase) -> None:
        """Hybrid search with both: sources are ['fts'], ['vec'] or ['fts', 'vec']."""
        know(kb, "SQLite storage", EAST)
        know(kb, "something near", [0.9, 0.1, 0, 0])
        know(kb, "storage, without an embedding")
        found = {hit.snippet: hit for hit in kb.search_hybrid("SQLite storage", embedding=EAST)}
        assert found["SQLite storage"].sources == ("fts", "vec")
        assert found["something near"].sources == ("vec",)
        assert found["storage, without an embedding"].sources == ("fts",)

    def test_three_phases(self, kb: KnowledgeBase) -> None:
        """Gather 3x limit each, `1 / (k + rank)`, then weights and boosts, sorted by the result."""
        for number in range(20):
            know(kb, f"word {number}", [1.0, number / 20, 0, 0])
        hits = kb.search_hybrid("word", embedding=EAST, limit=4, explain=True)
        assert len(hits) == 4
        for hit in hits:
            ranks = (hit.retrieval.lexical_rank, hit.retrieval.vector_rank)
            assert all(rank is None or rank <= 12 for rank in ranks)
            expected = sum(1 / (60 + rank) for rank in ranks if rank is not None)
            assert hit.retrieval.fusion_score == pytest.approx(expected)

    def test_three_times_the_limit_are_candidates(self, kb: KnowledgeBase) -> None:
        """Decisions count double: with a limit of 4, the 12th of each list is raised to the top,
        and the 13th is not, since it was not a candidate."""
        for number in range(1, 21):
            said = {"kind": "decision"} if number >= 12 else {}
            know(kb, f"word{' more' * number}", [1.0, number / 20, 0, 0], **said)
        hits = kb.search_hybrid("word", embedding=EAST, limit=4)
        ranks = [(hit.retrieval.lexical_rank, hit.retrieval.vector_rank) for hit in hits]
        assert ranks == [(12, 12), (1, 1), (2, 2), (3, 3)]

    def test_any_word_is_enough(self, kb: KnowledgeBase) -> None:
        know(kb, "SQLite storage", EAST)
        (hit,) = kb.search_hybrid("SQLite tables", embedding=EAST)
        assert hit.sources == ("fts", "vec")

    def test_k(self, kb: KnowledgeBase) -> None:
        """`k`: RRF constant (default: 60)."""
        know(kb, "word", EAST)
        (hit,) = kb.search_hybrid("word", embedding=EAST)
        assert hit.score == pytest.approx(2 / 61)
        (hit,) = kb.search_hybrid("word", embedding=EAST, k=9)
        assert hit.score == pytest.approx(2 / 10)

    def test_default_limit(self, kb: KnowledgeBase) -> None:
        """10 for hybrid."""
        for number in range(30):
            know(kb, f"word {number}", EAST)
        assert len(kb.search_hybrid("word", embedding=EAST)) == 10
        assert kb.search("word", profile="knowledge").returned == 10

    def test_a_malformed_expression_is_an_empty_list(self, kb: KnowledgeBase) -> None:
        know(kb, "a b", EAST)
        assert kb.search_hybrid("'a AND'") == ()


class TestTypeWeighting:
    """KNOW-07."""

    def test_the_weights(self) -> None:
        assert dict(TYPE_WEIGHTS) == {
            "decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3,
        }  # fmt: skip

    def test_they_multiply_and_reorder(self, kb: KnowledgeBase) -> None:
        for kind in ("temp_note", "summary", "lesson", "decision"):
            know(kb, "the same word", EAST, kind=kind)
        know(kb, "the same word", EAST)
        hits = kb.search_hybrid("word", embedding=EAST)
        assert [hit.kind for hit in hits] == ["lesson", "decision", None, "summary", "temp_note"]
        for hit in hits:
            assert hit.retrieval.fusion_score is not None
            weight = 1.0 if hit.kind is None else TYPE_WEIGHTS[hit.kind]
            assert hit.score == pytest.approx(weight * hit.retrieval.fusion_score)

    def test_they_can_be_set(self, kb: KnowledgeBase) -> None:
        know(kb, "word", EAST, kind="summary")
        know(kb, "word", EAST)
        settings = {"type_weights.summary": 5}
        found = kb.search("word", profile="knowledge", settings=settings)
        assert found.hits[0].kind == "summary"


class TestAccessBoosting:
    """KNOW-11."""

    def test_reading_raises_and_searching_does_not(self, kb: KnowledgeBase) -> None:
        know(kb, "the same word", EAST)
        know(kb, "the same word", EAST)
        assert kb.search_hybrid("word", embedding=EAST)[0].doc_path == "note:1"
        for count in range(1, 4):
            kb.get("note:2")
            hits = kb.search_hybrid("word", embedding=EAST)
            boosted = next(hit for hit in hits if hit.doc_path == "note:2")
            assert boosted.retrieval.fusion_score is not None
            expected = boosted.retrieval.fusion_score * (1 + math.log(1 + count))
            assert boosted.score == pytest.approx(expected)
        assert hits[0].doc_path == "note:2"
        assert kb.document("note:2").access_count == 3

    def test_a_new_entry_has_no_penalty(self, kb: KnowledgeBase) -> None:
        know(kb, "word", EAST)
        found = kb.search("word", profile="knowledge", explain=True)
        assert found.explain is not None
        assert found.explain["hits"][0]["factors"] == {"type": 1.0, "access": 1.0}


class TestConvenience:
    def test_search_knowledge_is_the_hybrid_search(self, tmp_path: Path, clock: Clock) -> None:
        """`searchKnowledge(query)`: hybrid, with the query encoded by the store's own model."""
        with KnowledgeBase(tmp_path / "kb.sqlite", clock=clock, encoder=Weightless()) as kb:
            kb.add("SQLite storage is one file", kind="decision")
            kb.add("nothing of the kind")
            kb.embed()
            (first, *_) = kb.search_hybrid("SQLite storage")
            assert (first.kind, first.sources) == ("decision", ("fts", "vec"))
            found = kb.search("SQLite storage", profile="knowledge")
            assert found.hits == kb.search_hybrid("SQLite storage")

    def test_expired_entries_are_absent_from_every_search(
        self, kb: KnowledgeBase, clock: Clock
    ) -> None:
        know(kb, "passing word", EAST, ttl="7d")
        assert kb.search_hybrid("word", embedding=EAST)
        clock.seconds += 7 * DAY + 1
        assert kb.search_hybrid("word", embedding=EAST) == ()
        assert kb.search_vector(embedding=EAST) == ()
        assert kb.search_lexical("word") == ()
