"""Words of a query that look like options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.cli.compare import compare_command
from kb.cli.invocation import Invocation
from kb.cli.options import Command
from kb.cli.query_command import QueryCommand, edit_distance, similar_option, split_query
from kb.cli.search import search_command
from tests.cli.conftest import Run

KNOWN = {"-n": True, "--top": True, "--json": False, "-v": False, "--verbose": False}


@pytest.mark.parametrize(
    ("args", "query"),
    [
        ("git push --force", "git push --force"),
        ("git push --force -n 2", "git push --force"),
        ("-n 2 git push --force", "git push --force"),
        ("git -n2 push --force=all x", "git push --force=all x"),
        ("tar -xvf a.tar", "tar -xvf a.tar"),
        ("temperature -5", "temperature -5"),
        ("git rm -rf -- -n", "git rm -rf -n"),
        ("-- --top -h", "--top -h"),
        ("-- --force", "--force"),
    ],
)
def test_unknown_options_after_the_first_word_are_text(
    here: Path, run: Run, args: str, query: str
) -> None:
    answer = run("search", "--json", *args.split())
    assert (answer.status, answer.json["query"]) == (0, query)
    assert answer.err == ""


def test_known_options_work_anywhere(here: Path, run: Run) -> None:
    answer = run("search", "buoy", "--force", "--top", "3", "--json", "-u")
    assert (answer.json["query"], answer.json["returned"]) == ("buoy --force -u", 3)
    assert run("compare", "--json", "buoy", "--force").json["query"] == "buoy --force"


@pytest.mark.parametrize(("option", "near"), [("--tpo", "--top"), ("--Thresold=1", "--threshold")])
def test_a_misspelled_option_is_reported(here: Path, run: Run, option: str, near: str) -> None:
    answer = run("search", "buoy", option, "5")
    warning = f"warning: {option} was searched as part of the query; did you mean {near}?"
    assert warning in answer.err.splitlines()
    assert answer.status == 0
    assert run("search", "--json", "buoy", option, "5").json["query"] == f"buoy {option} 5"


def test_options_unlike_any_other_are_not_reported() -> None:
    known = dict.fromkeys((name for each in search_command.params for name in each.opts), True)
    for option in ("--force", "--amend", "--hard", "--stat", "--no-verify", "-rf", "--x"):
        assert similar_option(option, known) is None


def test_an_option_without_its_value_is_an_error(here: Path, run: Run) -> None:
    for option in ("--top", "-n", "-vn"):
        answer = run("search", "git", "push", "--force", option)
        assert answer.status == 2
        assert "requires an argument" in answer.err


@pytest.mark.parametrize("command", [search_command, compare_command])
@given(data=st.data())
def test_arguments_without_unknown_options_parse_as_in_click(
    command: QueryCommand, data: st.DataObject
) -> None:
    words = st.lists(st.sampled_from(["buoy", "storm", "5", "-"]), min_size=1, max_size=2)
    options = st.sampled_from(
        [["--json"], ["-n", "5"], ["-n5"], ["--top=5"], ["-vn", "5"], ["--lang", "en"], ["--"]]
    )
    parts = data.draw(st.lists(words | options, min_size=1, max_size=6))
    args = [each for part in parts for each in part]
    assert _parse(command, args) == _parse(Command(command.name, params=command.params), args)


def _parse(command: click.Command, args: list[str]) -> dict[str, Any] | str:
    try:
        return command.make_context("kb", list(args), obj=Invocation()).params
    except click.UsageError as error:
        return str(error)


@given(st.lists(st.sampled_from(["a", "-", "--", "--top", "-n", "-v", "-nv", "--x", "-x", "-vx"])))
def test_no_argument_is_lost(args: list[str]) -> None:
    options, words, unknown = split_query(args, KNOWN)
    kept = sorted([*options, *words])
    kept = [each for each in kept if each != "\0"]
    assert set(unknown) <= set(words)
    marker = len(args) - len(kept)
    assert marker in (0, 1)
    assert sorted(kept + ["--"] * marker) == sorted(args)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_edit_distance(first: str, second: str) -> None:
    distance = edit_distance(first, second)
    assert distance == edit_distance(second, first)
    assert (distance == 0) == (first == second)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))


def test_edit_distance_counts_a_swap_once() -> None:
    assert edit_distance("tpo", "top") == 1
    assert edit_distance("force", "before") == 3
