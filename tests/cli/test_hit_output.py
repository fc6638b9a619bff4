"""The output of `kb search`: paths for scripts, whole passages, and links on terminals."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kb.cli.hit_view import hit_text
from kb.cli.output import Console
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.cli.test_hit_view import HIT, PLAIN

STORM = ("search", "retry", "storm", "--mode", "lexical")
LINK = "\x1b]8;;"


def test_paths(here: Path, run: Run, filled: Path) -> None:
    shown = run(*STORM, "--paths")
    hits = run(*STORM, "--json").json["hits"]
    assert shown.lines == [f"{hit['citation']['file']}:{hit['citation']['line']}" for hit in hits]
    file, _, line = shown.lines[0].rpartition(":")
    assert Path(file) == filled / "library" / "lessons" / "retry-storm.md"
    assert line.isdecimal()


@pytest.mark.parametrize("option", ["-l", "--files"])
def test_files_are_listed_once(here: Path, run: Run, option: str) -> None:
    files = [line.rpartition(":")[0] for line in run(*STORM, "--all", "--paths").lines]
    assert run(*STORM, "--all", option).lines == list(dict.fromkeys(files))
    assert len(set(files)) < len(files)


def test_paths_that_end_with_nul(here: Path, run: Run) -> None:
    shown = run(*STORM, "-l", "--null").out
    assert shown.split("\0") == [*run(*STORM, "-l").lines, ""]
    assert run("search", "zzznothing", "-l", "--null").out == ""


def test_hits_without_a_file(here: Path, run: Run) -> None:
    note = run("add", "quokkas have no file", "--json").json["doc_path"]
    shown = run("search", "quokkas", "--paths", "--mode", "lexical")
    assert shown.out == ""
    assert shown.err == f"1 hit without a file that can be opened: {note}#L1\n"


@pytest.mark.parametrize(
    "options", [("--paths", "-l"), ("--paths", "--json"), ("-l", "--jsonl"), ("--null",)]
)
def test_options_that_contradict(here: Path, run: Run, options: tuple[str, ...]) -> None:
    refused = run("search", "retry", *options)
    assert (refused.status, refused.out) == (2, "")
    assert "cannot be used together" in refused.err or "--null needs" in refused.err


def test_similar_has_the_same_output(here: Path, run: Run) -> None:
    name = "library/lessons/retry-storm.md"
    shown = run("similar", name, "--paths")
    assert shown.lines
    assert all(os.path.isfile(line.rpartition(":")[0]) for line in shown.lines)
    assert all(hit["text"] for hit in run("similar", name, "--text", "--json").json["hits"])


def test_whole_passages(here: Path, run: Run, valid: Valid) -> None:
    shape = run(*STORM, "--text", "--json").json
    valid("search_response.v1", shape)
    for hit in shape["hits"]:
        lines = Path(hit["citation"]["file"]).read_text().splitlines()
        span = hit["citation"]
        assert hit["text"] == "\n".join(lines[span["start"] - 1 : span["end"]])
    plain = run(*STORM, "--json").json
    assert {hit["text"] for hit in plain["hits"]} == {None}
    last = shape["hits"][0]["text"].splitlines()[-1]
    assert last in run(*STORM, "--text").out


def test_links_are_for_terminals(here: Path, on_terminal: Callable[..., str], run: Run) -> None:
    shown = on_terminal(*STORM)
    file = run(*STORM, "--json").json["hits"][0]["citation"]["file"]
    assert f"{LINK}file://{os.uname().nodename}{file}\x1b\\" in shown
    assert LINK not in on_terminal(*STORM, TERM="dumb")
    assert LINK not in on_terminal(*STORM, TERM="linux")
    assert LINK not in on_terminal(*STORM, KB_OPEN_LINKS="none")
    assert f"{LINK}vscode://file{file}:" in on_terminal(*STORM, KB_OPEN_LINKS="vscode")
    assert LINK not in run(*STORM).out


def test_a_link_takes_no_room_and_runs_nothing() -> None:
    linked = replace(HIT, citation=replace(HIT.citation, link="file:///a\x1b]0;evil\x07"))
    terminal = Console(color=False, width=80, links=True)
    shown = hit_text(linked, terminal, lambda _text: [])
    start, address, rest = shown.split("\x1b", 2)[0], shown.split("\x1b")[1], shown
    assert start == "1.  "
    assert "\x07" not in rest
    assert address.endswith("/a\\x1b]0;evil\\x07")
    assert hit_text(linked, PLAIN, lambda _text: []) == hit_text(HIT, PLAIN, lambda _text: [])
