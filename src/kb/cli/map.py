"""`kb map`: the library as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from kb.atomic import atomic_path, check_not_store
from kb.cli import output
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
    help="The SVG file to write.  [default: kb-map.svg]",
)
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
def map_command(invocation: Invocation, /, *, path: Path, color: str, filters: Filters) -> None:
    """Draw a map of the library as SVG.

    Similar documents are near each other; this needs their vectors. Topics are named by the words
    in titles and headings. Open the file in a browser; the title of a document is shown under the
    pointer. With --json, the points are printed instead.

    \b
    Examples:
      kb map
      kb map --color folder -o notes.svg --path 'notes/**'
    """
    with invocation.open() as kb:
        check_not_store(path, kb.path)
        drawn = kb.map(filters)
    if invocation.json:
        from kb import wire

        output.write_json(wire.library_map(drawn))
        return
    with atomic_path(path, overwrite=True, follow_links=True) as part:
        part.write_text(map_svg(drawn, color), encoding="utf-8")
    count = output.count(len(drawn.points), "document")
    output.write(f"{count} in {output.count(len(drawn.topics), 'topic')}: {path}")
    if drawn.left_out:
        output.note(f"{drawn.left_out} documents were left out; use filters to choose others")
