"""The rerank stage: which candidates are read, failures, and the time limit."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, wire
from kb.config import Config
from kb.errors import InvalidRequest, ModelMissing
from kb.search.rerank.stage import slices
from kb.search.results.trace import Trace
from kb.types import Degraded, Response, SearchRequest
from tests.conftest import Clock
from tests.models.judges import WordJudge
from tests.models.weightless import unexamined
from tests.schemas import validate, validator
from tests.search.conftest import Failing

Library = Callable[[dict[str, str]], Path]


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of passages that words, vectors and the judge rank differently; created once."""
    folder = tmp_path_factory.mktemp("made")
    root = folder / "lib"
    root.mkdir()
    for number in range(150):
        text = f"harbour {'keys ' * (number % 4)}boat{number % 7} word{number} "
        (root / f"{number}.md").write_text(text + "and other words " * (number % 11))
    with KnowledgeBase(folder / "kb.sqlite", config=unexamined(), encoder=Failing()) as opened:
        opened.ingest(root)
        opened.embed()
    return folder / "kb.sqlite"


@pytest.fixture
def shelf(
    tmp_path: Path, made: Path, clock: Clock, encoder: Failing, judge: WordJudge
) -> Iterator[KnowledgeBase]:
    path = tmp_path / "kb.sqlite"
    shutil.copy(made, path)
    config = Config(profiles=ALWAYS)
    with KnowledgeBase(path, clock=clock, config=config, encoder=encoder, judge=judge) as opened:
        yield opened


QUERY = "harbour keys boat3"
TWO_WAY = {"retrievers": "lexical,dense"}
BLEND = {"rerank_blend": 0.5}
ALWAYS = {"default": BLEND, "notes": BLEND}  # the automatic blend has separate tests
COLBERT = {"default": {"rerank": "colbert", **BLEND}}


def ids(found: Response) -> list[int]:
    return [hit.chunk_id for hit in found]


def degraded(found: Response) -> list[tuple[str, str]]:
    return [(part.part, part.reason) for part in found.degraded]


def ask(kb: KnowledgeBase, **options: Any) -> Response:
    found = kb.search(QUERY, **options)
    validate(wire.response(found))
    return found


# --- behavior -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["colbert", "cross-encoder"])
def test_hits_are_sorted_by_what_they_show(shelf: KnowledgeBase, name: str) -> None:
    found = ask(shelf, rerank=name, settings={"rerank_blend": 0.5}, top=20)
    plain = ask(shelf, top=20, rerank=False)
    assert degraded(found) == []
    assert {hit.score_kind for hit in found} == {"rerank"}
    assert ids(found) != ids(plain)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert all(hit.retrieval.rerank_score == hit.score for hit in found)
    assert all(hit.retrieval.fusion_score is not None for hit in found)
    assert all(hit.retrieval.rerank_score is None for hit in plain)


def test_the_judge_alone_decides_at_a_blend_of_one(shelf: KnowledgeBase, judge: WordJudge) -> None:
    found = ask(shelf, rerank="cross-encoder", settings={"rerank_blend": "1"}, top=100)
    chunks = {hit.chunk_id: shelf.chunk(hit.chunk_id) for hit in found}
    titles = {hit.chunk_id: hit.title for hit in found}
    judged = judge.scores(QUERY, [f"{titles[one]}\n{chunks[one].text}" for one in ids(found)])
    assert judged == sorted(judged, reverse=True)


def test_a_blend_of_zero_is_the_fused_order(shelf: KnowledgeBase) -> None:
    found = ask(shelf, rerank="cross-encoder", settings={"rerank.blend": 0}, top=150)
    assert ids(found) == ids(ask(shelf, top=150, rerank=False))


def test_the_first_hundred_are_read_whatever_the_top(
    shelf: KnowledgeBase, judge: WordJudge
) -> None:
    for top in (1, 10, 150):
        judge.read.clear()
        ask(shelf, rerank="cross-encoder", top=top)
        assert len(judge.read) == len(set(judge.read)) == 100
    assert "harbour" in judge.read[0]


def test_a_passage_is_read_with_its_heading(kb: KnowledgeBase, library: Library) -> None:
    judge = WordJudge()
    with KnowledgeBase(kb.path, encoder="none", judge=judge) as opened:
        opened.ingest(library({"a.md": "# Harbour\n\n## Keys\n\nThey hang by the door.\n"}))
        opened.search("hang", rerank="cross-encoder", settings=BLEND)
    assert any(read.startswith("Harbour › Keys\n") for read in judge.read)


@pytest.mark.parametrize("name", ["colbert", "cross-encoder"])
@pytest.mark.parametrize(
    ("profile", "settings"),
    [("default", {}), ("memory", {}), ("default", {"candidates": "7", "complete": True}),
     ("memory", {"boosts": "type,access,decay"}), ("lexical", {}), ("default", {"group": True}),
     ("research", {}), ("default", {"rerank_candidates": "12"})],
)  # fmt: skip
def test_a_longer_list_starts_with_the_shorter_one(
    shelf: KnowledgeBase, name: str, profile: str, settings: dict[str, object]
) -> None:
    settings = {**BLEND, **settings}
    found = [
        shelf.search(QUERY, profile=profile, settings=settings, top=top, rerank=name).hits
        for top in (1, 10, 90, 101, 150)
    ]
    for shorter, longer in itertools.pairwise(found):
        assert longer[: len(shorter)] == shorter
    plain = shelf.search(QUERY, profile=profile, settings=settings, top=150, rerank=False)
    assert {hit.chunk_id for hit in found[-1]} == set(ids(plain))
    assert all(one.score >= other.score for one, other in itertools.pairwise(found[-1]))
    read = [hit.retrieval.rerank_score is not None for hit in found[-1]]
    assert read == sorted(read, reverse=True)
    assert sum(read) == int(str(settings.get("rerank_candidates", 100)))


def test_explain_shows_the_reranker_scores(shelf: KnowledgeBase) -> None:
    found = ask(shelf, rerank="colbert", explain=True)
    assert found.explain is not None
    assert "-> rerank(colbert, top 100, blend=" in found.explain["pipeline"]
    (stage,) = (each for each in found.explain["stages"] if each["stage"] == "rerank")
    assert (stage["model"], stage["candidates"], stage["scored"]) == ("weightless", 100, 100)
    assert all(-1.0 <= hit["scores"]["rerank"] <= 1.001 for hit in found.explain["hits"])
    assert "rerank" in found.timing_ms


def test_a_threshold_applies_to_the_displayed_scores(shelf: KnowledgeBase) -> None:
    every = ask(shelf, rerank="cross-encoder", top=150)
    cut = ask(shelf, rerank="cross-encoder", top=150, threshold=0.6)
    assert cut.hits == tuple(hit for hit in every if hit.score >= 0.6)
    assert 0 < len(cut.hits) < 150


# --- enabled and disabled -------------------------------------------------------------------------


def test_off_is_off(shelf: KnowledgeBase, judge: WordJudge) -> None:
    settings = {"rerank": "cross-encoder"}
    assert ask(shelf, settings=settings).hits[0].score_kind == "rerank"
    judge.read.clear()
    for off in ("none", False):
        found = ask(shelf, settings=settings, rerank=off)
        assert found.hits == ask(shelf, settings={"rerank": "none"}).hits
        assert found.hits[0].score_kind == "fused"
        assert degraded(found) == []
    assert ask(shelf, settings=settings, mode="lexical").hits[0].score_kind == "bm25"
    assert judge.read == []


def test_similar_is_not_reranked(shelf: KnowledgeBase, judge: WordJudge) -> None:
    profiles = {name: {"rerank": "cross-encoder", **BLEND} for name in ("notes", "lexical")}
    config = type(shelf.config)(profiles=profiles)
    with KnowledgeBase(shelf.path, config=config, encoder=Failing(), judge=judge) as opened:
        assert opened.search(QUERY, profile="notes").hits[0].score_kind == "rerank"
        judge.read.clear()
        assert opened.similar("lib/3.md").hits
    assert judge.read == []


def test_true_is_the_better_one(shelf: KnowledgeBase) -> None:
    assert ask(shelf, rerank=True).hits == ask(shelf, rerank="colbert").hits
    own = ask(shelf, rerank=True, settings={"rerank": "cross-encoder"}).hits
    assert own == ask(shelf, rerank="cross-encoder").hits


@pytest.mark.parametrize(
    "wrong",
    [{"rerank": "bert"}, {"rerank": 3}, {"budget_ms": 0}, {"budget_ms": "fast"},
     {"settings": {"rerank_blend": "1.1"}}, {"settings": {"rerank_blend": "-0.1"}},
     {"settings": {"rerank_candidates": "0"}}, {"settings": {"rerank_candidates": "1001"}},
     {"settings": {"rerank": "yes"}}],
)  # fmt: skip
def test_invalid_rerankers(shelf: KnowledgeBase, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        shelf.search(QUERY, **wrong)
    assert refused.value.hint


@pytest.mark.parametrize("given", ["colbert", True, False, None])
def test_a_request_in_json(given: object) -> None:
    request = {"query": "x", "rerank": given, "budget_ms": 200}
    validator("search_request.v1").validate(request)
    parsed = wire.read_request(request)
    assert (parsed.rerank, parsed.budget_ms) == (given, 200)


@pytest.mark.parametrize("wrong", [{"rerank": 1}, {"budget_ms": True}, {"budget_ms": 1.5}])
def test_a_request_that_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        wire.read_request({"query": "x", **wrong})


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["raises", "nan", "short"])
@pytest.mark.parametrize("budget_ms", [None, 10_000])
def test_a_judge_that_fails_leaves_the_fused_order(
    shelf: KnowledgeBase, judge: WordJudge, way: str, budget_ms: int | None
) -> None:
    judge.fail = way
    found = ask(shelf, rerank="cross-encoder", budget_ms=budget_ms)
    assert degraded(found) == [("rerank", "failed")]
    assert found.degraded[0].detail
    assert found.hits == ask(shelf, rerank=False).hits


def test_an_encoder_that_fails_disables_colbert(shelf: KnowledgeBase, encoder: Failing) -> None:
    encoder.broken = True
    found = ask(shelf, rerank="colbert", settings=TWO_WAY)
    assert degraded(found) == [("dense", "failed"), ("rerank", "failed")]
    assert found.hits
    with_judge = ask(shelf, rerank="cross-encoder", settings=TWO_WAY)
    assert degraded(with_judge) == [("dense", "failed")]
    assert with_judge.hits[0].score_kind == "rerank"


def test_passages_without_token_vectors_are_counted(shelf: KnowledgeBase, library: Library) -> None:
    shelf.ingest(library({"new.md": f"{QUERY}\n"}) / "new.md")
    found = ask(shelf, rerank="colbert", top=150)
    assert ("rerank", "pending") in degraded(found)
    assert Degraded("rerank", "pending", 1) in found.degraded
    (new,) = (hit for hit in found if hit.title == "new")
    assert new.retrieval.rerank_score is None
    (fused,) = (hit for hit in ask(shelf, top=150, rerank=False) if hit.title == "new")
    assert abs(new.rank - fused.rank) < 30


def test_no_token_vectors_at_all(tmp_path: Path, clock: Clock) -> None:
    encoder = Failing()
    with KnowledgeBase(tmp_path / "kb.sqlite", clock=clock, encoder=encoder) as kb:
        kb.add("harbour keys")
        found = kb.search("harbour", rerank="colbert")
        assert ("rerank", "pending") in degraded(found)
        assert len(found) == 1


def test_token_vectors_that_are_switched_off(tmp_path: Path, encoder: Failing) -> None:
    config = unexamined(tokens="none")
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=encoder) as kb:
        kb.add("harbour keys")
        kb.embed()
        assert degraded(kb.search("harbour", rerank="colbert")) == [("rerank", "no_model")]
        kb = KnowledgeBase(kb.path, config=replace(config, profiles=COLBERT), encoder=encoder)
        assert degraded(kb.search("harbour")) == []
        kb.close()


def test_a_missing_model(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add("harbour keys")
    for name, reason in (("colbert", "no_model"), ("cross-encoder", "no_model")):
        with KnowledgeBase(kb.path, encoder="none", judge="none") as opened:
            found = opened.search("harbour", rerank=name)
            assert degraded(found) == [("rerank", reason)]
            # A profile that would rerank if it could: a disabled reranker is not reported.
            quiet = opened.search("harbour", profile="research")
            assert [part for part in quiet.degraded if part.part == "rerank"] == []
    with KnowledgeBase(kb.path, encoder="none", judge=str(tmp_path / "nowhere")) as opened:
        found = opened.search("harbour", rerank="cross-encoder")
        assert degraded(found) == [("rerank", "no_model")]
        assert len(found) == 1
        with pytest.raises(ModelMissing):
            opened.judge()


def test_a_script_that_it_does_not_read(kb: KnowledgeBase) -> None:
    kb.add("港口的鑰匙")
    judge = WordJudge(scripts=("Latin",))
    with KnowledgeBase(kb.path, encoder="none", judge=judge) as opened:
        found = opened.search("鑰匙", rerank="cross-encoder")
    assert degraded(found) == [("rerank", "language")]
    assert len(found) == 1
    assert judge.read == []


def test_an_expression_is_not_reranked_by_default(shelf: KnowledgeBase, judge: WordJudge) -> None:
    found = shelf.search("'harbour AND keys'", rerank="cross-encoder")
    assert degraded(found) == [("query", "expression")]
    assert found.hits == shelf.search("'harbour AND keys'", rerank=False).hits
    assert judge.read == []


def test_a_vector_without_a_text_cannot_be_read(shelf: KnowledgeBase, encoder: Failing) -> None:
    vector = encoder.encode([QUERY])[0].dense
    found = shelf.execute(SearchRequest("", vector=vector, mode="vector", rerank="cross-encoder"))
    assert degraded(found) == [("rerank", "no_query")]
    assert found.hits


def test_without_candidates_nothing_is_read(shelf: KnowledgeBase, judge: WordJudge) -> None:
    found = shelf.search("zzz", mode="lexical", rerank="cross-encoder")
    assert (found.hits, found.degraded, judge.read) == ((), (), [])


# --- a budget -------------------------------------------------------------------------------------


class Watch:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(Trace, "elapsed_ms", lambda _: made.ms)
    return made


def test_a_budget_is_kept_by_reading_fewer(
    shelf: KnowledgeBase, judge: WordJudge, watch: Watch
) -> None:
    def ten_ms() -> None:
        watch.ms += 10

    judge.on_pair = ten_ms
    found = ask(shelf, rerank="cross-encoder", budget_ms=300, top=150)
    assert watch.ms <= 300
    assert 20 <= len(judge.read) <= 30
    (told,) = found.degraded
    assert (told.part, told.reason) == ("rerank", "timeout")
    assert told.detail == f"{len(judge.read)} of 100 candidates within 300 ms"
    read = [hit.retrieval.rerank_score is not None for hit in found]
    assert read == [True] * len(judge.read) + [False] * (150 - len(judge.read))
    fused = ids(ask(shelf, top=150, rerank=False))
    assert set(ids(found)[: len(judge.read)]) == set(fused[: len(judge.read)])
    assert ids(found)[len(judge.read) :] == fused[len(judge.read) :]


def test_a_budget_that_is_enough_changes_nothing(
    shelf: KnowledgeBase, judge: WordJudge, watch: Watch
) -> None:
    whole = ask(shelf, rerank="cross-encoder")
    # The clock does not move.
    assert ask(shelf, rerank="cross-encoder", budget_ms=1).hits == whole.hits
    assert len(judge.read) == 200


def test_a_late_judge_reads_the_first_and_no_more(
    shelf: KnowledgeBase, judge: WordJudge, watch: Watch
) -> None:
    def a_minute() -> None:
        watch.ms += 60_000

    judge.on_pair = a_minute
    found = ask(shelf, rerank="cross-encoder", budget_ms=50, top=150)
    assert degraded(found) == [("rerank", "timeout")]
    assert len(judge.read) == 1
    assert found.degraded[0].detail == "1 of 100 candidates in 60000.0 ms, of 50 ms allowed"
    assert sum(hit.retrieval.rerank_score is not None for hit in found) == len(judge.read)


@pytest.mark.parametrize("pace_ms", [0.0, 0.5, 7.0, 30.0])
@pytest.mark.parametrize("budget_ms", [20.0, 200.0, 2000.0])
def test_slices_fit_into_what_is_left(pace_ms: float, budget_ms: float) -> None:
    watch, places = Watch(), []
    for start, end in slices(100, lambda: budget_ms - watch.ms):
        places += list(range(start, end))
        watch.ms += (end - start) * pace_ms
    assert places == list(range(len(places)))
    assert len(places) == 100 or watch.ms > 0.4 * budget_ms
    assert watch.ms <= max(budget_ms, pace_ms)  # the first one is read in any case
    assert list(slices(100, None)) == [(0, 100)]


def test_encoding_the_query_counts_in_the_budget(
    shelf: KnowledgeBase, encoder: Failing, watch: Watch
) -> None:
    """Loading the model does not."""
    real, texts = encoder.encode, []

    def slow(asked: Any, **more: Any) -> Any:
        texts.extend(asked)
        watch.ms += 40
        return real(asked, **more)

    encoder.encode = slow  # type: ignore[assignment,method-assign]
    found = ask(shelf, mode="lexical", rerank="colbert", budget_ms=30)
    (told,) = found.degraded
    assert (told.part, told.reason) == ("rerank", "timeout")
    assert told.detail == "0 of 100 candidates in 40.0 ms, of 30 ms allowed"
    assert ids(found) == ids(ask(shelf, mode="lexical", top=100))[:10]
    assert len(texts) == 2
    assert texts[1] == QUERY
    # The encoding is cached.
    assert ask(shelf, mode="lexical", rerank="colbert", budget_ms=30).degraded == ()


# --- nothing to compare ---------------------------------------------------------------------------


def test_a_passage_without_tokens_keeps_its_place(tmp_path: Path, encoder: Failing) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", config=unexamined(), encoder=encoder) as kb:
        kb.add("the harbour keys")
        kb.add("!!! ???")
        kb.embed()
        found = kb.search("harbour", mode="vector", rerank="colbert")
        assert (found.returned, found.degraded) == (2, ())
        assert [hit.retrieval.rerank_score is None for hit in found] == [False, True]


def test_disabled_token_vectors_are_not_reported(tmp_path: Path, encoder: Failing) -> None:
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, config=unexamined(), encoder=encoder) as kb:
        kb.add("the harbour keys")
        kb.embed()
    off = unexamined(tokens="none")
    with KnowledgeBase(path, config=off, encoder=encoder) as kb:
        kb.add("the harbour master")
        kb.embed()
        found = kb.search("harbour", rerank="colbert")
        assert (found.returned, found.degraded) == (2, ())
    with KnowledgeBase(path, config=unexamined(), encoder=encoder) as kb:
        told = kb.search("harbour", rerank="colbert", settings=BLEND).degraded
        assert [(one.part, one.reason, one.detail) for one in told] == [("rerank", "pending", 1)]


@pytest.mark.parametrize("scores", [(1e308, -1e308), (1e308, 1e308), (-1e200, 0.0)])
def test_scores_beyond_measure(
    shelf: KnowledgeBase, judge: WordJudge, scores: tuple[float, float]
) -> None:
    def huge(_: str, passages: Sequence[str]) -> list[float]:
        return [scores[at % 2] for at in range(len(passages))]

    judge.scores = huge  # type: ignore[assignment,method-assign]
    found = ask(shelf, rerank="cross-encoder")
    assert degraded(found) == [("rerank", "failed")]
    assert ids(found) == ids(ask(shelf))


# --- expressions ----------------------------------------------------------------------------------

ALONE = Degraded("query", "expression", "an FTS5 expression is searched by words only")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"profile": "research", "rerank": "colbert"}, [ALONE]),
        ({"profile": "research", "rerank": False}, [ALONE]),
        ({"mode": "lexical", "rerank": "colbert"}, [ALONE]),
        ({"profile": "notes"}, [ALONE]),
        ({"mode": "lexical"}, []),
        ({"profile": "lexical"}, []),
        ({"mode": "vector"}, []),
    ],
)
def test_an_expression_is_for_words(
    shelf: KnowledgeBase, options: dict[str, Any], told: list[Degraded]
) -> None:
    found = shelf.search("'harbour AND keys'", **options)
    validate(wire.response(found))
    assert found.hits
    assert list(found.degraded) == told


def test_an_expression_is_not_reranked_either(shelf: KnowledgeBase) -> None:
    found = shelf.search("'harbour AND keys'", mode="vector", rerank="colbert")
    assert [(one.part, one.reason) for one in found.degraded] == [("rerank", "expression")]
    assert shelf.search("'harbour AND keys'", mode="vector").hits == found.hits


def test_a_ready_made_vector_answers_an_expression_too(shelf: KnowledgeBase) -> None:
    (vector,) = (one.dense for one in Failing().encode(["harbour"]))
    found = shelf.execute(SearchRequest("'harbour AND keys'", vector=vector, profile="notes"))
    assert found.degraded == ()
    assert {"fts", "vec"} == {source for hit in found for source in hit.sources}
