"""`kb search --rerank`: its options and its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models.judges import WordJudge

QUERY = ("how", "wide", "are", "radio", "slots")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> WordJudge:
    made = WordJudge()
    monkeypatch.setattr("kb.models.judge", lambda *_: made)
    return made


@pytest.mark.parametrize(
    "asked",
    [("--reranker", "cross-encoder"), ("--reranker=cross-encoder",),
     ("--set", "rerank=cross-encoder"), ("--set", "rerank=cross-encoder", "--rerank"),
     ("--budget-ms", "60000", "--rerank", "--reranker", "cross-encoder")],
)  # fmt: skip
def test_the_options(
    here: Path, run: Run, valid: Valid, judge: WordJudge, asked: tuple[str, ...]
) -> None:
    told = run("search", "--json", *asked, *QUERY)
    assert (told.status, told.err) == (0, "")
    valid("search_response.v1", told.json)
    assert told.json["query"] == "how wide are radio slots"
    assert {hit["score_kind"] for hit in told.json["hits"]} == {"rerank"}
    assert run("search", "--json", *QUERY, *asked).json["hits"] == told.json["hits"]
    assert judge.read


def test_without_a_name_the_best_reranker_is_used(here: Path, run: Run) -> None:
    told = run("search", "--json", "--rerank", *QUERY).json
    assert told["query"] == "how wide are radio slots"
    assert told["degraded"] == [
        {"part": "rerank", "reason": "no_model", "detail": "the encoder is disabled"}
    ]


@pytest.mark.parametrize("word", ["none", "colbert", "cross-encoder", "crossencoder"])
def test_words_after_the_flag_are_the_query(
    here: Path, run: Run, judge: WordJudge, word: str
) -> None:
    told = run("search", "--json", "--set", "rerank=cross-encoder", "--set", "rerank_blend=1",
               "--rerank", word, *QUERY)  # fmt: skip
    assert told.json["query"] == f"{word} how wide are radio slots"
    assert judge.read


def test_words_after_two_dashes_are_the_query(here: Path, run: Run, judge: WordJudge) -> None:
    assert run("search", "--json", "--", "--rerank", "radio").json["query"] == "--rerank radio"
    assert judge.read == []


def test_off_and_on_at_once(here: Path, run: Run, judge: WordJudge) -> None:
    assert run("search", "--no-rerank", *QUERY).status == 0
    assert run("search", "--no-rerank", "--reranker", "none", *QUERY).status == 0
    assert judge.read == []
    for on in (("--rerank",), ("--reranker", "cross-encoder")):
        for off in (("--no-rerank",), ("--reranker", "none")):
            told = run("search", *on, *off, *QUERY)
            both = "--reranker" in on and "--reranker" in off  # in that case, the last one counts
            assert told.status == (0 if both else 2)
            assert ("cannot be used together" in told.err) == (not both)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--reranker=bert",),
        ("--reranker", "crossencoder"),
        ("--budget-ms", "0"),
        ("--budget-ms", "soon"),
    ],
)
def test_invalid_options(here: Path, run: Run, wrong: tuple[str, ...]) -> None:
    told = run("search", *wrong, *QUERY)
    assert told.status == 2
    assert "hint: " in told.err


def test_a_flag_takes_no_name(here: Path, run: Run) -> None:
    told = run("search", "--rerank=cross-encoder", *QUERY)
    assert told.status == 2
    assert "--rerank" in told.err


def test_explained(here: Path, run: Run, judge: WordJudge) -> None:
    told = run("search", "--reranker", "cross-encoder", "--explain", *QUERY)
    assert "rerank(cross-encoder, top 100, blend=auto)" in told.out
    assert "reranked" in told.out
    assert "model: word-judge" in told.out


def test_a_failure_is_reported_and_the_fused_order_stays(
    here: Path, run: Run, judge: WordJudge
) -> None:
    judge.fail = "raises"
    told = run("search", "--reranker", "cross-encoder", *QUERY)
    assert told.status == 0
    assert "rerank: failed" in told.err
    assert told.out == run("search", *QUERY).out


def test_a_judge_that_is_switched_off(here: Path, run: Run) -> None:
    told = run("search", "--reranker", "cross-encoder", *QUERY)
    assert told.status == 0
    assert "the judge is disabled" in told.err
    assert run("search", "--profile", "research", *QUERY).err == ""


def test_the_judge_in_the_list_of_models(
    run: Run, valid: Valid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_MODELS_JUDGE", "kb-judge")
    assert any(
        line.startswith("* kb-judge 1  from kb, pair scores") for line in run("models").lines
    )
    shape = run("models", "info", "kb-judge", "--json").json
    valid("models.v1", shape)
    (one,) = shape["models"]
    assert (one["gives"], one["dimension"], one["in_use"]) == (["score"], None, True)
    assert run("models", "verify", "kb-judge").status == 0
