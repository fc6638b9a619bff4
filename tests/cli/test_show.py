"""`kb get` and `kb status`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_contract import Valid

RETRY = "library/lessons/retry-storm.md"


@pytest.fixture
def own(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library whose files tests may change."""
    shutil.copytree(EXAMPLES / "library", tmp_path / "library")
    monkeypatch.chdir(tmp_path)
    run("init")
    assert run("ingest", "library").status == 0
    return tmp_path / RETRY


def test_a_span(here: Path, run: Run, filled: Path) -> None:
    lines = (filled / RETRY).read_text().splitlines()
    told = run("get", f"{RETRY}#L34-L36")
    assert told.lines == lines[33:36]
    assert told.err == f"exact: {RETRY}#L34-L36\n"


def test_a_document(here: Path, run: Run, filled: Path) -> None:
    told = run("get", RETRY)
    assert told.out == (filled / RETRY).read_text()
    assert told.err.startswith("exact: ")


def test_in_json(here: Path, run: Run, valid: Valid) -> None:
    told = run("get", f"{RETRY}#L34-L36", "--json")
    valid("passage.v1", told.json)
    assert told.json["state"] == "exact"
    assert told.err == ""


def test_a_hit_of_the_last_search(own: Path, run: Run) -> None:
    assert run("get", "1").err.startswith("error: this terminal has no earlier search")
    run("search", "retry storm")
    uri = run("open", "2", "--json").json["uri"]
    assert run("get", "2").err == f"exact: {uri}\n"
    assert run("get", "2").out == run("get", uri).out
    assert "the last search had" in run("get", "500").err


def test_a_document_whose_name_is_a_number(own: Path, run: Run) -> None:
    (own.parent / "2.md").write_text("nothing")
    (own.parent / "1").write_text("The first of all files.\n")
    run("ingest", "library")
    if run("list", "--path", "library/lessons/1", "--json").json == []:
        pytest.skip("a file without a suffix is not read")
    assert run("get", "1").out == "The first of all files.\n"
    run("search", "retry storm")
    got = run("get", "1")
    assert "use its path: library/lessons/1\n" in got.err
    assert "first of all" not in got.out
    assert run("get", "library/lessons/1").out == "The first of all files.\n"


def test_reading_counts(here: Path, run: Run) -> None:
    run("get", RETRY)
    assert run("list", "--path", RETRY, "--json").json[0]["access_count"] == 1


def test_moved(own: Path, run: Run, valid: Valid) -> None:
    own.write_text("A new line.\n" + own.read_text())
    told = run("get", f"{RETRY}#L36-L37")
    assert told.err.startswith(f"moved: {RETRY}#L37-L38 (the file has changed")
    assert told.lines[0].startswith("Tomasz blocked gw-skerry")
    shape = run("get", f"{RETRY}#L36-L37", "--json").json
    valid("passage.v1", shape)
    assert shape["citation"]["start"] == 37


def test_stale(own: Path, run: Run, valid: Valid) -> None:
    own.unlink()
    told = run("get", f"{RETRY}#L36-L37")
    assert told.status == 0
    assert told.err.startswith(
        f"stale: {RETRY}#L36-L37 (this is the indexed text; its file no longer exists)"
    )
    assert told.lines[0].startswith("Tomasz blocked gw-skerry")
    valid("passage.v1", run("get", RETRY, "--json").json)


def test_status(here: Path, run: Run, filled: Path, valid: Valid) -> None:
    told = run("status")
    assert told.lines[0].startswith(f"store      {here / '.kb' / 'kb.sqlite'} (")
    assert "documents  26" in told.lines
    assert "types      code 3, markdown 21, note 2" in told.lines
    assert told.lines[-1] == f"roots      library: {filled / 'library'} (26)"
    shape = run("status", "--json").json
    valid("status.v1", shape)
    assert shape["documents"] == 26


def test_status_names_what_is_missing(own: Path, run: Run, valid: Valid) -> None:
    shutil.rmtree(own.parents[1])
    assert run("status").lines[-1].endswith("(32)  missing")
    valid("status.v1", run("status", "--json").json)


def test_status_of_nothing(run: Run, tmp_path: Path) -> None:
    told = run("--store", tmp_path / "none.sqlite", "status")
    assert told.status == 2
    assert "there is no store" in told.err
