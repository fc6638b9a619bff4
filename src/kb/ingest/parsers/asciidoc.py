"""AsciiDoc, by section. Read by lines: kb needs its structure, not what it looks like."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import HEADING_CHARS, Part, blocks, first_heading, width_of
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIXES = frozenset({".ad", ".adoc", ".asc", ".asciidoc"})
_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*")
_UNDERLINE = re.compile(r"(=+|-+|~+|\^+|\++)[ \t]*")
_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|[|,:!]={3,}|```\S*)[ \t]*")
_COMPOUND = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--|~{4,})[ \t]*")
_ABOUT = re.compile(r"\[[^\]]*\][ \t]*|\.[^\s.].*")  # stands above a block and belongs to it
_ABOUT_LINES = 10
_ATTRIBUTE = re.compile(r":([\w-]{1,60}):(?:[ \t]+(.*))?")
_REVISION = re.compile(r"(?:v?[\w.-]+,[ \t]*)?(\d{4}-\d{1,2}-\d{1,2})\b.*")
_ANCHOR = re.compile(r"\[\[[^\]]*\]\]|\[#[^\]]*\]")
_REFERENCE = re.compile(r"<<[^,>]*,?([^>]*)>>|(?:link|xref|https?):\S*?\[([^\]]*)\]")
_MARKS = re.compile(r"(?<!\w)[*_`#+]{1,2}(?=\S)|(?<=\S)[*_`#+]{1,2}(?!\w)")
_HEADER_LINES = 60


class AsciidocParser(FormatParser):
    name = "asciidoc"
    version = "3"

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        suffix = file_names.suffix_of(source.name)
        # `.asc` is a signature or a key at least as often.
        return suffix in _SUFFIXES and not (
            suffix == ".asc" and source.data.lstrip().startswith(b"-----BEGIN")
        )

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blank, so that the rest keeps its numbers
        parts = list(_Scan(lines, self._max_chars).parts(0, len(lines)))
        attributes = front_matter.merge(front.attributes, _header(lines, parts))
        return Parsed(
            type="asciidoc",
            blocks=[*front.blocks(), *blocks(lines, parts)],
            title=attributes.title or first_heading(parts) or file_names.title_of(source.name),
            lang=attributes.lang,
            attributes=attributes,
            warnings=front.warnings,
        )


class _Scan:
    def __init__(self, lines: Sequence[str], max_chars: int) -> None:
        self._lines = lines
        self._max_chars = max_chars
        self._delimiters: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            if _VERBATIM.fullmatch(line) or _COMPOUND.fullmatch(line):
                self._delimiters.setdefault(line.rstrip(), []).append(number)

    def parts(self, start: int, stop: int, *, nested: bool = False) -> Iterator[Part]:
        """Headings and delimited blocks. A block in which others stand is kept in one piece if it
        is short, and else gone into; there are no headings in it."""
        waiting = [(start, stop, nested)]
        while waiting:
            at, stop, nested = waiting.pop()
            while at < stop:
                part = None if nested else self._heading(at, stop)
                part = part or self._block(at, stop)
                if part is None:
                    at += 1
                elif part.level or part.atomic:
                    yield part
                    at = part.end
                else:
                    waiting.append((part.end, stop, nested))
                    at, stop, nested = part.start + 1, part.end - 1, True

    def _heading(self, at: int, stop: int) -> Part | None:
        line = self._lines[at]
        if len(line) > HEADING_CHARS or not line.strip():
            return None
        if found := _HEADING.fullmatch(line):
            return Part(at, at + 1, len(found[1]), plain(found[2]))
        if at + 1 == stop or not line[0].isalnum() or (at and self._lines[at - 1][:1].isalnum()):
            return None
        below = _UNDERLINE.fullmatch(self._lines[at + 1])
        if below and len(below[1]) > 1 and abs(len(below[1]) - width_of(line.rstrip())) <= 1:
            return Part(at, at + 2, _LEVELS[below[1][0]], plain(line))
        return None

    def _block(self, at: int, stop: int) -> Part | None:
        """The delimited block at `at`, with what is said about it above; not atomic when it is to
        be gone into. A delimiter without a second one is a line like others."""
        opening, limit = at, min(at + _ABOUT_LINES, stop)
        while opening < limit and _ABOUT.fullmatch(self._lines[opening]):
            opening += 1
        if opening == stop:
            return None
        delimiter = self._lines[opening].rstrip()
        fenced = delimiter.startswith("```")
        places = self._delimiters.get("```" if fenced else delimiter, ())
        found = bisect_right(places, opening)
        if delimiter not in self._delimiters or found == len(places) or places[found] >= stop:
            return None
        end = places[found] + 1
        if _VERBATIM.fullmatch(delimiter) or self._size(at, end) <= self._max_chars:
            return Part(at, end, atomic=True)
        return Part(opening, end)

    def _size(self, start: int, end: int) -> int:
        return sum(len(line) + 1 for line in self._lines[start:end])


def plain(markup: str) -> str:
    """A heading without its markup."""
    text = _REFERENCE.sub(lambda found: found[1] or found[2] or "", _ANCHOR.sub("", markup))
    return " ".join(_MARKS.sub("", text).split()) or " ".join(markup.split())


def _header(lines: Sequence[str], parts: Sequence[Part]) -> Attributes:
    """What stands below the title: author, revision, attributes. It ends with a blank line."""
    top = parts[0].end if parts and parts[0].level == 1 else 0
    said: dict[str, str] = {}
    for line in lines[top : top + _HEADER_LINES]:
        if found := _ATTRIBUTE.fullmatch(line):
            said.setdefault(found[1].lower(), (found[2] or "").strip())
        elif top and (revision := _REVISION.fullmatch(line)):
            said.setdefault("revdate", revision[1])
        elif not line.strip() and top:
            break
    date = dates.parse(said.get("revdate", "")) or dates.parse(said.get("date", ""))
    known = {
        key: said[key]
        for key in ("author", "description", "keywords", "revnumber")
        if said.get(key)
    }
    return Attributes(
        lang=said.get("lang") or None,
        date=date,
        created_at=dates.moment(date) if date else None,
        metadata=known,
    )
