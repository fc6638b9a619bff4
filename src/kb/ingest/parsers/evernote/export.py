"""The notes of an export, each under its title: tags, dates and address, then its text. Attached
files are named, not read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import datetime
from xml.etree.ElementTree import Element, ParseError, iterparse

from kb.ingest import file_names
from kb.ingest.decode import Unreadable
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parsers.html import page as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ports import Parsed, Source
from kb.types import Attributes

_FIELDS = ("author", "source-url", "source", "reminder-time", "place-name")
_TAGS = 100  # of a document
_PROLOG = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^>]*>\s*)?")


def parse_export(source: Source) -> Parsed:
    out = Extract()
    tags: dict[str, None] = {}
    titles: list[str] = []
    for note, done in _notes(source.data):
        titles.append(_text(note, "title"))
        _write(out, note, titles[-1])
        tags |= dict.fromkeys(_texts(note, "tag"))
        source.on_progress(done, len(source.data))
    if not titles:
        raise Unreadable("not an Evernote export: it has no notes")
    return Parsed(
        type="evernote",
        blocks=out.blocks,
        title=(titles[0] if len(titles) == 1 else "") or file_names.title_of(source.name),
        attributes=Attributes(tags=tuple(tags)[:_TAGS]),
        warnings=tuple(out.warnings),
        text=out.text,
    )


def _notes(data: bytes) -> Iterator[tuple[Element, int]]:
    """Yield each note, and how many bytes were read. A note is forgotten after its turn, since
    pictures in it may take megabytes."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise Unreadable("defines XML entities, which are not allowed")
    stream = io.BytesIO(data)
    try:
        for _, element in iterparse(stream):
            if element.tag == "note":
                yield element, stream.tell()
            if element.tag in ("note", "data"):
                element.clear()
    except (ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"not a valid Evernote export: {error}") from error


def _write(out: Extract, note: Element, title: str) -> None:
    out.heading(1, title or "Untitled")
    days = [_day(_text(note, name)) for name in ("created", "updated")]
    shown = [day for day in dict.fromkeys(days) if day]
    out.lines(
        one_line(text)
        for text in (
            ", ".join(shown),
            " ".join(f"#{tag}" for tag in _texts(note, "tag")),
            *(_text(note, name) for name in _FIELDS),
        )
        if text
    )
    content = _PROLOG.sub("", _text(note, "content"), count=1)
    rest = html.write_page(html_tree.parse_html(content), out) if content.strip() else []
    if files := _texts(note, "file-name"):
        out.lines(["Attachments:", *(f"- {one_line(name)}" for name in files)])
    out.append_missing(rest)


def _texts(note: Element, name: str) -> list[str]:
    return [text for each in note.iter(name) if (text := (each.text or "").strip())]


def _text(note: Element, name: str) -> str:
    return next(iter(_texts(note, name)), "")


def _day(text: str) -> str:
    try:
        return datetime.strptime(text[:8], "%Y%m%d").strftime("%Y-%m-%d")
    except ValueError:
        return ""
