"""`kb list`, `rm`, `tag` and `gc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import (
    Command,
    common_options,
    document_argument,
    filter_options,
    option,
    split_commas,
)
from kb.text.units import format_bytes
from kb.types import Filters

if TYPE_CHECKING:
    from kb.types import Document


@click.command("list", cls=Command)
@filter_options
@option("--newest", is_flag=True, help="Sort by date, the newest first, instead of by path.")
@option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N documents.")
@option(
    "-l",
    "--long",
    is_flag=True,
    heading="Output",
    help="Also print date, type, kind, title and tags.",
)
@option("--jsonl", is_flag=True, heading="Output", help="Print JSON, one document per line.")
@common_options()
@pass_invocation
def list_command(
    invocation: Invocation,
    *,
    filters: Filters,
    newest: bool,
    limit: int | None,
    long: bool,
    jsonl: bool,
) -> None:
    """List documents, sorted by path or by date.

    \b
    Examples:
      kb list --newest --limit 20 --long
      kb list --tags incident --long
      kb list --path 'notes/**' --type markdown --jsonl
    """
    with invocation.open() as kb:
        documents = kb.documents(filters, limit=None if newest else limit)
        if newest:
            documents = sorted(documents, key=lambda each: each.date, reverse=True)[:limit]
        root_ids = {document.root_id for document in documents}
        detached = [root.name for root in kb.roots() if root.detached and root.root_id in root_ids]
    if jsonl or invocation.json:
        from kb import wire

        shapes = [wire.document(document) for document in documents]
        if not jsonl:
            output.write_json(shapes)
            return
        for shape in shapes:
            output.write_json_line(shape)
    elif not documents:
        output.note("no documents" + (" match these filters" if filters else ""))
        if filters:
            from kb.cli.path_hint import note_path

            with invocation.open() as kb:
                note_path(filters, kb)
    else:
        paths = (output.escape(document.doc_path) for document in documents)
        output.write_paged("\n".join(_long_lines(documents) if long else paths))
    for name in detached:
        output.note(f"{output.escape(name)}/ is detached; to read its files: kb attach NAME FOLDER")


_INDENT = 12  # the width of a date and a gap


def _long_lines(documents: Sequence[Document]) -> list[str]:
    """Return date, type, kind and path in columns, then title and tags, on a separate line if they
    do not fit on the terminal."""
    console = output.Console.of(sys.stdout)
    types = max(len(document.type) for document in documents)
    kinds = max(len(document.kind or "-") for document in documents)
    lines = []
    for document in documents:
        kind = (document.kind or "-").ljust(kinds)
        start = f"{document.date[:10]}  {document.type.ljust(types)}  {kind}  "
        path = output.escape(document.doc_path)
        rest = output.escape("  ".join((document.title, *(f"#{tag}" for tag in document.tags))))
        gap = "  "
        width = output.display_width(start + path + gap + rest)
        if console.width is not None and width > console.width:
            gap = "\n" + " " * _INDENT
            rest = output.truncate(rest, console.width - _INDENT)
        lines.append(start + console.style(path, fg="cyan") + gap + console.style(rest, dim=True))
    return lines


@click.command("rm", cls=Command)
@document_argument("documents", metavar="DOC...", nargs=-1, required=True)
@common_options()
@pass_invocation
def rm_command(invocation: Invocation, *, documents: tuple[str, ...]) -> None:
    """Remove documents from the store, and print their paths.

    DOC is a path from `kb list`, the path of a file, note:<id>, or a folder with a trailing / for
    everything in it. Files on disk are not touched. Files in an ingested folder return with the
    next `kb ingest`, unless .kbignore excludes them. If you remove the ingested folder itself
    (notes/), kb no longer updates it.

    \b
    Examples:
      kb rm notes/old.md note:12
      kb rm notes/drafts/
    """
    with invocation.open() as kb:
        removed = kb.remove(*documents)
    _write_paths(removed, invocation, "removed; files on disk are untouched")


@click.command("gc", cls=Command)
@option("--dry-run", is_flag=True, help="Only show what would be removed.")
@option("--compact", is_flag=True, help="Also free all unused disk space.")
@common_options()
@pass_invocation
def gc_command(invocation: Invocation, *, dry_run: bool, compact: bool) -> None:
    """Remove expired documents, and print their paths.

    A document expires when its ttl has passed. Searches skip expired documents anyway.

    Large amounts of unused space are returned to the system; smaller ones are kept for new
    documents. --compact returns all of it, which takes a while, and as much free disk space as the
    size of the store.

    \b
    Examples:
      kb gc --dry-run
      kb gc --compact
    """
    with invocation.open() as kb:
        expired = kb.gc(dry_run=dry_run)
        freed = kb.compact() if compact and not dry_run else 0
    if compact:
        output.note(f"{format_bytes(freed)} of disk space freed")
    _write_paths(expired, invocation, "expired" if dry_run else "expired and removed")


def _write_paths(paths: Sequence[str], invocation: Invocation, description: str) -> None:
    if invocation.json:
        output.write_json(paths)
        return
    if paths:
        output.write("\n".join(output.escape(path) for path in paths))
    output.note(f"{output.count(len(paths), 'document')} {description}")


@click.command("tag", cls=Command)
@document_argument("document", metavar="[DOC]", required=False)
@option("--add", metavar="A,B", multiple=True, help="Add these tags.")
@option("--remove", metavar="A,B", multiple=True, help="Remove these tags.")
@common_options()
@pass_invocation
def tag_command(
    invocation: Invocation, *, document: str | None, add: tuple[str, ...], remove: tuple[str, ...]
) -> None:
    """Add, remove or show the tags of a document. Without DOC, list all tags with their counts.

    Tags from a file's front matter can only be removed in the file.

    \b
    Examples:
      kb tag
      kb tag notes/retry.md --add incident,2026 --remove draft
    """
    if document is None:
        if add or remove:
            raise click.UsageError("--add and --remove require DOC")
        _write_tags(invocation)
        return
    with invocation.open() as kb:
        tagged = kb.tag(document, add=split_commas(add), remove=split_commas(remove))
    if invocation.json:
        from kb import wire

        output.write_json(wire.document(tagged))
    elif tagged.tags:
        output.write("\n".join(output.escape(tag) for tag in tagged.tags))
    else:
        output.note(f"{output.escape(tagged.doc_path)} has no tags")


def _write_tags(invocation: Invocation) -> None:
    with invocation.open() as kb:
        tags = kb.tags()
    if invocation.json:
        output.write_json(tags)
    elif tags:
        most_first = sorted(tags.items(), key=lambda item: (-item[1], item[0]))
        width = len(str(most_first[0][1]))
        output.write(
            "\n".join(f"{count:{width}}  {output.escape(tag)}" for tag, count in most_first)
        )
    else:
        output.note("no tags")
