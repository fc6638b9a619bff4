"""`kb list`, `rm`, `tag` and `gc`: the documents of a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import (
    Command,
    common_options,
    document_argument,
    filter_options,
    option,
    split_commas,
)
from kb.types import Filters

if TYPE_CHECKING:
    from kb.types import Document


@click.command("list", cls=Command)
@filter_options
@option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many.")
@option("-l", "--long", is_flag=True, heading="Output", help="With date, kind, title and tags.")
@option("--jsonl", is_flag=True, heading="Output", help="Answer in JSON, one document a line.")
@common_options()
@pass_session
def list_command(
    session: Session, *, filters: Filters, limit: int | None, long: bool, jsonl: bool
) -> None:
    """List documents by path.

    \b
    Examples:
      kb list --tags incident --long
      kb list --path 'notes/**' --type markdown --jsonl
    """
    with session.open() as kb:
        documents = kb.documents(filters, limit=limit)
        listed = {document.root_id for document in documents}
        detached = [root.name for root in kb.roots() if root.detached and root.root_id in listed]
    if jsonl or session.json:
        from kb import wire

        shapes = [wire.document(document) for document in documents]
        if not jsonl:
            output.say_json(shapes)
            return
        for shape in shapes:
            output.say_json_line(shape)
    elif not documents:
        output.note("no documents" + (" with these filters" if filters else ""))
    elif long:
        output.say("\n".join(_long_lines(documents)))
    else:
        output.say("\n".join(output.visible(document.doc_path) for document in documents))
    for name in detached:
        output.note(
            f"{output.visible(name)}/ is detached; to read its files: kb attach NAME FOLDER"
        )


_INDENT = 12  # the width of a date and its gap


def _long_lines(documents: Sequence[Document]) -> list[str]:
    """Date, type, kind and path in columns; then title and tags, on a terminal on a line of their
    own where they do not fit."""
    sheet = output.Page.of(sys.stdout)
    types = max(len(document.type) for document in documents)
    kinds = max(len(document.kind or "-") for document in documents)
    lines = []
    for document in documents:
        kind = (document.kind or "-").ljust(kinds)
        start = f"{document.date[:10]}  {document.type.ljust(types)}  {kind}  "
        path = output.visible(document.doc_path)
        rest = output.visible("  ".join((document.title, *(f"#{tag}" for tag in document.tags))))
        gap = "  "
        if sheet.width is not None and output.columns(start + path + gap + rest) > sheet.width:
            gap = "\n" + " " * _INDENT
            rest = output.cut(rest, sheet.width - _INDENT)
        lines.append(start + sheet.style(path, fg="cyan") + gap + sheet.style(rest, dim=True))
    return lines


@click.command("rm", cls=Command)
@document_argument("documents", metavar="DOC...", nargs=-1, required=True)
@common_options()
@pass_session
def rm_command(session: Session, *, documents: tuple[str, ...]) -> None:
    """Remove documents from the store, and print their paths.

    DOC is a path as `kb list` shows it, the path of a file, note:<id>, or a folder with a / at its
    end for all that is below. Files on disk are not touched. Those in a folder that stays ingested
    come back with the next `kb ingest`, unless .kbignore names them; removing an ingested folder
    itself (notes/) forgets it.

    \b
    Examples:
      kb rm notes/old.md note:12
      kb rm notes/drafts/
    """
    with session.open() as kb:
        removed = kb.remove(*documents)
    _say_paths(removed, session, "removed; files on disk are untouched")


@click.command("gc", cls=Command)
@option("--dry-run", is_flag=True, help="Only say what would be removed.")
@common_options()
@pass_session
def gc_command(session: Session, *, dry_run: bool) -> None:
    """Remove documents that have expired, and print their paths.

    These are notes and files whose ttl is over; searches leave them out anyway.

    \b
    Example:
      kb gc --dry-run
    """
    with session.open() as kb:
        expired = kb.gc(dry_run=dry_run)
    _say_paths(expired, session, "expired" if dry_run else "expired and removed")


def _say_paths(paths: Sequence[str], session: Session, what: str) -> None:
    if session.json:
        output.say_json(paths)
        return
    if paths:
        output.say("\n".join(output.visible(path) for path in paths))
    output.note(f"{len(paths)} document{'' if len(paths) == 1 else 's'} {what}")


@click.command("tag", cls=Command)
@document_argument("document", metavar="[DOC]", required=False)
@option("--add", metavar="A,B", multiple=True, help="Give the document these tags.")
@option("--remove", metavar="A,B", multiple=True, help="Take these away.")
@common_options()
@pass_session
def tag_command(
    session: Session, *, document: str | None, add: tuple[str, ...], remove: tuple[str, ...]
) -> None:
    """Give a document tags, take them away, or show them. Without DOC: every tag, with the number
    of documents that have it.

    Tags from a file's front matter stay for as long as they stand there.

    \b
    Examples:
      kb tag
      kb tag notes/retry.md --add incident,2026 --remove draft
    """
    if document is None:
        if add or remove:
            raise click.UsageError("--add and --remove need a DOC")
        _say_all_tags(session)
        return
    with session.open() as kb:
        tagged = kb.tag(document, add=split_commas(add), remove=split_commas(remove))
    if session.json:
        from kb import wire

        output.say_json(wire.document(tagged))
    elif tagged.tags:
        output.say("\n".join(output.visible(tag) for tag in tagged.tags))
    else:
        output.note(f"{output.visible(tagged.doc_path)} has no tags")


def _say_all_tags(session: Session) -> None:
    with session.open() as kb:
        tags = kb.tags()
    if session.json:
        output.say_json(tags)
    elif tags:
        most_first = sorted(tags.items(), key=lambda item: (-item[1], item[0]))
        width = len(str(most_first[0][1]))
        output.say(
            "\n".join(f"{count:{width}}  {output.visible(tag)}" for tag, count in most_first)
        )
    else:
        output.note("no tags")
