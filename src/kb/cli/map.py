"""`kb map`: the library as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from kb.cli import output, report_files
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.map_svg import COLORS, map_svg
from kb.cli.options import Choice, Command, common_options, filter_options, option
from kb.types import Filters


@click.command("map", cls=Command)
@option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default=Path("kb-map.svg"),
    help="The SVG file to write; - is stdout.  [default: kb-map.svg]",
)
@option("--force", is_flag=True, help="Overwrite FILE even if it is not a map.")
@option(
    "--color",
    type=Choice(COLORS),
    metavar="BY",
    default="topic",
    help=f"Color documents by {', '.join(COLORS[:-1])} or {COLORS[-1]}.  [default: topic]",
)
@filter_options
@common_options()
@pass_invocation
def map_command(
    invocation: Invocation, /, *, path: Path, force: bool, color: str, filters: Filters
) -> None:
    """Draw a map of the library as SVG.

    Similar documents are close to each other, which requires their vectors. Topics are named after
    words in titles and headings. Open the file in a browser, and hover over a point to see the
    title of its document. With --json, the points are printed instead.

    \b
    Examples:
      kb map
      kb map --color folder -o notes.svg --path 'notes/**'
    """
    to_stdout = str(path) == "-"
    with invocation.open() as kb:
        if not to_stdout and not invocation.json:
            report_files.check_outputs([path], inputs=(), store=kb.path, force=force)
        drawn = kb.map(filters)
    if invocation.json:
        from kb import wire

        output.write_json(wire.library_map(drawn))
        return
    svg = map_svg(drawn, color)
    if to_stdout:
        output.write(svg.removesuffix("\n"))
    else:
        report_files.write(path, svg)
        count = output.count(len(drawn.points), "document")
        topics = output.count(len(drawn.topics), "topic")
        output.write(f"{count} in {topics}: {output.escape(str(path))}")
    if drawn.left_out:
        output.note(f"{drawn.left_out} documents were left out; use filters to choose others")
