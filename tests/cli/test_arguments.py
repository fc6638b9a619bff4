"""A typical search is parsed without click, with the same result."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.cli import arguments, search
from kb.cli.arguments import parse_search
from kb.cli.invocation import Invocation
from kb.cli.root import cli
from kb.errors import KbError

WORDS = st.sampled_from(["retry", "storm", "-", "why so?", "5", "größe", "lexical", "search"])
VALUES = st.sampled_from(["lexical", "3", "0.5", "a,b", "all", "team", "high", "x.sqlite", "-3"])
OPTIONS = st.sampled_from(
    [*arguments._OPTIONS, "--top=3", "-n3", "--help", "--unknown", "--", "-v"]
)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What click passes to `run_search`: the parameters, `--store` and `--json`."""
    calls: list[tuple[Any, ...]] = []

    def record(invocation: Invocation, /, **parameters: Any) -> None:
        calls.append((parameters, invocation.store, bool(invocation.json)))

    monkeypatch.setattr(search, "run_search", record)
    return calls


def by_click(args: list[str], received: list[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    received.clear()
    try:
        with cli.make_context("kb", list(args), obj=Invocation()) as context:
            cli.invoke(context)
    except (click.ClickException, click.exceptions.Exit, KbError):
        return None
    return received[0] if received else None


@given(
    st.lists(st.one_of(WORDS, OPTIONS, st.tuples(OPTIONS, VALUES)), max_size=6),
    st.sampled_from([[], ["--json"], ["--store", "x.sqlite"], ["--mode", "lexical"]]),
)
def test_a_search_is_parsed_as_click_does(parts: list[Any], before: list[str]) -> None:
    flat = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
    args = [*before, "search", *flat]
    invocation = Invocation()
    quick = parse_search(args, invocation)
    with pytest.MonkeyPatch.context() as patch:
        calls: list[tuple[Any, ...]] = []
        patch.setattr(
            search,
            "run_search",
            lambda one, /, **rest: calls.append((rest, one.store, bool(one.json))),
        )
        expected = by_click(args, calls)
    if quick is not None:
        assert (quick, invocation.store, bool(invocation.json)) == expected


@pytest.mark.parametrize(
    "args",
    [
        ["search", "retry", "storm"],
        ["search", "--mode", "lexical", "retry"],
        ["--store", "x.sqlite", "search", "retry", "-n", "5", "--json"],
        ["search", "a", "--tags", "x,y", "--tags", "z", "--path", "notes/**", "--explain"],
    ],
)
def test_the_usual_search_needs_no_click(args: list[str], received: list[tuple[Any, ...]]) -> None:
    invocation = Invocation()
    quick = parse_search(args, invocation)
    assert quick is not None
    assert (quick, invocation.store, bool(invocation.json)) == by_click(args, received)


@pytest.mark.parametrize(
    "args",
    [
        [], ["search"], ["--help"], ["status"], ["search", "--help", "x"], ["search", "x", "-v"],
        ["search", "x", "--mode"], ["search", "x", "--mode", "no"], ["search", "x", "--top", "y"],
        ["search", "x", "--json", "--paths"], ["search", "x", "--fts-only", "--vec-only"],
        ["search", "git", "push", "--force"], ["search", "--", "x"],
    ],
)  # fmt: skip
def test_everything_else_is_left_to_click(args: list[str]) -> None:
    invocation = Invocation()
    assert parse_search(args, invocation) is None
    assert (invocation.store, invocation.json) == (None, False)  # nothing is partly set
