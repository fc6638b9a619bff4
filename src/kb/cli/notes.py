"""`kb add` and `kb edit`: notes, which are stored without a file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    document_argument,
    option,
    split_commas,
    utf8_text,
)
from kb.errors import InvalidRequest
from kb.types import KINDS, SCOPES, TRUSTS

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Document

_MAX_BYTES = 64 << 20  # of the file in the editor; a note has at most 10 million characters


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
                _note_text(text), tags=split_commas(tags), on_warning=output.warn, **options
            )
        _finish(kb, invocation, document, no_embed=no_embed)


def _finish(kb: KnowledgeBase, invocation: Invocation, note: Document, *, no_embed: bool) -> None:
    """Print a note that was written, and embed it."""
    if invocation.json:
        from kb import wire

        output.write_json(wire.document(note))
    else:
        output.write(note.doc_path)
    if not no_embed:
        from kb.cli.embed import embed_new

        embed_new(kb, invocation, note.doc_path)


@click.command("edit", cls=Command)
@document_argument("note", metavar="N|NOTE")
@click.argument("text", type=utf8_text, nargs=-1)
@option("--title", metavar="TEXT", help="Change the title.")
@option("--tags", metavar="A,B", multiple=True, help="Replace the tags.")
@option("--kind", type=Choice(KINDS), help="Change the kind.")
@option("--ttl", metavar="TIME", help="Change when the note expires: 7d, 12h, never.")
@option("--no-embed", is_flag=True, help="Do not create vectors now; `kb embed` does it later.")
@common_options()
@pass_invocation
def edit_command(
    invocation: Invocation,
    /,
    *,
    note: str,
    text: tuple[str, ...],
    title: str | None,
    tags: tuple[str, ...],
    kind: str | None,
    ttl: str | None,
    no_embed: bool,
) -> int:
    """Change a note, in your editor or by options.

    NOTE is the path of a note, such as note:12, and N the number of a hit of the last search. TEXT
    replaces the text without an editor; - reads it from stdin. Without TEXT and options, the note
    opens in $VISUAL or $EDITOR, or the program of the setting open.editor. If the note was changed
    in the meantime, nothing is stored, and your text is kept in a file.

    \b
    Examples:
      kb edit note:12
      kb edit 1 --tags mooring,stock
      kb edit note:12 "The spare shackles are in locker 5"
    """
    from kb.cli.hit_number import citation_of
    from kb.library import notes
    from kb.text.citations import parse_uri

    with invocation.open() as kb:
        document = kb.document(parse_uri(citation_of(note, kb, invocation)).path)
        notes.check_editable(document, None)
        before = kb.get(document.doc_path, count=False).text
        options = (title, kind, ttl, *tags)
        changes: dict[str, Any] = {
            "title": notes.own_title(document, before) if title is None else title,
            "tags": split_commas(tags) if tags else document.tags,
            "kind": document.kind if kind is None else kind,
            "ttl": ttl,
            "version": notes.version(document),
        }
        if text or any(each is not None for each in options):
            after = _note_text(text) if text else before
            edited = kb.edit(document.doc_path, after, **changes)
        else:
            with _edited_text(kb, before) as changed:
                if changed is None:
                    output.note(f"{document.doc_path} is unchanged")
                    return 0
                edited = kb.edit(document.doc_path, changed, **changes)
        _finish(kb, invocation, edited, no_embed=no_embed)
    return 0


@contextmanager
def _edited_text(kb: KnowledgeBase, text: str) -> Iterator[str | None]:
    """Open a text in the user's editor. Gives the new text, or None if it is the same. If the block
    fails, the text is kept in its file."""
    from kb.cli.open import run_editor
    from kb.cli.programs import editor_command
    from kb.errors import ConfigError, KbError

    handle, name = tempfile.mkstemp(prefix="kb-note-", suffix=".md")
    file = Path(name)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
    try:
        command = editor_command(name, None, kb.config.open.editor, os.environ)
        if status := run_editor(command):
            raise ConfigError(f"{command[0]} ended with status {status}", "nothing was stored")
        after = _decode(_read(file))
        yield None if after.rstrip("\n") == text.rstrip("\n") else after
    except KbError:
        if _contains(file, text):
            file.unlink()
        elif os.path.lexists(file):  # some editors remove it
            output.note(f"your text is kept in {output.escape(name)}")
        raise
    file.unlink()


def _read(file: Path) -> bytes:
    """Read the file that the editor left. Does not wait for a named pipe."""
    from kb.regular_files import read_file

    try:
        return read_file(file, _MAX_BYTES, links="follow")
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}", "nothing was stored") from error


def _contains(file: Path, text: str) -> bool:
    try:
        return _read(file) == text.encode("utf-8")
    except InvalidRequest:
        return False


def _note_text(words: tuple[str, ...]) -> str:
    """Join the words into one text, or read stdin if they are a single `-`."""
    if words != ("-",):
        return " ".join(words)
    if sys.stdin is None:  # closed, as after `<&-`
        return ""
    return _decode(sys.stdin.buffer.read()).removesuffix("\n")


def _decode(data: bytes) -> str:
    """Decode the text of a note like that of a file: in an older encoding with a warning, and never
    by dropping letters."""
    from kb.ingest.decode import Unreadable, Unsupported, decode, wide_encoding
    from kb.ingest.legacy_encodings import encoding_note

    try:
        text = decode(data)
    except (Unreadable, Unsupported) as error:
        raise InvalidRequest(
            f"the note is not text: {error.reason}", "convert it to UTF-8"
        ) from error
    if wide_encoding(data) is None and (note := encoding_note(data)) is not None:
        output.warn(note)
    return text
