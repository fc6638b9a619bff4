"""The signals of a hit, and relevance through a knowledge base."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import InvalidRequest
from kb.search.query.analysis import analyze
from kb.search.results.signals import QueryTerms
from kb.types import TermFrequencies
from tests.models.weightless import Weightless

TEXTS = {
    "keys": "The harbour keys hang in the office beside the radio.",
    "boat": "A boat lies in the harbour in the morning.",
    "storm": "Retry storms and how to calm them: back off, and add jitter.",
    "log": "def battery_log(targetHost): return the log of the buoy's battery",
    "zh": "数据库连接失败的时候，请检查网络设置。",
}
ANSWERABLE = (
    "where do the harbour keys hang?",
    "how do I calm a retry storm?",
    "harbour",
    "jitter",
)
FOREIGN = ("who won the world cup in 2018?", "best pasta recipe with tomatoes", "zebra")


@pytest.fixture(params=["words", "vectors pending", "vectors", "another encoder"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeBase]:
    encoders: dict[str, str | Weightless] = {"words": "none", "another encoder": Weightless()}
    with KnowledgeBase(
        tmp_path / "kb.sqlite", encoder=encoders.get(request.param, "kb-mini")
    ) as opened:
        for title, text in TEXTS.items():
            opened.add(text, title=title)
        if request.param in ("vectors", "another encoder"):
            opened.embed()
        yield opened


def first(kb: KnowledgeBase, query: str) -> float:
    hits = kb.search(query).hits
    return (hits[0].relevance or 0.0) if hits else 0.0


def test_questions_that_the_store_answers_have_more(kb: KnowledgeBase) -> None:
    least = min(first(kb, query) for query in ANSWERABLE)
    most = max(first(kb, query) for query in FOREIGN)
    assert least > 0.5 > most


def test_min_relevance_drops_hits(kb: KnowledgeBase) -> None:
    every = kb.search("harbour keys")
    assert all(hit.relevance is not None for hit in every)
    kept = kb.search("harbour keys", min_relevance=0.5)
    assert [hit.title for hit in kept][:1] == ["keys"]
    assert list(kept) == [hit for hit in every if (hit.relevance or 0) >= 0.5]
    by_setting = kb.search("harbour keys", settings={"min_relevance": 0.5})
    assert [hit.chunk_id for hit in by_setting] == [hit.chunk_id for hit in kept]
    for query in FOREIGN:
        assert kb.search(query, min_relevance=0.5).hits == ()


def test_explain_shows_the_signals_of_the_hits_that_are_left(kb: KnowledgeBase) -> None:
    response = kb.search("harbour keys", min_relevance=0.5, explain=True)
    assert response.explain is not None
    explained = response.explain["hits"]
    assert [one["chunk_id"] for one in explained] == [hit.chunk_id for hit in response]
    assert explained[0]["signals"]["coverage"] == pytest.approx(1.0)
    assert explained[0]["signals"]["matched"] == 2
    assert 0 < explained[0]["signals"]["words"] <= 2


@pytest.mark.parametrize("value", ["x", -0.1, 1.1, True])
def test_min_relevance_is_a_probability(kb: KnowledgeBase, value: object) -> None:
    with pytest.raises(InvalidRequest):
        kb.search("harbour", min_relevance=value)  # type: ignore[arg-type]


def test_an_expression_has_no_relevance(kb: KnowledgeBase) -> None:
    hits = kb.search("'harbour OR jitter'").hits
    assert hits
    assert all(hit.relevance is None for hit in hits)


class TestCoverage:
    FREQUENCIES = TermFrequencies({"harbour": 40, "kei": 1, "boat": 0}, 100)

    def coverage(self, query: str, text: str, **options: bool) -> float:
        terms = QueryTerms.of(analyze(query), self.FREQUENCIES, **options)
        return terms.coverage(terms.terms_in(text))

    def test_rare_words_weigh_more(self) -> None:
        rare = self.coverage("harbour keys", "the keys")
        common = self.coverage("harbour keys", "the harbours")
        assert 0 < common < rare
        assert common + rare == pytest.approx(1.0)

    def test_identifiers_match_by_their_parts(self) -> None:
        assert self.coverage("targetHost", "the target host") == 1.0
        assert self.coverage("target host", "connect(targetHost)") == 1.0

    def test_pieces_of_unspaced_script(self) -> None:
        assert self.coverage("数据库", "关于数据库的事") == 1.0
        assert 0 < self.coverage("数据库", "关于数据的事") < 1

    def test_pieces_of_an_alphabet_are_longer(self) -> None:
        """Two Thai texts about different things share half of their pairs of letters."""
        query = "การแข่งขันกีฬาแห่งชาติ"
        assert self.coverage(query, f"ข่าว{query}วันนี้") == pytest.approx(1.0)
        pairs = " ".join(query[at : at + 2] for at in range(len(query) - 1))
        assert self.coverage(query, pairs) == 0.0

    def test_a_piece_is_as_rare_as_its_rarest_pair(self) -> None:
        query = "กีฬา"
        known = TermFrequencies({"กี": 90, "ีฬ": 3, "ฬา": 8}, 100)
        unknown = TermFrequencies({"กี": 90, "ีฬ": 0, "ฬา": 8}, 100)
        assert QueryTerms.of(analyze(query), known).known() == 1.0
        assert QueryTerms.of(analyze(query), unknown).known() == 0.0
        assert QueryTerms.of(analyze(query), known).total < 0.25
        assert QueryTerms.of(analyze(query), unknown).total == pytest.approx(0.25)

    def test_inside_words_only_if_asked(self) -> None:
        assert self.coverage("arbou", "harbour") == 0.0
        assert self.coverage("arbou", "HARBOUR", inside=True) == 1.0

    def test_the_share_of_known_words(self) -> None:
        assert QueryTerms.of(analyze("harbour boat"), self.FREQUENCIES).known() == 0.5
        assert QueryTerms.of(analyze(""), self.FREQUENCIES).known() == 0.0

    def test_a_common_word_of_a_small_store_still_counts(self) -> None:
        few = TermFrequencies({"harbour": 2}, 3)
        assert QueryTerms.of(analyze("harbour"), few).total > 0.5


class TestMemory:
    """The minimum score of the profile `memory` [003] also applies to half of the relevance."""

    @pytest.fixture
    def memory(self, tmp_path: Path) -> Iterator[KnowledgeBase]:
        with KnowledgeBase(tmp_path / "kb.sqlite", encoder="kb-mini") as opened:
            for title, text in TEXTS.items():
                opened.add(text, title=title)
            opened.embed()
            yield opened

    def test_hits_about_something_else_are_dropped(self, memory: KnowledgeBase) -> None:
        for query in FOREIGN:
            assert memory.search(query, profile="memory").hits == ()
            assert memory.search(query, profile="memory", settings={"calibrated": False}).hits
            assert memory.search(query, profile="memory", settings={"min_score": "none"}).hits

    def test_right_hits_stay(self, memory: KnowledgeBase) -> None:
        for query, title in zip(ANSWERABLE[:2], ("keys", "storm"), strict=True):
            assert memory.search(query, profile="memory").hits[0].title == title

    def test_passages_with_every_word_stay(self, memory: KnowledgeBase) -> None:
        hits = memory.search("morning", profile="memory", settings={"min_score": 0.95})
        assert hits.hits == ()  # the score itself is too low
        for query in ("morning", "the office radio", "battery"):
            assert memory.search(query, profile="memory").hits

    def test_words_alone_are_kept_while_vectors_are_made(self, memory: KnowledgeBase) -> None:
        memory.add("Zebra crossings near the quay, and much else about the town.", title="new")
        query = "does a zebra win the world cup?"
        assert [hit.title for hit in memory.search(query, profile="memory")] == ["new"]


def test_a_limit_for_relevance_is_applied_before_the_list_is_cut(tmp_path: Path) -> None:
    """Passages that it drops take no places: a list is not shorter than it need be."""
    diary = tmp_path / "diary"
    diary.mkdir()
    today = date(2026, 5, 1)
    for age in range(40):
        day = today - timedelta(age)
        (diary / f"{day}.md").write_text(f"# {day}\n\nWalked to the harbour. {TEXTS['boat']}\n")
    old = today - timedelta(120)
    (diary / f"{old}.md").write_text(f"# {old}\n\nHid the spare key under the xanthium pot.\n")
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="kb-mini", clock=lambda: noon) as kb:
        kb.ingest(diary)
        kb.embed()
        for profile in ("memory", "default", "notes"):
            for top in (1, 3, 10, 40):
                hits = kb.search("spare key", profile=profile, top=top).hits
                relevant = kb.search("spare key", profile=profile, top=top, min_relevance=0.5).hits
                assert str(old) in [hit.title for hit in relevant], (profile, top)
                assert len(relevant) <= len(hits) or profile == "memory"
                assert [hit.rank for hit in relevant] == list(range(1, len(relevant) + 1))
        assert str(old) in [hit.title for hit in kb.search("spare key", profile="memory").hits]


@pytest.mark.parametrize("mode", ["lexical", "vector", "sparse", None])
def test_a_single_retriever_looks_deeper_for_relevant_passages(tmp_path: Path, mode: str) -> None:
    """The list of a single retriever is as long as that of the hits."""
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="kb-mini") as kb:
        for number in range(30):
            kb.add(f"Restart {number}: restart, then restart everything again.", title=f"{number}")
        kb.add("A gateway of the harbour radio was restarted after the storm.", title="right")
        kb.embed()
        query = "was the gateway of the harbour radio restarted after the storm"
        everything = kb.search(query, mode=mode, top=31, min_relevance=0.5, collapse=False).hits
        assert "right" in [hit.title for hit in everything]
        for top in range(1, len(everything) + 1):
            hits = kb.search(query, mode=mode, top=top, min_relevance=0.5, collapse=False).hits
            assert len(hits) == top
