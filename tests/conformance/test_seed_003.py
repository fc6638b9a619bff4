"""Seed 003: three tiers of keyword search in every script, and the `memory` profile: vectors and
keywords by weight, temporal decay, least score and limits."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import apsw
import pytest

from kb import Filters, KnowledgeBase
from kb.types import Degraded, Response
from tests.conftest import Clock
from tests.models.weightless import Weightless

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
        assert titles(memory.search("数据库 docker", match="all")) == []
        assert titles(memory.search("网络设置 数据库连接", match="all")) == ["zh"]

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
        """Scenario: LIKE fallback: FTS5 does not work; search answers and says so."""
        memory.close()
        connection = apsw.Connection(str(memory.path))
        for table in ("chunks_fts", "chunks_trigram", "chunks_cjk"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        with KnowledgeBase(memory.path) as kb:
            for query, title in (("connection failed", "en"), ("库", "zh"), ("연결", "ko")):
                found = kb.search(query)
                assert found.hits[0].title == title
                ((part, reason),) = ((one.part, one.reason) for one in found.degraded)
                assert (part, reason) == ("lexical", "failed")


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
        """데이터베이스 is found though the text says 데이터베이스에."""
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
def both(tmp_path: Path, clock: Clock) -> Iterator[KnowledgeBase]:
    """A knowledge base with an embedding provider."""
    path = tmp_path / "store" / "kb.sqlite"
    with KnowledgeBase(path, clock=clock, encoder=Weightless()) as opened:
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
        with KnowledgeBase(both.path, encoder="none") as kb:
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
        both.add("other words altogether")
        both.embed()
        for weights, (vector, keyword) in (
            ({}, (0.7, 0.3)),
            ({"vector_weight": 0.4, "keyword_weight": 0.6}, (0.4, 0.6)),
        ):
            hit = recall(both, "harbour keys", settings=weights).hits[0]
            assert hit.retrieval.vector_score is not None
            assert hit.retrieval.lexical_score is not None
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


class TestVectorSearchViaNumpy:
    """Requirement: Vector search via numpy cosine similarity."""

    def test_vectorized_cosine_similarity(self, both: KnowledgeBase) -> None:
        """Scenario: Vectorized cosine similarity: a matrix, and the same as plain Python."""
        for number in range(50):
            both.add(f"harbour {number} keys {number % 7}")
        both.embed()
        (model,) = both._store.models()
        query = Weightless().encode(["harbour keys 3"])[0].dense
        assert query is not None
        answers = {
            backend: both._store.nearest(
                model.model_id, query, filters=Filters(), now="2026-05-28T00:00:00Z",
                limit=10, backend=backend,
            )
            for backend in ("numpy", "python")
        }  # fmt: skip
        assert answers["numpy"].backend == "numpy"
        assert answers["numpy"].found == answers["python"].found
        assert len(answers["numpy"].found) == 10

    def test_pure_python_fallback(
        self, both: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Scenario: Pure-Python fallback: numpy is unavailable."""
        for number in range(50):
            both.add(f"harbour {number} keys {number % 7}")
        both.embed()
        expected = [hit.chunk_id for hit in recall(both, "harbour keys 3")]
        for name in [name for name in sys.modules if name.split(".")[0] == "numpy"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [_WithoutNumpy(), *sys.meta_path])
        with KnowledgeBase(both.path, clock=both._clock, encoder=Weightless()) as kb:
            found = recall(kb, "harbour keys 3")
            assert [hit.chunk_id for hit in found] == expected
            assert found.degraded == ()


class _WithoutNumpy:
    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


# --- what fades, and what is cut ------------------------------------------------------------------


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
        """Resolution: decay comes after the least score, and only reorders."""
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
    """Resolution: no keyword hit falls to the default `min_score`."""

    @pytest.fixture(params=["keyword only", "vectors pending", "vectors ready"])
    def any_kb(
        self, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
    ) -> Iterator[tuple[KnowledgeBase, Callable[[], object]]]:
        """A knowledge base, and what is done when it is filled."""
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
