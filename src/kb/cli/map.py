"""`kb map`: the library as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from kb.cli import output, report_files
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.map_layout import COLORS, Layout, map_layout
from kb.cli.map_svg import map_svg
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
    help="The file to write: SVG, or PNG if its name ends in .png; - is SVG to stdout.  "
    "[default: kb-map.svg]",
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
    """Draw a map of the library as SVG or PNG.

    Similar documents are close to each other, which requires their vectors. Topics are named after
    words in titles and headings. Open the SVG file in a browser, and hover over a point to see the
    title of its document. A PNG file shows the same map without titles; it needs the extra png.
    With --json, the points are printed instead.

    \b
    Examples:
      kb map
      kb map --color folder -o notes.svg --path 'notes/**'
      kb map -o map.png
    """
    to_stdout, is_png = str(path) == "-", path.suffix.lower() == ".png"
    with invocation.open() as kb:
        if not to_stdout and not invocation.json:
            report_files.check_outputs([path], inputs=(), store=kb.path, force=force)
        drawn = kb.map(filters)
    if invocation.json:
        from kb import wire

        output.write_json(wire.library_map(drawn))
        return
    layout = map_layout(drawn, color)
    if to_stdout:
        output.write(map_svg(layout).removesuffix("\n"))
    else:
        report_files.write(path, _png(layout) if is_png else map_svg(layout))
        count = output.count(len(drawn.points), "document")
        topics = output.count(len(drawn.topics), "topic")
        output.write(f"{count} in {topics}: {output.escape(str(path))}")
    if drawn.left_out:
        output.note(f"{drawn.left_out} documents were left out; use filters to choose others")


def _png(layout: Layout) -> bytes:
    from kb.cli.map_png import map_png

    image, is_complete = map_png(layout)
    if not is_complete:
        output.note("no font has all letters of the topics' names; the SVG file shows them")
    return image
