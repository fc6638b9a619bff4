"""`kb compare`: one query by every method, side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import (
    Command,
    common_options,
    filter_options,
    option,
    readable,
    text_or_stdin,
)
from kb.types import Filters

if TYPE_CHECKING:
    from kb.types import Comparison


@click.command("compare", cls=Command)
@click.argument("query", type=readable, nargs=-1, required=True)
@option("-n", "--top", type=int, metavar="N", help="How many hits of each method.  [default: 10]")
@filter_options
@common_options()
@pass_session
def compare_command(
    session: Session, /, *, query: tuple[str, ...], top: int | None, filters: Filters
) -> None:
    """Find passages by six methods, side by side. QUERY is any text; - reads it from stdin.

    Words alone (fts5_only), meaning alone (dense_only), terms as a model weighs them (sparse_only),
    the first two fused, all three fused as in the profile `research`, and that reranked. A letter
    marks a hit that several methods found. Times are without what all share: loading the model,
    encoding the query.

    \b
    Examples:
      kb compare retry storm
      kb compare --top 5 --type markdown "why did the batch fail" --json
    """
    with session.open() as kb:
        found = kb.compare(text_or_stdin(query), top=top, filters=filters)
    if session.json:
        from kb import wire

        output.say_json(wire.comparison(found))
    else:
        _say(found)


def _say(found: Comparison) -> None:
    from kb.cli.compare_view import comparison_text, told_text

    sheet = output.Page.of(sys.stdout)
    output.say(comparison_text(found, sheet, _whole_width() if sheet.width is not None else None))
    for line in told_text(found):
        output.warn(line)


def _whole_width() -> int:
    """Of the terminal: columns are easy to read however wide it is."""
    from shutil import get_terminal_size

    return get_terminal_size().columns
