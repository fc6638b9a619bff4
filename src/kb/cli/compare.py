"""`kb compare`: one query by several methods, side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import common_options, filter_options, option, text_or_stdin, utf8_text
from kb.cli.query_command import QueryCommand
from kb.types import Filters

if TYPE_CHECKING:
    from kb.types import Comparison


@click.command("compare", cls=QueryCommand)
@click.argument("query", type=utf8_text, nargs=-1, required=True)
@option("-n", "--top", type=int, metavar="N", help="Number of hits per method.  [default: 10]")
@filter_options
@common_options()
@pass_invocation
def compare_command(
    invocation: Invocation, /, *, query: tuple[str, ...], top: int | None, filters: Filters
) -> None:
    """Run a query with six methods, side by side. QUERY is any text; - reads it from stdin.

    The methods: words only (fts5_only), meaning only (dense_only), weighted terms only
    (sparse_only), the first two fused, all three fused as in the profile `research`, and the same
    reranked. A letter marks a hit that several methods return. Times exclude the work that all
    methods share: loading the model and encoding the query.

    \b
    Examples:
      kb compare retry storm
      kb compare --top 5 --type markdown "why did the batch fail" --json
    """
    with invocation.open() as kb:
        comparison = kb.compare(text_or_stdin(query), top=top, filters=filters)
    if invocation.json:
        from kb import wire

        output.write_json(wire.comparison(comparison))
    else:
        _write(comparison)


def _write(comparison: Comparison) -> None:
    from kb.cli.compare_view import comparison_text, problem_lines

    console = output.Console.of(sys.stdout)
    width = None if console.width is None else _terminal_width()
    output.write(comparison_text(comparison, console, width))
    for line in problem_lines(comparison):
        output.warn(line)


def _terminal_width() -> int:
    """Return the full width: columns stay readable on a wide terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns
