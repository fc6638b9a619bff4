"""The notes in an export, each under its title: tags, dates and address, then its text. Attached
files are listed, but not read."""

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
_WORDLESS = ("audio/", "image/", "video/")
_NAMED = 10  # attachments, in a warning
_TAGS = 100  # per document
_PROLOG = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^>]*>\s*)?")


def parse_export(source: Source) -> Parsed:
    out = Extract()
    tags: dict[str, None] = {}
    titles: list[str] = []
    attachments: dict[str, None] = {}
    for note, done in _notes(source.data):
        titles.append(_text(note, "title"))
        _write(out, note, titles[-1])
        tags |= dict.fromkeys(_texts(note, "tag"))
        attachments |= dict.fromkeys(_files(note))
        source.on_progress(done, len(source.data))
    if not titles:
        raise Unreadable("not an Evernote export: it has no notes")
    return Parsed(
        type="evernote",
        blocks=out.blocks,
        title=(titles[0] if len(titles) == 1 else "") or file_names.title_of(source.name),
        attributes=Attributes(tags=tuple(tags)[:_TAGS]),
        warnings=(*_unread_warning(list(attachments)), *out.warnings),
        text=out.text,
    )


def _notes(data: bytes) -> Iterator[tuple[Element, int]]:
    """Yield each note, and how many bytes were read. Each note is freed before the next one is
    read, because its pictures may take megabytes."""
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
    out.lines(_tasks(note))
    if files := _texts(note, "file-name"):
        out.lines(["Attachments:", *(f"- {one_line(name)}" for name in files)])
    out.append_missing(rest)


def _tasks(note: Element) -> Iterator[str]:
    """Yield the tasks of a note, each with its remark."""
    for task in note.iter("task"):
        mark = "x" if _text(task, "taskStatus") == "completed" else " "
        yield f"- [{mark}] {one_line(_text(task, 'title'))}"
        for remark in _texts(task, "taskNote"):
            yield f"  {one_line(remark)}"


def _files(note: Element) -> Iterator[str]:
    """Yield the names of the attached files that may have text."""
    for resource in note.iter("resource"):
        kind = _text(resource, "mime")
        if not kind.startswith(_WORDLESS):
            yield one_line(_text(resource, "file-name")) or kind


def _unread_warning(names: list[str]) -> Iterator[str]:
    """A warning that lists the attached files, which are not read."""
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"attachments are not read: {', '.join(names[:_NAMED])}{more}"


def _texts(note: Element, name: str) -> list[str]:
    return [text for each in note.iter(name) if (text := (each.text or "").strip())]


def _text(note: Element, name: str) -> str:
    return next(iter(_texts(note, name)), "")


def _day(text: str) -> str:
    try:
        return datetime.strptime(text[:8], "%Y%m%d").strftime("%Y-%m-%d")
    except ValueError:
        return ""
