"""Commands whose arguments are a query, such as `kb search git push --force`.

After the first word of the query, an argument that is not an option of the command is text of the
query. The command's own options work anywhere; after `--` everything is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import click

from kb.cli import output
from kb.cli.options import Command

_NO_VALUE = "\0"  # a process argument cannot contain it
_LONG_NAME = 9  # including the dashes; in a shorter name, two wrong letters are too many


class QueryCommand(Command):
    """A command whose arguments are a query, including words that look like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        known = {
            name: not (param.is_flag or param.count)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option)
            for name in (*param.opts, *param.secondary_opts)
        }
        options, words, unknown = split_query(args, known)
        if options and options[-1] == _NO_VALUE:
            raise click.BadOptionUsage(
                options[-2], f"Option {options[-2]!r} requires an argument.", ctx
            )
        for word in unknown:
            if near := similar_option(word, known):
                message = f"{word} was searched as part of the query; did you mean {near}?"
                ctx.call_on_close(partial(output.warn, message))  # below the hits
        return super().parse_args(ctx, [*options, "--", *words])


def split_query(
    args: Sequence[str], known: Mapping[str, bool]
) -> tuple[list[str], list[str], list[str]]:
    """Split arguments into options with their values, words of the query, and those words that look
    like options. `known` maps the names of the command's options to whether they take a value.
    Unknown options before the first word stay options: they are rarely text, and the command
    rejects them. If the value of the last option is missing, `_NO_VALUE` takes its place."""
    options: list[str] = []
    words: list[str] = []
    unknown: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            words += rest
            break
        if not arg.startswith("-") or arg == "-":
            words.append(arg)
        elif (takes_next := _takes_next(arg, known)) is not None:
            options.append(arg)
            if takes_next:
                options.append(rest.pop(0) if rest else _NO_VALUE)
        elif words:
            words.append(arg)
            unknown.append(arg)
        else:
            options.append(arg)
    return options, words, unknown


def _takes_next(arg: str, known: Mapping[str, bool]) -> bool | None:
    """Whether the next argument is the value of this option; None for an unknown option. `-vn5` is
    known if `-v` and `-n` are and `-v` takes no value."""
    name, equals, _ = arg.partition("=")
    if name in known:
        return known[name] and not equals
    if arg.startswith("--"):
        return None
    for index, letter in enumerate(arg[1:], 2):
        takes_value = known.get(f"-{letter}")
        if takes_value is None:
            return None
        if takes_value:
            return index == len(arg)
    return False


def similar_option(word: str, known: Mapping[str, bool]) -> str | None:
    """The long option that `word` misspells: by one letter, or by two in a long name."""
    name = word.partition("=")[0].lower()
    if not name.startswith("--"):
        return None
    distances = {each: edit_distance(name, each) for each in known if each.startswith("--")}
    nearest = min(distances, key=lambda each: distances[each], default="")
    most = 2 if len(name) >= _LONG_NAME else 1
    return nearest if nearest and distances[nearest] <= most else None


def edit_distance(first: str, second: str) -> int:
    """The number of letters to insert, delete, replace or swap with the next."""
    before: list[int] = []
    last = list(range(len(second) + 1))
    for i, letter in enumerate(first):
        row = [i + 1]
        for j, other in enumerate(second):
            row.append(min(row[j] + 1, last[j + 1] + 1, last[j] + (letter != other)))
            if i and j and letter == second[j - 1] and first[i - 1] == other:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]
