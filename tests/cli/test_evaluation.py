"""`kb eval run`: on a store of one's own, and on data that brings its corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_contract import Valid

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
    ],
)
def test_what_cannot_be_run(here: Path, run: Run, small: Path, args: tuple[str, ...]) -> None:
    refused = run("eval", "run", "--data", small, *args)
    assert (refused.status, refused.out) == (2, "")
    assert "\nhint: " in refused.err


def test_data_that_is_none(here: Path, run: Run, tmp_path: Path) -> None:
    assert run("eval", "run", "--data", tmp_path).status == 2
    assert run("eval", "run").status == 2


def test_alone_it_shows_its_help(run: Run) -> None:
    assert "run" in run("eval").out
