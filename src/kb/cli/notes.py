"""`kb add`: notes, which are stored without a file."""

from __future__ import annotations

from typing import Any

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    option,
    split_commas,
    text_or_stdin,
    utf8_text,
)
from kb.types import KINDS, SCOPES, TRUSTS


@click.command("add", cls=Command)
@click.argument("text", type=utf8_text, nargs=-1, required=True)
@option("--title", metavar="TEXT", help="The title.  [default: the first line]")
@option("--tags", metavar="A,B", multiple=True, help="Tags, separated by commas.")
@option("--kind", type=Choice(KINDS), help="The kind of note.")
@option("--scope", type=Choice(SCOPES), help="Where the note applies.  [default: global]")
@option("--trust", type=Choice(TRUSTS), help="How trustworthy the note is.  [default: primary]")
@option("--lang", metavar="LANG", help="The language, such as en, de or python.")
@option("--ttl", metavar="TIME", help="When the note expires: 7d, 12h, never.  [default: never]")
@option("--no-embed", is_flag=True, help="Do not create vectors now; `kb embed` does it later.")
@common_options()
@pass_invocation
def add_command(
    invocation: Invocation,
    /,
    *,
    text: tuple[str, ...],
    tags: tuple[str, ...],
    no_embed: bool,
    **options: Any,
) -> None:
    """Add a note, and print its path. TEXT is the note; - reads it from stdin.

    \b
    Examples:
      kb add "The spare shackles are in locker 4" --tags mooring
      git log -1 | kb add - --kind summary --ttl 7d
    """
    with invocation.open() as kb:
        with invocation.announce_new_store(kb):
            document = kb.add(
                text_or_stdin(text), tags=split_commas(tags), on_warning=output.warn, **options
            )
        if invocation.json:
            from kb import wire

            output.write_json(wire.document(document))
        else:
            output.write(document.doc_path)
        if not no_embed:
            from kb.cli.embed import embed_new

            embed_new(kb, invocation, document.doc_path)
