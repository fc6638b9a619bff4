"""`kb eval run`: on a store of one's own, and on data that brings its corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.evaluation.profile_file import write_profile
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_contract import Valid
from tests.evaluation.judged_folder import write_folder
from tests.evaluation.test_tuning import MISLED_AND_RERANKED, Contrary

JUDGMENTS = EXAMPLES / "judgments"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": name, "title": "", "text": f"all about {name}"} for name in ("cats", "dogs")]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "cats"}\n')
    (folder / "qrels" / "test.tsv").write_text("1\tcats\t1\n")
    return folder


def test_a_table(here: Path, run: Run) -> None:
    told = run("eval", "run", "--data", JUDGMENTS, "--methods", "default,match-all",
               "--measures", "nDCG@10", "--limit-queries", "5")  # fmt: skip
    assert told.status == 0
    assert told.lines[0] == "judgments, split test: 5 queries, linear gain"
    assert "baseline" in told.out
    assert "match-all" in told.out
    assert told.err == ""


def test_in_json_and_saved(here: Path, run: Run, small: Path, valid: Valid) -> None:
    told = run("eval", "run", "--data", small, "--gain", "exp", "--json", "--save", "report.json")
    valid("eval_report.v1", told.json)
    assert told.json["gain"] == "exp"
    assert told.json["methods"]["default"]["metrics"]["MRR"] == 1
    assert json.loads(Path("report.json").read_text()) == told.json


@pytest.mark.parametrize(
    "args",
    [
        ("--methods", "nope"),
        ("--measures", "nope"),
        ("--baseline", "nope"),
        ("--split", "nope"),
        ("--gain", "nope"),
        ("--save", "no/such/folder/report.json"),
        ("--html", "."),
        ("--judgments", "x.csv"),
    ],
)
def test_what_cannot_be_run(here: Path, run: Run, small: Path, args: tuple[str, ...]) -> None:
    refused = run("eval", "run", "--data", small, *args)
    assert (refused.status, refused.out) == (2, "")
    assert "\nhint: " in refused.err


def test_every_query_and_markdown(here: Path, run: Run, small: Path, valid: Valid) -> None:
    told = run("eval", "run", "--data", small, "--per-query", "--markdown", "--measures", "P@5")
    assert "| Precision@5 | mean | 95% interval |" in told.out
    assert "| 1 cats | 0.200 |" in told.out
    told = run("eval", "run", "--data", small, "--per-query", "--json")
    valid("eval_report.v1", told.json)
    assert told.json["per_query"][0]["query"] == "cats"


def test_a_page(here: Path, run: Run, small: Path) -> None:
    told = run("eval", "run", "--data", small, "--methods", "default,match-all", "--html", "r.html")
    assert told.status == 0
    assert "written: r.html" in told.err
    assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_baseline_need_not_be_named_twice(here: Path, run: Run, small: Path) -> None:
    told = run("eval", "run", "--data", small, "--baseline", "lexical", "--json")
    assert told.json["baseline"] == "lexical"
    assert list(told.json["methods"]) == ["lexical", "default"]


def test_a_csv_file_about_the_store(here: Path, run: Run) -> None:
    Path("mine.csv").write_text(
        "query,document,grade\ndedupe key,library/guides/ingestion-service.md,2\n"
        "dedupe key,library/not-there.md,1\n"
    )
    told = run("eval", "run", "--judgments", "mine.csv", "--measures", "success@5,nDCG@20")
    assert told.status == 0
    assert told.lines[0] == "mine, split all: 1 query, linear gain"
    assert "1 judged document is not there, such as library/not-there.md" in told.out


def test_documents_that_are_in_no_store(here: Path, run: Run) -> None:
    told = run("--store", "none.sqlite", "eval", "run", "--data", JUDGMENTS, "--documents",
               EXAMPLES / "library", "--limit-queries", "3", "--json")  # fmt: skip
    assert told.json["queries"] == 3
    assert told.json["caveats"]["unknown_documents"] == []
    assert not Path("none.sqlite").exists()


def test_tune(here: Path, run: Run, valid: Valid) -> None:
    """By words alone there is nothing to fuse, and so nothing better."""
    told = run("eval", "tune", "--data", JUDGMENTS, "--limit-queries", "12", "--write", "mine")
    assert told.status == 0
    assert "5 folds, 12 queries" in told.out
    assert "nothing to write" in told.out
    told = run("eval", "tune", "--data", JUDGMENTS, "--limit-queries", "12", "--json")
    valid("eval_tuning.v1", told.json)
    assert told.json["written"] is None


def test_tune_writes_what_is_better(
    here: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors here mislead, and the profile trusts them: there is something to gain."""
    data = write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(20, 40)})
    monkeypatch.setattr(KnowledgeBase, "encoder", lambda self: Contrary())
    config = Path("config.toml")
    write_profile(config, "misled", MISLED_AND_RERANKED)
    monkeypatch.setenv("KB_CONFIG", str(config.absolute()))
    asked = ("--store", "none.sqlite", "eval", "tune", "--data", data, "--profile", "misled")
    told = run(*asked, "--write", "mine")
    assert f"written: profile mine in {config.absolute()}" in told.out
    assert "reranking (colbert) is left as it is" in told.out
    profiles = run("config", "profiles", "--json").json
    assert profiles["mine"]["weights"]["dense"] < 0.7
    assert profiles["mine"]["retrievers"] == ["lexical", "dense", "sparse"]
    assert (profiles["mine"]["rerank"], profiles["mine"]["rerank_blend"]) == ("colbert", 0.5)
    assert profiles["misled"]["weights"]["dense"] == 0.96
    again = run(*asked, "--write", "mine")
    assert (again.status, again.out) == (2, "")


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--data", JUDGMENTS, "--judgments", "x.csv"),
        ("--judgments", "no-such.csv"),
        ("--data", JUDGMENTS, "--profile", "nope"),
        ("--data", JUDGMENTS, "--profile", "lexical"),
        ("--data", JUDGMENTS, "--measure", "nope"),
        ("--data", JUDGMENTS, "--write", "lexical"),
        ("--data", JUDGMENTS, "--split", "nope"),
    ],
)
def test_what_cannot_be_tuned(here: Path, run: Run, args: tuple[str | Path, ...]) -> None:
    refused = run("eval", "tune", *args)
    assert (refused.status, refused.out) == (2, "")
    assert "\nhint: " in refused.err


def test_data_that_is_none(here: Path, run: Run, tmp_path: Path) -> None:
    assert run("eval", "run", "--data", tmp_path).status == 2
    assert run("eval", "run").status == 2


def test_alone_it_shows_its_help(run: Run) -> None:
    assert "run" in run("eval").out
