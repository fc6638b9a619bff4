"""`kb add`: notes that live in the store itself."""

from __future__ import annotations

from typing import Any

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    option,
    readable,
    split_commas,
    text_or_stdin,
)
from kb.types import KINDS, SCOPES, TRUSTS


@click.command("add", cls=Command)
@click.argument("text", type=readable, nargs=-1, required=True)
@option("--title", metavar="TEXT", help="A title.  [default: the first line]")
@option("--tags", metavar="A,B", multiple=True, help="Tags.")
@option("--kind", type=Choice(KINDS), help="What the note says.")
@option("--scope", type=Choice(SCOPES), help="Where it applies.  [default: global]")
@option("--trust", type=Choice(TRUSTS), help="How far to trust it.  [default: primary]")
@option("--lang", metavar="LANG", help="Its language: en, de, python.")
@option("--ttl", metavar="TIME", help="How long it lives: 7d, 12h, never.  [default: never]")
@option("--no-embed", is_flag=True, help="Make no vectors now; kb embed makes them later.")
@common_options()
@pass_session
def add_command(
    session: Session,
    /,
    *,
    text: tuple[str, ...],
    tags: tuple[str, ...],
    no_embed: bool,
    **options: Any,
) -> None:
    """Store a note, and print its path. TEXT is the note; - reads it from stdin.

    \b
    Examples:
      kb add "The spare shackles are in locker 4" --tags mooring
      git log -1 | kb add - --kind summary --ttl 7d
    """
    with session.open() as kb:
        with session.new_store_named(kb):
            document = kb.add(
                text_or_stdin(text), tags=split_commas(tags), on_warning=output.warn, **options
            )
        if session.json:
            from kb import wire

            output.say_json(wire.document(document))
        else:
            output.say(document.doc_path)
        if not no_embed:
            from kb.cli.embed import embed_new

            embed_new(kb, session, document.doc_path)
