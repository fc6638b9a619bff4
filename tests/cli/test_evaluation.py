"""`kb eval run`: on the user's store, and on data with its own corpus."""

from __future__ import annotations

import errno
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.evaluation.profile_file import write_profile
from kb.types import Encoding
from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_contract import Valid
from tests.evaluation.qrels_folder import write_folder
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
        ("--html", "same", "--save", "./same"),
        ("--methods", ","),
        ("--measures", ","),
    ],
)
def test_invalid_arguments_of_run(here: Path, run: Run, small: Path, args: tuple[str, ...]) -> None:
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
    assert "wrote r.html" in told.err
    assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_is_written_completely_or_not_at_all(
    here: Path, run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk fills up after minutes of work, the old file stays, and the results were
    printed."""
    Path("r.html").write_text("the last one")

    def full(_path: Path, *_args: object, **_how: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    told = run("eval", "run", "--data", small, "--html", "r.html", "--force")
    assert told.status == 2
    assert "nDCG@10" in told.out
    assert "is full, so r.html was not written\nhint: " in told.err
    assert Path("r.html").read_bytes() == b"the last one"
    assert not list(Path.cwd().glob(".r.html*"))


def test_pipes_and_devices_are_written_to(here: Path, run: Run, small: Path) -> None:
    told = run("eval", "run", "--data", small, "--html", os.devnull)
    assert told.status == 0
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("option", ["--html", "--save"])
def test_only_reports_are_replaced_without_asking(
    here: Path, run: Run, small: Path, option: str
) -> None:
    Path("r").write_text("by hand")
    refused = run("eval", "run", "--data", small, option, "r")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err == "error: r already exists\nhint: choose another file, or use --force\n"
    assert Path("r").read_text() == "by hand"
    assert run("eval", "run", "--data", small, option, "r", "--force").status == 0
    assert run("eval", "run", "--data", small, option, "r").status == 0


@pytest.mark.parametrize("option", ["--html", "--save"])
def test_inputs_and_the_store_are_never_replaced(
    here: Path, run: Run, small: Path, option: str
) -> None:
    Path("j.csv").write_text("query,document,grade\nstorm,retry-storm.md,1\n")
    Path("link.csv").hardlink_to("j.csv")
    for target in ("j.csv", "link.csv"):
        refused = run("eval", "run", "--judgments", "j.csv", option, target, "--force")
        assert (refused.status, refused.out) == (2, "")
        assert refused.err.startswith(f"error: {target} is an input of this run\n")
    queries = small / "queries.jsonl"
    refused = run("eval", "run", "--data", small, option, queries, "--force")
    assert refused.err.startswith(f"error: {queries} is an input of this run\n")
    assert queries.read_text().startswith('{"_id"')
    refused = run("eval", "run", "--data", small, option, ".kb/kb.sqlite", "--force")
    assert refused.err.startswith("error: .kb/kb.sqlite is the store itself\n")
    assert run("doctor").status == 0


def test_a_link_stays_a_link(here: Path, run: Run, small: Path) -> None:
    Path("real.html").touch()
    Path("r.html").symlink_to("real.html")
    assert run("eval", "run", "--data", small, "--html", "r.html").status == 0
    assert Path("r.html").is_symlink()
    assert Path("real.html").stat().st_size > 1_000


def test_a_folder_that_cannot_be_written_to(
    here: Path, run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported before the work starts."""
    # Simulated, since root may write anywhere.
    monkeypatch.setattr(os, "access", lambda _path, mode, **_how: mode != os.W_OK)
    refused = run("eval", "run", "--data", small, "--html", "r.html")
    assert (refused.status, refused.out) == (2, "")
    assert "no permission" in refused.err


class Ended(Contrary):
    """Sends SIGTERM to the process when it encodes the first passage."""

    def __init__(self, how: signal.Signals) -> None:
        super().__init__()
        self.how = how

    def encode(self, *args: Any, **how: Any) -> list[Encoding]:
        signal.raise_signal(self.how)
        return super().encode(*args, **how)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_terminated_run_leaves_nothing(
    here: Path, run: Run, small: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr(KnowledgeBase, "encoder", lambda self: Ended(how))
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    before = set(here.iterdir())
    told = run("eval", "run", "--data", small, "--html", "r.html", "--no-cache")
    assert (told.status, told.out) == (130, "")
    assert set(here.iterdir()) == before


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
    assert "1 judged document is missing, such as library/not-there.md" in told.out


def test_a_csv_file_as_a_spreadsheet_writes_it(here: Path, run: Run) -> None:
    """With a byte order mark, semicolons, quotes, and grades like 2.0; documents are named by their
    file and by a citation."""
    rows = [
        "query;document;grade",
        '"what, if anything, is the ""dedupe"" key";ingestion-service.md;2.0',
        "dedupe key;library/guides/ingestion-service.md#L1-L9;1",
    ]
    Path("mine.csv").write_bytes("\ufeff".encode() + "\r\n".join(rows).encode())
    told = run("eval", "run", "--judgments", "mine.csv", "--measures", "success@5", "--json")
    assert told.json["methods"]["default"]["metrics"] == {"Success@5": 1.0}
    assert told.json["caveats"]["unknown_documents"] == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("key,0001-record-decisions.md#L1-L0,1", "the store has none of the 1 judged documents"),
        ("key,library/guides/ingestion-service.md,0", "no query has a document with a grade above"),
    ],
)
def test_judgments_of_missing_documents(here: Path, run: Run, row: str, problem: str) -> None:
    Path("mine.csv").write_text(row + "\n")
    refused = run("eval", "run", "--judgments", "mine.csv", "--json")
    assert (refused.status, refused.out) == (2, "")
    error = json.loads(refused.err)
    assert error["code"] == "eval_data"
    assert problem in error["message"]
    assert error["hint"]


def test_documents_that_are_in_no_store(here: Path, run: Run) -> None:
    told = run("--store", "none.sqlite", "eval", "run", "--data", JUDGMENTS, "--documents",
               EXAMPLES / "library", "--limit-queries", "3", "--json")  # fmt: skip
    assert told.json["queries"] == 3
    assert told.json["caveats"]["unknown_documents"] == []
    assert not Path("none.sqlite").exists()


def test_tune(here: Path, run: Run, valid: Valid) -> None:
    """With words only there is nothing to fuse, so nothing can be better."""
    told = run("eval", "tune", "--data", JUDGMENTS, "--limit-queries", "12", "--write", "mine")
    assert told.status == 0
    assert "5 folds, 12 queries" in told.out
    assert "nothing to write" in told.out
    told = run("eval", "tune", "--data", JUDGMENTS, "--limit-queries", "12", "--json")
    valid("eval_tuning.v1", told.json)
    assert told.json["written"] is None


def test_tune_writes_better_settings(
    here: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors mislead and the profile relies on them, so tuning can improve it."""
    data = write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(20, 40)})
    monkeypatch.setattr(KnowledgeBase, "encoder", lambda self: Contrary())
    config = Path("config.toml")
    write_profile(config, "misled", MISLED_AND_RERANKED)
    monkeypatch.setenv("KB_CONFIG", str(config.absolute()))
    asked = ("--store", "none.sqlite", "eval", "tune", "--data", data, "--profile", "misled")
    told = run(*asked, "--write", "mine")
    assert f"wrote profile mine to {config.absolute()}" in told.out
    assert "reranking (colbert) is unchanged" in told.out
    profiles = run("config", "profiles", "--json").json
    assert profiles["mine"]["weights"]["dense"] < 0.7
    assert profiles["mine"]["retrievers"] == ["lexical", "dense", "sparse"]
    assert (profiles["mine"]["rerank"], profiles["mine"]["rerank_blend"]) == ("colbert", 0.5)
    assert profiles["misled"]["weights"]["dense"] == 0.96
    again = run(*asked, "--write", "mine")
    assert (again.status, again.out) == (2, "")


def test_an_unwritable_profile_is_reported_after_the_figures(
    here: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(20, 40)})
    monkeypatch.setattr(KnowledgeBase, "encoder", lambda self: Contrary())
    config = Path("config.toml")
    write_profile(config, "misled", MISLED_AND_RERANKED)
    monkeypatch.setenv("KB_CONFIG", str(config.absolute()))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    asked = ("--store", "none.sqlite", "eval", "tune", "--data", data, "--profile", "misled")
    told = run(*asked, "--write", "mine", "--json")
    assert told.status == 2
    assert (told.json["better"], told.json["written"]) == (True, None)
    error = json.loads(told.err.splitlines()[-1])  # after the progress lines of a slow machine
    assert "is full, so config.toml was not written" in error["message"]
    assert "[profiles.mine]" in error["hint"]
    assert "mine" not in config.read_text()


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
def test_invalid_arguments_of_tune(here: Path, run: Run, args: tuple[str | Path, ...]) -> None:
    refused = run("eval", "tune", *args)
    assert (refused.status, refused.out) == (2, "")
    assert "\nhint: " in refused.err


def test_invalid_data(here: Path, run: Run, tmp_path: Path) -> None:
    assert run("eval", "run", "--data", tmp_path).status == 2
    assert run("eval", "run").status == 2


def test_a_csv_file_has_no_splits(here: Path, run: Run) -> None:
    Path("mine.csv").write_text("retry storm,library/notes.md,1\n")
    refused = run("eval", "run", "--judgments", "mine.csv", "--split", "dev", "--json")
    assert (refused.status, json.loads(refused.err)["code"]) == (2, "invalid_request")
    assert json.loads(refused.err)["message"] == "a CSV file of judgments has no split 'dev'"


def test_alone_it_shows_its_help(run: Run) -> None:
    assert "run" in run("eval").out
