"""The rerank stage alone: a reranker with given scores and speed, and no store. `test_rerank.py`
tests it in a search."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kb.deadline import Deadline
from kb.errors import Cancelled, DeadlineExceeded, ModelBroken
from kb.ports import ModelTraits
from kb.search.query.analysis import Analysis, analyze
from kb.search.rerank.blend import RerankResult, blend_scores
from kb.search.rerank.cross_encoder import CrossEncoder
from kb.search.rerank.stage import RerankStage, Scores, slices
from kb.search.results.hits import CandidateCache
from kb.search.retrievers.base import Candidates
from kb.types import Chunk, Degraded, Hit, Retrieval, ScoredChunk
from tests.models.judges import WordJudge

NO_SHELF = cast(CandidateCache, None)


class Reader:
    """A `Reranker` with given scores. Each passage takes `pace_ms`, the query `query_ms`, loading
    `load_ms`."""

    name, model = "reader", "reader-1"

    def __init__(self, scores: Scores, *, pace_ms: float = 0.0, **said: Any) -> None:
        self.given, self.pace_ms, self.said = scores, pace_ms, said
        self.scripts: tuple[str, ...] = said.get("scripts", ())
        self.now_ms = 1000.0
        self.slices: list[tuple[int, ...]] = []
        self.calls: list[str] = []

    def unfit(self, text: str) -> str:
        return str(self.said.get("unfit", ""))

    def load(self) -> None:
        self.calls.append("load")
        self.now_ms += self.said.get("load_ms", 0.0)

    def prepare(self, text: str) -> None:
        self.calls.append(f"prepare {text}")
        self.now_ms += self.said.get("query_ms", 0.0)

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:
        self.calls.append(f"read {text}")
        self.slices.append(tuple(chunk_ids))
        self.now_ms += self.pace_ms * len(chunk_ids)
        if error := self.said.get("error"):
            raise error
        return {chunk: self.given[chunk] for chunk in chunk_ids if chunk in self.given}

    def elapsed_ms(self) -> float:
        return self.now_ms


QUERY = analyze("harbour keys")
FUSED = [
    ScoredChunk(10, 0.9, 1),
    ScoredChunk(11, 0.8, 2),
    ScoredChunk(12, 0.7, 3),
    ScoredChunk(13, 0.6, 4),
]


def stage(reader: Reader | None, **said: Any) -> RerankStage:
    base = RerankStage("reader", candidates=3, blend=1.0, reranker=reader)
    return replace(base, **said)


def run(
    reader: Reader, query: Analysis = QUERY, ranked: Sequence[ScoredChunk] = FUSED, **said: Any
) -> tuple[RerankResult, dict[str, Any]]:
    facts: dict[str, Any] = {}
    return stage(reader, **said)(query, ranked, NO_SHELF, reader.elapsed_ms, facts), facts


def order(found: RerankResult) -> list[int]:
    return [one.chunk_id for one in found.ranked]


# --- reading --------------------------------------------------------------------------------------


def test_the_first_candidates_are_read_and_sorted() -> None:
    reader = Reader({10: 1.0, 11: 3.0, 12: 2.0, 13: 9.0})
    found, facts = run(reader)
    assert order(found) == [11, 12, 10, 13]  # the fourth was not a candidate
    assert reader.slices == [(10, 11, 12)]
    assert reader.calls == ["load", "prepare harbour keys", "read harbour keys"]
    assert found.scores == {10: 1.0, 11: 3.0, 12: 2.0}
    assert found.degraded == ()
    assert facts == {"model": "reader-1", "candidates": 3, "scored": 3}
    assert found.blend == blend_scores(FUSED[:3], {10: 1.0, 11: 3.0, 12: 2.0}, 1.0)
    assert found.ranked[3].score <= found.ranked[2].score


def firsts(*chunk_ids: int | None) -> dict[str, Candidates]:
    """The lists of retrievers that begin with these chunks and end with another."""
    return {
        str(at): Candidates(() if one is None else (ScoredChunk(one, 0.9, 1), FUSED[3]))
        for at, one in enumerate(chunk_ids)
    }


@pytest.mark.parametrize(
    ("candidates", "read"),
    [
        (None, True),
        (firsts(11, 12, None), True),
        (firsts(10, None), True),
        (firsts(10, 10, 12), False),
        (firsts(11, 11), True),  # they agree on another chunk than the fused list
    ],
)
def test_an_automatic_blend_depends_on_agreement(
    candidates: dict[str, Candidates] | None, read: bool
) -> None:
    reader = Reader({10: 1.0, 11: 3.0, 12: 2.0})
    facts: dict[str, Any] = {}
    automatic = stage(reader, blend=None)
    found = automatic(QUERY, FUSED, NO_SHELF, reader.elapsed_ms, facts, candidates)
    assert order(found) == ([11, 12, 10, 13] if read else [10, 11, 12, 13])
    assert facts["blend"] == (1.0 if read else 0.0)
    assert repr(automatic) == "rerank(reader, top 3, blend=auto)"


def test_an_automatic_blend_depends_on_the_query() -> None:
    reader = Reader({10: 1.0, 11: 3.0, 12: 2.0})
    found, facts = run(
        reader, analyze("a claim with many more words than a few of them"), blend=None
    )
    assert order(found) == [10, 11, 12, 13]
    assert facts["blend"] == 0.0


def test_the_blend_is_the_profiles() -> None:
    reader = Reader({10: 1.0, 11: 3.0, 12: 2.0})
    assert order(run(reader, blend=0.0)[0]) == [10, 11, 12, 13]


def test_unscored_passages_are_pending_unless_they_cannot_be_compared() -> None:
    found, facts = run(Reader({10: 1.0, 12: None}))
    assert found.degraded == (Degraded("rerank", "pending", 1),)
    assert found.scores == {10: 1.0}
    assert facts["scored"] == 1


def test_nothing_known_leaves_the_fused_order() -> None:
    found, facts = run(Reader({10: None, 11: None, 12: None}))
    assert found == RerankResult(tuple(FUSED))
    assert facts == {"model": "reader-1", "candidates": 3, "scored": 0}
    found, _ = run(Reader({}))
    assert found == RerankResult(tuple(FUSED), degraded=(Degraded("rerank", "pending", 3),))


def test_unread_candidates_are_never_above_read_ones() -> None:
    """This holds even if the fourth has the same fused score as the third, which the reranker
    raised."""
    ranked = [*FUSED[:3], ScoredChunk(13, 0.7, 4)]
    found, _ = run(Reader({10: 1.0, 11: 3.0, 12: 2.9}), ranked=ranked)
    assert order(found) == [11, 12, 10, 13]
    assert found.ranked[3].score == found.ranked[2].score


# --- unread candidates ----------------------------------------------------------------------------


def test_without_a_reader_the_reason_is_named() -> None:
    why = (Degraded("rerank", "no_model", "it is not there"),)
    facts: dict[str, Any] = {}
    found = stage(None, degraded=why)(QUERY, FUSED, NO_SHELF, lambda: 0.0, facts)
    assert found == RerankResult(tuple(FUSED), degraded=why)
    assert facts == {}


def test_an_expression_is_not_read() -> None:
    expression = analyze("'harbour AND keys'")
    for tells in (False, True):
        reader = Reader({10: 1.0, 11: 3.0, 12: 2.0})
        found, _ = run(reader, expression, warns_of_expression=tells)
        assert order(found) == [10, 11, 12, 13]
        assert [part.reason for part in found.degraded] == ["expression"] * tells
        assert reader.calls == []
    assert found.degraded == (
        Degraded("rerank", "expression", "an FTS5 expression is not reranked"),
    )
    assert not stage(None).warns_of_expression


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("", {}, ("no_query", "the query has no text to compare with passages")),
        ("数据库", {"scripts": ("Latin", "Greek")},
         ("language", "reader-1 reads Latin and Greek script")),
        ("keys", {"unfit": "it failed the exam"}, ("unfit", "it failed the exam")),
    ],
)  # fmt: skip
def test_queries_that_cannot_be_reranked(
    text: str, said: dict[str, Any], told: tuple[str, str]
) -> None:
    reader = Reader({10: 1.0, 11: 3.0, 12: 2.0}, **said)
    found, _ = run(reader, analyze(text or "?"))
    assert found == RerankResult(tuple(FUSED), degraded=(Degraded("rerank", *told),))
    assert reader.calls == []


@pytest.mark.parametrize(
    ("score", "fine"),
    [(1e100, True), (-1e100, True), (1.05e100, False), (inf, False), (nan, False)],
)
def test_scores_that_are_not_numbers_are_refused(score: float, fine: bool) -> None:
    found, _ = run(Reader({10: 1.0, 11: score, 12: None}))
    if fine:
        assert found.scores == {10: 1.0, 11: score}
        return
    told = "reader-1 returned scores that are not numbers"
    assert found == RerankResult(tuple(FUSED), degraded=(Degraded("rerank", "failed", told),))


def test_a_failure_is_logged_and_leaves_the_fused_order(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kb.search"):
        found, facts = run(Reader({}, error=ModelBroken("out of memory", "see: kb models")))
    assert found == RerankResult(
        tuple(FUSED), degraded=(Degraded("rerank", "failed", "out of memory"),)
    )
    (record,) = caplog.records
    assert record.name == "kb.search"
    assert record.getMessage() == "reader failed: out of memory"
    assert not record.exc_info
    assert facts == {}


def test_an_unexpected_failure_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = ModelBroken("out of memory", "see: kb models")
    broken.__cause__ = MemoryError()
    for error in (broken, RuntimeError("no session")):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kb.search"):
            run(Reader({}, error=error))
        (record,) = caplog.records
        assert record.exc_info is not None
        assert record.exc_info[0] is type(error)


def test_a_reader_that_is_stopped_leaves_the_fused_order_within_the_deadline() -> None:
    late = DeadlineExceeded("no answer within 1 s", "ask for less")
    with Deadline(60.0):
        found, _ = run(Reader({}, error=late))
    assert order(found) == [10, 11, 12, 13]
    assert [part.part for part in found.degraded] == ["rerank"]
    cancelled = Deadline()
    cancelled.cancel()
    with cancelled, pytest.raises(Cancelled):
        run(Reader({}, error=late))


# --- a budget -------------------------------------------------------------------------------------


def ranks(count: int) -> list[ScoredChunk]:
    return [ScoredChunk(chunk, 1.0 - chunk / 1000, chunk) for chunk in range(1, count + 1)]


def read_within(budget_ms: int, count: int = 100, **said: Any) -> tuple[Reader, RerankResult]:
    reader = Reader({chunk: float(chunk) for chunk in range(1, count + 1)}, **said)
    found, _ = run(reader, ranked=ranks(count), candidates=count, budget_ms=budget_ms)
    return reader, found


def test_without_a_budget_all_are_read_at_once() -> None:
    assert list(slices(7, None)) == [(0, 7)]


def test_slices_grow_from_one_to_sixteen() -> None:
    reader, found = read_within(1_000_000, pace_ms=1.0)
    assert [len(each) for each in reader.slices] == [1, 16, 16, 16, 16, 16, 16, 3]
    assert [chunk for each in reader.slices for chunk in each] == list(range(1, 101))
    assert found.degraded == ()


def test_a_slice_is_planned_with_nine_tenths_of_what_is_left() -> None:
    """Each takes 10 ms of 100: after the first, 90 ms are left, of which 81 are planned, enough for
    8; then 10 are left, and 9 are not enough for another."""
    reader, found = read_within(100, pace_ms=10.0)
    assert [len(each) for each in reader.slices] == [1, 8]
    assert found.degraded == (Degraded("rerank", "timeout", "9 of 100 candidates within 100 ms"),)
    assert order(found)[:9] == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert order(found)[9:] == list(range(10, 101))


def test_a_tenth_of_what_is_left_is_kept_back() -> None:
    """After the first, which takes 10 ms, 105 are left: enough for ten, but nine are planned."""
    reader, _ = read_within(115, pace_ms=10.0)
    assert [len(each) for each in reader.slices] == [1, 9, 1]


def test_a_first_passage_that_takes_too_long_is_reported_with_its_time() -> None:
    reader, found = read_within(100, pace_ms=150.0)
    assert reader.slices == [(1,)]
    (told,) = found.degraded
    assert told == Degraded(
        "rerank", "timeout", "1 of 100 candidates in 150.0 ms, of 100 ms allowed"
    )


def test_just_in_time_is_in_time() -> None:
    _, found = read_within(100, pace_ms=100.0)
    assert found.degraded == (Degraded("rerank", "timeout", "1 of 100 candidates within 100 ms"),)


def test_the_query_counts_and_loading_does_not() -> None:
    reader, _ = read_within(100, pace_ms=1.0, load_ms=5000.0)
    assert sum(map(len, reader.slices)) > 50
    reader, found = read_within(100, pace_ms=1.0, query_ms=100.0)
    assert reader.slices == []
    assert found.degraded == (Degraded("rerank", "timeout", "0 of 100 candidates within 100 ms"),)


def test_a_reader_that_takes_no_time_at_all_reads_everything() -> None:
    reader, found = read_within(1, pace_ms=0.0)
    assert sum(map(len, reader.slices)) == 100
    assert found.degraded == ()


def test_repr_of_a_stage() -> None:
    assert repr(stage(None)) == "rerank(reader, top 3, blend=1)"
    assert repr(stage(None, blend=0.25, budget_ms=300)) == (
        "rerank(reader, top 3, blend=0.25, within 300 ms)"
    )


# --- results --------------------------------------------------------------------------------------


def hit(chunk_id: int, score: float) -> Hit:
    known = {"chunk_id": chunk_id, "score": score, "score_kind": "rrf",
             "retrieval": Retrieval(method="hybrid", fusion_score=0.5)}  # fmt: skip
    return Hit(**{name: known.get(name) for name in Hit.__dataclass_fields__})  # type: ignore[arg-type]  # what is not looked at is None


def test_hits_show_how_they_were_reranked() -> None:
    found, _ = run(Reader({10: 1.0, 11: 3.0, 12: None}))
    marked = found.annotate([hit(11, 0.9), hit(12, 0.5)])
    assert [one.score_kind for one in marked] == ["rerank", "rerank"]
    assert [one.retrieval.rerank_score for one in marked] == [0.9, None]


def test_hits_of_a_search_without_it_stay_as_they_are() -> None:
    hits = [hit(11, 0.9)]
    assert RerankResult(()).annotate(hits) == tuple(hits)
    assert RerankResult(()).append(FUSED, FUSED) is None


def test_later_candidates_are_on_the_same_scale() -> None:
    found, _ = run(Reader({10: 1.0, 11: 3.0, 12: 2.0}))
    assert found.blend is not None
    later = [ScoredChunk(20, 0.99, 1), ScoredChunk(21, -5.0, 2)]
    expected = found.blend.below(later, found.ranked[-1].score)
    assert found.append(found.ranked, later) == expected
    assert expected[0].score == found.ranked[-1].score


# --- the cross-encoder ----------------------------------------------------------------------------


class Passages:
    """A cache of passages: chunk id to (title, headings, text)."""

    def __init__(self, passages: dict[int, tuple[str, tuple[str, ...], str]]) -> None:
        self._passages = passages
        self.chunks: dict[int, Chunk] = {}
        self.fetched: list[list[int]] = []

    def fetch_chunks(self, chunk_ids: Sequence[int]) -> None:
        self.fetched.append(list(chunk_ids))
        for one in chunk_ids:
            _, headings, text = self._passages[one]
            self.chunks[one] = cast(Chunk, SimpleNamespace(heading_path=headings, text=text))

    def document(self, chunk_id: int) -> SimpleNamespace:
        return SimpleNamespace(title=self._passages[chunk_id][0])


def test_a_passage_is_read_below_its_title_and_headings() -> None:
    judge = WordJudge()
    cache = Passages(
        {
            1: ("Title", ("Part", "Section"), "text"),
            2: ("Title", ("Title", "Section"), "text"),
            3: ("", (), "text"),
            4: ("Title", (), "Title and text"),
            5: ("Part", ("Part",), "Part of a text"),
        }
    )
    scores = CrossEncoder(judge).scores("text", [1, 2, 3, 4, 5], cast(CandidateCache, cache))
    assert judge.read == [
        "Title › Part › Section\ntext", "Title › Section\ntext", "text", "Title and text",
        "Part of a text",
    ]  # fmt: skip
    assert list(scores) == [1, 2, 3, 4, 5]
    expected = WordJudge().scores("text", judge.read)
    assert list(scores.values()) == expected
    assert len(set(expected)) > 1
    assert cache.fetched == [[1, 2, 3, 4, 5]]


def test_many_passages_are_read_in_parts_and_in_order() -> None:
    judge = WordJudge()
    cache = Passages({number: ("", (), f"text {'word ' * number}") for number in range(40)})
    scores = CrossEncoder(judge).scores("text", list(range(40)), cast(CandidateCache, cache))
    assert len(judge.read) == 40
    assert list(scores.values()) == WordJudge().scores("text", judge.read)


def test_the_deadline_is_checked_every_sixteen_passages() -> None:
    judge = WordJudge()
    deadline = Deadline()
    judge.on_pair = lambda: deadline.cancel() if len(judge.read) == 17 else None
    cache = Passages(dict.fromkeys(range(40), ("", (), "text")))
    with deadline, pytest.raises(Cancelled):
        CrossEncoder(judge).scores("text", list(range(40)), cast(CandidateCache, cache))
    assert len(judge.read) == 32


def test_as_many_scores_as_passages() -> None:
    judge = WordJudge()
    judge.fail = "short"
    cache = Passages({1: ("", (), "text"), 2: ("", (), "text")})
    with pytest.raises(ModelBroken) as error:
        CrossEncoder(judge).scores("text", [1, 2], cast(CandidateCache, cache))
    assert error.value.message == "word-judge returned 1 scores for 2 passages"
    assert error.value.hint == "see: kb models verify"


def test_a_cross_encoder_is_its_judge() -> None:
    reranker = CrossEncoder(WordJudge(scripts=("Latin",)))
    assert (reranker.name, reranker.model) == ("cross-encoder", "word-judge")
    assert reranker.scripts == ("Latin",)
    assert reranker.unfit("anything") == ""
    reranker.load()  # a judge without a `load` method
    loaded = []

    class Loading(ModelTraits, WordJudge):
        def load(self) -> None:
            loaded.append(True)

    CrossEncoder(Loading()).load()
    assert loaded == [True]
