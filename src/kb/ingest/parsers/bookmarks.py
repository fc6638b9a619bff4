"""Bookmarks that a browser exports (Netscape bookmark files), under the names of their folders."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_HEAD = re.compile(rb"(?:\xef\xbb\xbf)?\s*<!DOCTYPE NETSCAPE-Bookmark-file", re.IGNORECASE)
# Some exports have no doctype. No web page lists dated links in this way.
_LIST = re.compile(
    rb"<DL>\s*(?:<p>\s*)?<DT>\s*(?:<H3[^>]{0,1000}>[^<]{0,1000}</H3>\s*<DL>\s*(?:<p>\s*)?<DT>\s*)?"
    rb"<A\b[^>]{0,4000}\sADD_DATE\s*=",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"<!--.*?(?:-->|\Z)|<(/?)([A-Za-z!][\w-]*)([^>]*)>|([^<]+|<)", re.DOTALL)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_HEAD_BYTES = 8192
_MAX_TIME = 253_402_300_799  # the end of the year 9999
_MAX_LEVEL = 6


class _Link(NamedTuple):
    address: str
    day: str
    tags: str


class BookmarksParser(FormatParser):
    name = "bookmarks"
    version = "2"
    priority = 2  # before the HTML parser

    def accepts(self, source: Source) -> bool:
        return bool(_HEAD.match(source.data[:1024]) or _LIST.search(source.data[:_HEAD_BYTES]))

    def parse(self, source: Source) -> Parsed:
        writer = _Writer()
        for match in _TOKEN.finditer(decode(source.data)):
            closing, tag, attributes, text = match.groups()
            if tag is not None:
                writer.tag(tag.lower(), bool(closing), attributes)
            elif text is not None:
                writer.text.append(html.unescape(text))
        writer.end()
        return Parsed(
            type="bookmarks",
            blocks=writer.out.blocks,
            title=writer.title or file_names.title_of(source.name),
            text=writer.out.text,
        )


class _Writer:
    """Writes a folder as a heading, and a bookmark as a list item."""

    def __init__(self) -> None:
        self.out = Extract()
        self.title = ""
        self.text: list[str] = []
        self._level = 0
        self._link: _Link | None = None
        self._items: list[str] = []
        self._is_described = False

    def tag(self, tag: str, closing: bool, attributes: str) -> None:
        if closing and tag in ("a", "h1", "h3", "title"):
            self._close(tag)
        elif tag == "dl":
            self.end()
            self._level += -1 if closing else 1
            self._level = max(self._level, 0)
            if closing:
                self.out.enter_section(min(max(self._level, 1), _MAX_LEVEL), "")
        elif not closing and tag in ("a", "h1", "h3", "title", "dt", "dd", "p", "hr"):
            self._finish_text()
            self._is_described = tag == "dd"
            if tag == "a":
                self._link = _read_link(attributes)

    def _close(self, tag: str) -> None:
        words = one_line("".join(self.text))
        self.text = []
        if tag == "a":
            link, self._link = self._link or _Link("", "", ""), None
            extra = one_line(f"{link.address} {link.day} {link.tags}")
            self._items.append(f"- {one_line(f'{words} {extra}')}")
        elif tag == "h3":
            self._flush()
            self.out.heading(min(max(self._level, 1), _MAX_LEVEL), words)
        elif not self.title:
            self.title = words
        elif words != self.title:
            self.out.paragraph(words)

    def _finish_text(self) -> None:
        """Write text that no tag has closed: the description of a bookmark, or anything else."""
        lines = [one_line(line) for line in "".join(self.text).split("\n")]
        self.text = []
        indent = "  " if self._is_described else ""
        self._items += [f"{indent}{line}" for line in lines if line]
        if self._link is not None:  # without </a>
            self._items.append(f"- {self._link.address}")
            self._link = None

    def _flush(self) -> None:
        items, self._items = self._items, []
        self.out.lines(items)

    def end(self) -> None:
        self._finish_text()
        self._is_described = False
        self._flush()


def _read_link(attributes: str) -> _Link:
    values = {name.lower(): html.unescape(one or two or three)
              for name, one, two, three in _pairs(attributes)}  # fmt: skip
    return _Link(values.get("href", ""), _day(values.get("add_date", "")), values.get("tags", ""))


def _pairs(attributes: str) -> Iterator[tuple[str, str, str, str]]:
    # Without the icons, which may be the largest part of a file.
    for match in _ATTRIBUTE.finditer(attributes):
        if match[1].lower() in ("href", "add_date", "tags"):
            yield match[1], match[2] or "", match[3] or "", match[4] or ""


def _day(time: str) -> str:
    """The day of a time in seconds since 1970; some browsers write milliseconds or microseconds."""
    if not time.isdecimal() or len(time) > 16:
        return ""
    seconds = int(time) // {13: 1_000, 16: 1_000_000}.get(len(time), 1)
    if not 0 < seconds < _MAX_TIME:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
