"""Seed 003, keyword half: three tiers of keyword search, in every script.

Vectors, weights, decay and limits of the `memory` profile follow with dense retrieval.
"""

from __future__ import annotations

import apsw
import pytest

from kb import KnowledgeBase
from kb.types import Response

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
