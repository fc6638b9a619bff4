"""Seed 003: three tiers of keyword search in every script, and the `memory` profile: vectors and
keywords by weight, temporal decay, minimum score and limits."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from kb import Filters, KnowledgeBase
from kb.types import Degraded, Encoding, Response
from tests.conformance.conftest import sqlite_file
from tests.conftest import Clock
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store, write_vectors

Library = Callable[[dict[str, str]], Path]

TODAY = date(2026, 5, 28)  # as the clock of these tests has it

TEXTS = {
    "zh": "数据库连接失败的时候，请检查网络设置。使用 kubernetes 部署服务。",
    "zh2": "今天天气很好，我们去公园散步。",
    "ja": "データベースの接続に失敗した場合は、ネットワークを確認してください。",
    "ko": "데이터베이스에 연결할 수 없으면 네트워크를 확인하세요.",
    "th": "ฐานข้อมูลเชื่อมต่อไม่ได้ กรุณาตรวจสอบเครือข่าย",
    "ru": "Подключение к базе данных не удалось.",
    "fr": "La création d'un café à Besançon.",
    "en": "The database connection failed; check concatenation of the settings.",
}


@pytest.fixture
def memory(kb: KnowledgeBase) -> KnowledgeBase:
    for name, text in TEXTS.items():
        kb.add(text, title=name)
    return kb


def titles(found: Response) -> list[str]:
    assert found.degraded == ()
    return [hit.title for hit in found]


def tiers(kb: KnowledgeBase, query: str, match: str = "auto") -> list[str]:
    explain = kb.search(query, match=match, explain=True).explain
    assert explain is not None
    (stage,) = (stage for stage in explain["stages"] if stage["stage"] == "lexical")
    return list(stage["tiers"])


class TestThreeTierKeywordSearch:
    """Requirement: Three-tier keyword search (FTS5 -> trigram -> LIKE)."""

    def test_standard_fts5_for_ascii_queries(self, memory: KnowledgeBase) -> None:
        """Scenario: Standard FTS5 for ASCII queries, with a score in [0, 1)."""
        found = memory.search("database connections")
        assert titles(found) == ["en"]
        assert 0 <= found.hits[0].score < 1

    def test_trigram_for_cjk_queries(self, memory: KnowledgeBase) -> None:
        """Scenario: Trigram FTS5 for CJK queries: runs and ASCII words joined with AND."""
        assert titles(memory.search("数据库 kubernetes", match="all")) == ["zh"]
        assert titles(memory.search("数据库 kube", match="all")) == ["zh"]
        assert titles(memory.search("数据库 zzzz", match="all")) == []
        assert titles(memory.search("数据库 docker", match="all")) == []
        assert titles(memory.search("网络设置 数据库连接", match="all")) == ["zh"]

    def test_words_of_three_letters_are_joined_and_shorter_ones_are_not(
        self, memory: KnowledgeBase
    ) -> None:
        assert titles(memory.search("数据库 ube", match="all")) == ["zh"]
        assert titles(memory.search("数据库 zzz", match="all")) == []
        assert titles(memory.search("数据库 zz", match="all")) == ["zh"]

    @pytest.mark.parametrize("indexed", [True, False])
    @pytest.mark.parametrize(("word", "found"), [("ate", ["en"]), ("at", []), ("tenatx", [])])
    def test_substrings_of_three_letters_are_found_and_shorter_ones_are_not(
        self, memory: KnowledgeBase, word: str, found: list[str], indexed: bool
    ) -> None:
        """Holds with the FTS5 tables and without them."""
        if not indexed:
            memory.close()
            connection = apsw.Connection(str(sqlite_file(memory)))
            for table in ("chunks_fts", "chunks_cjk"):
                connection.execute(f"DROP TABLE {table}")
            connection.close()
        with KnowledgeBase(memory.location) as kb:
            assert [hit.title for hit in kb.search(word)] == found
            assert [hit.title for hit in kb.search(f"zzz {word}")] == found

    def test_substring_fallback(self, memory: KnowledgeBase) -> None:
        """Scenario: LIKE fallback for edge cases: nothing found, so words of 3+ match inside."""
        assert tiers(memory, "catenatio") == ["substring"]
        assert titles(memory.search("catenatio")) == ["en"]
        assert titles(memory.search("zzz catenatio")) == ["en"]
        assert titles(memory.search("ca")) == []

    def test_substrings_fold_case_as_the_index_does(self, kb: KnowledgeBase) -> None:
        kb.add("Die Hauptstraße und der MOSKAUER Platz", title="de")
        for query in ("ptstraße", "PTSTRAßE", "oskaue"):
            assert titles(kb.search(query)) == ["de"]

    def test_fallback_when_fts5_is_unavailable(self, memory: KnowledgeBase) -> None:
        """Scenario: LIKE fallback: FTS5 does not work; search still works and reports it."""
        memory.close()
        connection = apsw.Connection(str(sqlite_file(memory)))
        for table in ("chunks_fts", "chunks_cjk"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        with KnowledgeBase(memory.location) as kb:
            for query, title in (("connection failed", "en"), ("库", "zh"), ("연결", "ko")):
                found = kb.search(query)
                assert found.hits[0].title == title
                ((part, reason),) = ((one.part, one.reason) for one in found.degraded)
                assert (part, reason) == ("lexical", "failed")


class TestFiltersInEveryTier:
    """A filter is a condition in every tier, applied before ranking."""

    @pytest.fixture
    def crowded(self, kb: KnowledgeBase, library: Library) -> KnowledgeBase:
        """400 passages that rank higher for every query here, and three in another language."""
        better = "".join(f"# 数据库 {n}\n\n数据库 concatenation\n\n" for n in range(400))
        few = "".join(
            f"# 其他 {n}\n\n别的内容说了很久，然后是数据库。concatenation of words.\n\n"
            for n in range(3)
        )
        kb.ingest(library({"better.md": better, "few.md": f"---\ntags: [kept]\n---\n{few}"}))
        return kb

    @pytest.mark.parametrize(
        ("query", "match", "tier"),
        [
            ("concatenation", "any", "any"),
            ("数据库", "any", "any"),
            ("数据库 concatenation", "any", "any"),
            ("数据库 concatenation", "all", "all"),
            ("catenatio", "any", "substring"),
            ("catenatio oncatena", "any", "substring"),
        ],
    )
    def test_the_best_that_match(
        self, crowded: KnowledgeBase, query: str, match: str, tier: str
    ) -> None:
        assert tiers(crowded, query, match) == [tier]
        every = crowded.search(query, match=match, mode="lexical", top=100)
        assert {hit.doc_path for hit in every} == {"lib/better.md"}
        kept = Filters(tags=("kept",))
        found = crowded.search(query, match=match, mode="lexical", top=3, filters=kept)
        assert [hit.doc_path for hit in found] == ["lib/few.md"] * 3
        assert [hit.retrieval.lexical_rank for hit in found] == [1, 2, 3]

    def test_without_fts5(self, crowded: KnowledgeBase) -> None:
        crowded.close()
        connection = apsw.Connection(str(sqlite_file(crowded)))
        for table in ("chunks_fts", "chunks_cjk"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        with KnowledgeBase(crowded.location) as kb:
            found = kb.search("concatenation", top=3, filters=Filters(tags=("kept",)))
            assert [hit.doc_path for hit in found] == ["lib/few.md"] * 3


class TestResolution:
    """The contract's resolution: a question in one run of characters is found and ranked."""

    @pytest.mark.parametrize(
        ("query", "title"),
        [
            ("数据库连接不上怎么办", "zh"),
            ("データベースに接続できません", "ja"),
            ("데이터베이스 연결이 안 됩니다", "ko"),
            ("ฐานข้อมูลมีปัญหา", "th"),
        ],
    )
    @pytest.mark.parametrize("match", ["any", "auto"])
    def test_a_question_written_in_one_run(
        self, memory: KnowledgeBase, query: str, title: str, match: str
    ) -> None:
        assert titles(memory.search(query, match=match))[0] == title

    @pytest.mark.parametrize(
        ("query", "title"), [("库", "zh"), ("公园", "zh2"), ("接続", "ja"), ("연결", "ko")]
    )
    @pytest.mark.parametrize("match", ["any", "all", "auto"])
    def test_one_and_two_characters_are_found(
        self, memory: KnowledgeBase, query: str, title: str, match: str
    ) -> None:
        assert title in titles(memory.search(query, match=match))

    def test_one_and_two_characters_are_ranked(self, kb: KnowledgeBase) -> None:
        kb.add("库存很多，" + "其他的事情说了很久。" * 20, title="long")
        kb.add("库，库，库。", title="short")
        for number in range(5):
            kb.add("别的内容。", title=f"other {number}")
        found = kb.search("库")
        assert titles(found) == ["short", "long"]
        assert found.hits[0].score > found.hits[1].score

    def test_mixed_scripts(self, memory: KnowledgeBase) -> None:
        assert titles(memory.search("kubernetes 怎么部署"))[0] == "zh"

    def test_korean_particles(self, memory: KnowledgeBase) -> None:
        """데이터베이스 is found although the text has 데이터베이스에."""
        assert titles(memory.search("데이터베이스")) == ["ko"]

    def test_cyrillic_in_any_case(self, memory: KnowledgeBase) -> None:
        assert titles(memory.search("ПОДКЛЮЧЕНИЕ базе")) == ["ru"]

    def test_accents_do_not_matter(self, memory: KnowledgeBase) -> None:
        for query in ("creation cafe besancon", "CRÉATION", "cafe\u0301"):
            assert titles(memory.search(query)) == ["fr"]

    def test_the_whole_run_comes_before_its_pieces(self, kb: KnowledgeBase) -> None:
        kb.add("数据和仓库和数据和仓库，据库。", title="pieces")
        kb.add("这里说的是数据库，还有许多别的事情。", title="run")
        assert titles(kb.search("数据库", match="auto"))[0] == "run"

    def test_the_snippet_shows_the_match(self, kb: KnowledgeBase) -> None:
        kb.add("一些别的内容。" * 100 + "关键词在这里。" + "后面的内容。" * 100)
        assert "关键词" in kb.search("关键词").hits[0].snippet

    def test_all_sees_titles_as_well(self, kb: KnowledgeBase) -> None:
        kb.add("正文内容在这里。", title="缓存策略")
        assert kb.search("缓存策略 正文内容", match="all").returned == 1
        assert kb.search("缓存策略 别的内容", match="all").returned == 0

    def test_half_width_katakana_with_all(self, kb: KnowledgeBase) -> None:
        kb.add("ｶﾀｶﾅ です")
        for query in ("ｶﾀｶﾅ", "カタカナ"):
            assert kb.search(query, match="all").returned == 1

    def test_the_snippet_shows_what_stands_inside_of_a_word(self, kb: KnowledgeBase) -> None:
        kb.add("other words " * 60 + "supercalifragilistic " + "more words " * 60)
        assert "supercalifragilistic" in kb.search("califragil").hits[0].snippet


# --- vectors and keywords -------------------------------------------------------------------------


@pytest.fixture
def both(place: str, clock: Clock) -> Iterator[KnowledgeBase]:
    """A knowledge base with an embedding provider."""
    with KnowledgeBase(place, clock=clock, encoder=Weightless()) as opened:
        yield opened


def recall(kb: KnowledgeBase, query: str, **asked: object) -> Response:
    return kb.search(query, profile="memory", **asked)  # type: ignore[arg-type]


class TestHybridSearch:
    """Requirement: Hybrid search with vector + keyword fusion."""

    def test_vector_search_runs_when_embedding_provider_available(
        self, both: KnowledgeBase
    ) -> None:
        """Scenario: Vector search runs when embedding provider available."""
        both.add("the keys of the harbour")
        both.embed()
        (hit,) = recall(both, "harbour keys")
        assert hit.sources == ("fts", "vec")
        expected = Weightless().encode(["harbour keys", "the keys of the harbour"])
        query, chunk = (each.dense or () for each in expected)
        cosine = sum(one * other for one, other in zip(query, chunk, strict=True))
        assert hit.retrieval.vector_score == pytest.approx(cosine, abs=1e-6)

    def test_no_provider_degrades_to_keyword_only(self, both: KnowledgeBase) -> None:
        """Scenario, second half: none is configured; keyword search answers."""
        both.add("the keys of the harbour")
        both.embed()
        with KnowledgeBase(both.location, encoder="none") as kb:
            found = recall(kb, "harbour keys")
            assert [hit.sources for hit in found] == [("fts",)]
            assert [(part.part, part.reason) for part in found.degraded] == [("dense", "no_model")]

    def test_keyword_search_always_runs(self, both: KnowledgeBase) -> None:
        """Scenario: Keyword search always runs, with a provider or without."""
        both.add("the keys of the harbour")
        for ready in (False, True):
            if ready:
                both.embed()
            found = recall(both, "harbour")
            assert "lexical" in found.timing_ms
            assert "fts" in found.hits[0].sources

    def test_weighted_score_merging(self, both: KnowledgeBase) -> None:
        """Scenario: Weighted score merging: 0.7 * vector + 0.3 * keyword."""
        both.add("the keys of the harbour")
        for number in range(9):
            both.add(f"other words altogether {number}")
        both.embed()
        for weights, (vector, keyword) in (
            ({}, (0.7, 0.3)),
            ({"vector_weight": 0.4, "keyword_weight": 0.6}, (0.4, 0.6)),
        ):
            hit = recall(both, "harbour keys", settings=weights).hits[0]
            assert hit.retrieval.vector_score is not None
            assert hit.retrieval.lexical_score is not None
            assert hit.retrieval.lexical_score > 0.5
            expected = vector * hit.retrieval.vector_score
            expected += keyword * (0.35 + 0.64 * hit.retrieval.lexical_score)
            assert hit.score == pytest.approx(expected)
            assert hit.score_kind == "weighted"

    def test_without_ready_vectors_the_weight_goes_to_the_keywords(
        self, both: KnowledgeBase
    ) -> None:
        """Resolution: a retriever without ready vectors counts as not run."""
        both.add("the keys of the harbour")
        found = recall(both, "harbour")
        assert found.degraded == (Degraded("dense", "pending", 1),)
        (hit,) = found
        assert hit.retrieval.lexical_score is not None
        assert hit.score == pytest.approx(0.35 + 0.64 * hit.retrieval.lexical_score)

    def test_any_keyword_is_enough(self, both: KnowledgeBase) -> None:
        both.add("the keys of the harbour")
        (hit,) = recall(both, "harbour boats")
        assert hit.sources == ("fts",)


class TestVectorSearchViaNumpy:
    """Requirement: Vector search via numpy cosine similarity."""

    @pytest.mark.parametrize("backend", ["numpy", "python", "no numpy"])
    def test_a_cosine_has_a_sign(
        self, both: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, backend: str
    ) -> None:
        """A vector in the opposite direction comes last, not first."""
        chunks = [both.chunks(both.add(text).doc_path)[0].chunk_id for text in ("a", "b", "c")]
        model = both._store.vectors.use_model(Weightless().spec)
        rest = [0.0] * 62
        vectors = ([-1.0, 0.0, *rest], [0.6, 0.8, *rest], [0.0, 1.0, *rest])
        write_vectors(both._store,
            model.model_id,
            [(chunk, Encoding(dense=array("f", vector)))
             for chunk, vector in zip(chunks, vectors, strict=True)],
        )  # fmt: skip
        if backend == "no numpy":
            hide_numpy(monkeypatch)
        backend = backend if backend != "no numpy" else "python"
        found = sqlite_store(both).vectors.nearest_dense(
            model.model_id, [1.0, 0.0, *rest], filters=Filters(), now="2026-05-28", limit=3,
            backend=backend,
        )  # fmt: skip
        assert found.backend == backend
        assert [one.chunk_id for one in found.chunks] == [chunks[1], chunks[2], chunks[0]]
        assert [one.score for one in found.chunks] == pytest.approx([0.6, 0.0, -1.0])

    @pytest.mark.parametrize("backend", ["numpy", "python"])
    def test_a_filter_is_no_cut_of_the_nearest(
        self, both: KnowledgeBase, library: Library, backend: str
    ) -> None:
        better = "".join(f"# Keys {n}\n\nharbour keys\n\n" for n in range(400))
        few = "# Other\n\nkeys and quite other words\n\n# Others\n\nflour and keys\n"
        both.ingest(library({"better.md": better, "few.md": f"---\ntags: [kept]\n---\n{few}"}))
        both.embed()
        (model,) = both._store.vectors.models()
        query = Weightless().encode(["harbour keys"])[0].dense
        assert query is not None
        found = sqlite_store(both).vectors.nearest_dense(
            model.model_id, query, filters=Filters(tags=("kept",)), now="2026-05-28", limit=2,
            backend=backend,
        )  # fmt: skip
        few_ids = {chunk.chunk_id for chunk in both.chunks("lib/few.md")}
        assert {one.chunk_id for one in found.chunks} == few_ids
        assert found.backend == backend

    def test_vectorized_cosine_similarity(self, both: KnowledgeBase) -> None:
        """Scenario: Vectorized cosine similarity: a matrix, and the same as plain Python."""
        for number in range(50):
            both.add(f"harbour {number} keys {number % 7}")
        both.embed()
        (model,) = both._store.vectors.models()
        query = Weightless().encode(["harbour keys 3"])[0].dense
        assert query is not None
        answers = {
            backend: sqlite_store(both).vectors.nearest_dense(
                model.model_id, query, filters=Filters(), now="2026-05-28T00:00:00Z",
                limit=10, backend=backend,
            )
            for backend in ("numpy", "python")
        }  # fmt: skip
        assert answers["numpy"].backend == "numpy"
        assert answers["numpy"].chunks == answers["python"].chunks
        assert len(answers["numpy"].chunks) == 10

    def test_pure_python_fallback(
        self, both: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Scenario: Pure-Python fallback: numpy is unavailable."""
        sqlite_store(both)  # other stores need numpy
        for number in range(50):
            both.add(f"harbour {number} keys {number % 7}")
        both.embed()
        expected = [hit.chunk_id for hit in recall(both, "harbour keys 3")]
        hide_numpy(monkeypatch)
        with KnowledgeBase(both.location, clock=both._clock, encoder=Weightless()) as kb:
            found = recall(kb, "harbour keys 3")
            assert [hit.chunk_id for hit in found] == expected
            assert found.degraded == ()


def hide_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "numpy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_WithoutNumpy(), *sys.meta_path])


class _WithoutNumpy:
    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


# --- decay and limits -----------------------------------------------------------------------------


def daily(age_days: int) -> str:
    return f"{TODAY - timedelta(days=age_days)}.md"


class TestTemporalDecay:
    """Requirement: Temporal decay for dated memory files."""

    def test_decay_applied_to_dated_files(self, both: KnowledgeBase, library: Library) -> None:
        """Scenario: Decay applied to dated files: at 0, 30 and 60 days."""
        ages = (0, 30, 60)
        both.ingest(library({f"{age}/{daily(age)}": "harbour keys\n" for age in ages}))
        both.embed()
        found = recall(both, "harbour", explain=True)
        assert [hit.doc_path for hit in found] == [f"lib/{age}/{daily(age)}" for age in ages]
        assert found.explain is not None
        factors = [hit["factors"]["decay"] for hit in found.explain["hits"]]
        assert factors == pytest.approx([1.0, 0.5, 0.25])
        for hit, factor in zip(found.hits, factors, strict=True):
            assert hit.retrieval.fusion_score is not None
            assert hit.score == pytest.approx(hit.retrieval.fusion_score * factor)

    @pytest.mark.parametrize("half_life", [7, 30, 365])
    def test_the_formula(self, both: KnowledgeBase, library: Library, half_life: int) -> None:
        both.ingest(library({daily(45): "harbour\n"}))
        settings = {"half_life": half_life}
        explain = recall(both, "harbour", settings=settings, explain=True).explain
        assert explain is not None
        expected = math.exp(-math.log(2) / half_life * 45)
        assert explain["hits"][0]["factors"]["decay"] == pytest.approx(expected)

    @pytest.mark.parametrize("age", [1, 2, 29, 31])
    def test_every_day_counts(self, both: KnowledgeBase, library: Library, age: int) -> None:
        both.ingest(library({daily(age): "harbour\n"}))
        explain = recall(both, "harbour", explain=True).explain
        assert explain is not None
        assert explain["hits"][0]["factors"]["decay"] == pytest.approx(0.5 ** (age / 30))

    @pytest.mark.parametrize(
        "name", ["MEMORY.md", "2026-05-29.md", "2026-02-31.md", "a-2020-01-01.md"]
    )
    def test_no_date_no_decay(self, both: KnowledgeBase, library: Library, name: str) -> None:
        """Scenario, second half: no date in the path, a future or an impossible one: 1.0."""
        both.ingest(library({name: "harbour\n"}))
        explain = recall(both, "harbour", explain=True).explain
        assert explain is not None
        assert explain["hits"][0]["factors"] == {"decay": 1.0}

    def test_a_two_year_old_daily_note_is_still_found(
        self, both: KnowledgeBase, library: Library
    ) -> None:
        """Resolution: decay comes after the minimum score, and only reorders."""
        both.ingest(library({daily(730): "harbour keys\n"}))
        both.embed()
        for query in ("harbour keys", "keys"):
            (hit,) = recall(both, query)
            assert hit.doc_path == f"lib/{daily(730)}"
            assert hit.score < 1e-6


class TestResultFilteringAndLimits:
    """Requirement: Result filtering and limits."""

    def test_min_score_threshold(self, both: KnowledgeBase) -> None:
        """Scenario: Min score threshold: below 0.1 of the merged score is discarded."""
        both.add("harbour keys", title="near")
        both.add("flour water salt", title="far")
        both.embed()
        every = recall(both, "harbour keys", settings={"min_score": "none"})
        assert [hit.title for hit in every] == ["near", "far"]
        assert every.hits[1].score < 0.1
        assert [hit.title for hit in recall(both, "harbour keys")] == ["near"]
        assert recall(both, "harbour keys", settings={"min_score": 0.99}).hits == ()

    def test_at_a_tenth_and_neither_above_nor_below(self, both: KnowledgeBase) -> None:
        """Scores are a thousandth apart: those below 0.1 are discarded, and no others."""
        chunks = [both.chunks(both.add(f"note {n}").doc_path)[0].chunk_id for n in range(60)]
        model = both._store.vectors.use_model(Weightless().spec)
        rows = []
        for number, chunk in enumerate(chunks):
            cosine = 0.11 + number / 700  # so that 0.7 times the cosine is at least 0.077
            vector = [cosine, math.sqrt(1 - cosine**2), *[0.0] * 62]
            rows.append((chunk, Encoding(dense=array("f", vector))))
        write_vectors(both._store, model.model_id, rows)
        ahead = [1.0, *[0.0] * 63]
        asked: dict[str, Any] = {"embedding": ahead, "profile": "memory", "limit": 60}
        every = both.search_hybrid("harbour", settings={"min_score": "none"}, **asked)
        scores = [hit.score for hit in every]
        assert len(scores) == 60
        assert any(0.098 < score < 0.1 for score in scores)
        assert any(0.1 < score < 0.102 for score in scores)
        kept = [hit.score for hit in both.search_hybrid("harbour", **asked)]
        assert kept == [score for score in scores if score >= 0.1]
        least = {"min_score": scores[30]}  # an equal score is enough
        assert len(both.search_hybrid("harbour", settings=least, **asked)) == 31

    def test_max_results_limit(self, both: KnowledgeBase) -> None:
        """Scenario: Max results limit: the top ones by combined score."""
        for number in range(15):
            both.add("harbour " * (number + 1) + "other words")
        both.embed()
        every = recall(both, "harbour", top=15)
        assert recall(both, "harbour").returned == 10
        limited = recall(both, "harbour", settings={"max_results": 3})
        assert [hit.chunk_id for hit in limited] == [hit.chunk_id for hit in every][:3]


class TestExactWordsSurviveTheLeastScore:
    """Resolution: the default `min_score` drops no keyword hit."""

    @pytest.fixture(params=["keyword only", "vectors pending", "vectors ready"])
    def any_kb(
        self, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
    ) -> Iterator[tuple[KnowledgeBase, Callable[[], object]]]:
        """A knowledge base, and a function to call once it is filled."""
        encoder = "none" if request.param == "keyword only" else Weightless()
        with KnowledgeBase(tmp_path / "kb.sqlite", clock=clock, encoder=encoder) as kb:
            ready = request.param == "vectors ready"
            yield kb, (kb.embed if ready else lambda: None)

    def test_a_one_document_store(self, any_kb: tuple[KnowledgeBase, Callable[[], object]]) -> None:
        kb, finish = any_kb
        kb.add("the harbour master")
        finish()
        assert recall(kb, "harbour").returned == 1

    def test_one_shared_word_everywhere(
        self, any_kb: tuple[KnowledgeBase, Callable[[], object]]
    ) -> None:
        kb, finish = any_kb
        for number in range(8):
            kb.add(f"harbour {number}")
        finish()
        found = recall(kb, "harbour")
        assert found.returned == 8
        assert all(hit.score >= 0.1 for hit in found)

    def test_a_word_in_most_of_a_larger_store(
        self, any_kb: tuple[KnowledgeBase, Callable[[], object]]
    ) -> None:
        kb, finish = any_kb
        for number in range(30):
            kb.add(f"harbour {number} " + "and other words " * (number % 5))
        finish()
        assert recall(kb, "harbour", top=50).returned == 30
