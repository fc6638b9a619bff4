"""Every command and every option has a help text."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from kb.cli.root import cli
from tests.cli.conftest import Run

COMMANDS = [
    "init", "ingest", "attach", "add", "edit", "rm", "search", "find", "ask", "similar", "compare",
    "map", "get", "open", "list", "tag", "status", "gc", "doctor",
    "embed", "jobs", "reindex", "models", "embed-text", "backup",
    "copy",
    "export", "import", "watch", "serve", "mcp", "token", "config", "eval", "completion",
]  # fmt: skip


def _all(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _all(found, *names, name)


EVERY = dict(_all(cli))


def test_the_commands() -> None:
    assert [names[0] for names in EVERY if len(names) == 1] == COMMANDS
    assert cli.get_command(click.Context(cli), "nope") is None


@pytest.mark.parametrize("names", EVERY, ids=" ".join)
def test_a_command_and_its_options_have_help(run: Run, names: tuple[str, ...]) -> None:
    command = EVERY[names]
    assert command.help
    assert "Example" in command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
            assert param.help.endswith((".", "]")), param.help
    for flag in ("--help", "-h"):
        shown = run(*names, flag)
        assert (shown.status, shown.err) == (0, "")
        assert shown.out.startswith("Usage: kb")
        assert max(map(len, shown.lines)) <= 100
    for param in command.params:
        for name in param.opts:
            if isinstance(param, click.Option):
                assert name in shown.out


@pytest.mark.parametrize("names", EVERY, ids=" ".join)
def test_short_help_is_not_cut(names: tuple[str, ...]) -> None:
    if names:
        assert not EVERY[names].get_short_help_str(60).endswith("...")


def test_options_are_listed_under_headings(run: Run) -> None:
    shown = run("search", "--help").out
    places = [shown.index(heading) for heading in ("Options:\n", "Filters:\n", "Output:\n")]
    assert places == sorted(places)
