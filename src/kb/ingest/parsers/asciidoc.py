"""AsciiDoc, by section. Scanned by lines: only the structure matters, not the rendering."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import HEADING_CHARS, Part, blocks, first_heading, width_of
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIXES = frozenset({".ad", ".adoc", ".asc", ".asciidoc"})
_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*")
_UNDERLINE = re.compile(r"(=+|-+|~+|\^+|\++)[ \t]*")
_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|[|,:!]={3,}|```\S*)[ \t]*")
_COMPOUND = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--|~{4,})[ \t]*")
_BLOCK_TITLE = re.compile(r"\[[^\]]*\][ \t]*|\.[^\s.].*")  # attributes or a title above a block
_BLOCK_TITLE_LINES = 10
_ATTRIBUTE = re.compile(r":([\w-]{1,60}):(?:[ \t]+(.*))?")
_REVISION = re.compile(r"(?:v?[\w.-]+,[ \t]*)?(\d{4}-\d{1,2}-\d{1,2})\b.*")
_ANCHOR = re.compile(r"\[\[[^\]]*\]\]|\[#[^\]]*\]")
_REFERENCE = re.compile(r"<<[^,>]*,?([^>]*)>>|(?:link|xref|https?):\S*?\[([^\]]*)\]")
_MARKS = re.compile(r"(?<!\w)[*_`#+]{1,2}(?=\S)|(?<=\S)[*_`#+]{1,2}(?!\w)")
_HEADER_LINES = 60


class AsciidocParser(FormatParser):
    name = "asciidoc"
    version = "3"
    max_local_bytes = SMALL_BYTES

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        suffix = file_names.suffix_of(source.name)
        # `.asc` files are often signatures or keys.
        return suffix in _SUFFIXES and not (
            suffix == ".asc" and source.data.lstrip().startswith(b"-----BEGIN")
        )

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blanked to keep the line numbers
        parts = list(_Scanner(lines, self._max_chars).parts(0, len(lines)))
        attributes = front_matter.merge(front.attributes, _header(lines, parts))
        return Parsed(
            type="asciidoc",
            blocks=[*front.blocks(), *blocks(lines, parts)],
            title=attributes.title or first_heading(parts) or file_names.title_of(source.name),
            lang=attributes.lang,
            attributes=attributes,
            warnings=front.warnings,
        )


class _Scanner:
    def __init__(self, lines: Sequence[str], max_chars: int) -> None:
        self._lines = lines
        self._max_chars = max_chars
        self._delimiters: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            if _VERBATIM.fullmatch(line) or _COMPOUND.fullmatch(line):
                self._delimiters.setdefault(line.rstrip(), []).append(number)

    def parts(self, start: int, stop: int, *, nested: bool = False) -> Iterator[Part]:
        """Yield headings and delimited blocks. A short block that contains others is one part; a
        long one is scanned for inner blocks, but not for headings."""
        pending = [(start, stop, nested)]
        while pending:
            at, stop, nested = pending.pop()
            while at < stop:
                part = None if nested else self._heading(at, stop)
                part = part or self._block(at, stop)
                if part is None:
                    at += 1
                elif part.level or part.atomic:
                    yield part
                    at = part.end
                else:
                    pending.append((part.end, stop, nested))
                    at, stop, nested = part.start + 1, part.end - 1, True

    def _heading(self, at: int, stop: int) -> Part | None:
        line = self._lines[at]
        if len(line) > HEADING_CHARS or not line.strip():
            return None
        if match := _HEADING.fullmatch(line):
            return Part(at, at + 1, len(match[1]), heading_text(match[2]))
        if at + 1 == stop or not line[0].isalnum() or (at and self._lines[at - 1][:1].isalnum()):
            return None
        below = _UNDERLINE.fullmatch(self._lines[at + 1])
        if below and len(below[1]) > 1 and abs(len(below[1]) - width_of(line.rstrip())) <= 1:
            return Part(at, at + 2, _LEVELS[below[1][0]], heading_text(line))
        return None

    def _block(self, at: int, stop: int) -> Part | None:
        """The delimited block at `at`, with its attributes and title; not atomic if its content is
        to be scanned. A delimiter without a closing one is an ordinary line."""
        opening, limit = at, min(at + _BLOCK_TITLE_LINES, stop)
        while opening < limit and _BLOCK_TITLE.fullmatch(self._lines[opening]):
            opening += 1
        if opening == stop:
            return None
        delimiter = self._lines[opening].rstrip()
        fenced = delimiter.startswith("```")
        places = self._delimiters.get("```" if fenced else delimiter, ())
        index = bisect_right(places, opening)
        if delimiter not in self._delimiters or index == len(places) or places[index] >= stop:
            return None
        end = places[index] + 1
        if _VERBATIM.fullmatch(delimiter) or self._size(at, end) <= self._max_chars:
            return Part(at, end, atomic=True)
        return Part(opening, end)

    def _size(self, start: int, end: int) -> int:
        return sum(len(line) + 1 for line in self._lines[start:end])


def heading_text(markup: str) -> str:
    """The text of a heading without its markup."""
    text = _REFERENCE.sub(lambda match: match[1] or match[2] or "", _ANCHOR.sub("", markup))
    return " ".join(_MARKS.sub("", text).split()) or " ".join(markup.split())


def _header(lines: Sequence[str], parts: Sequence[Part]) -> Attributes:
    """The attributes below the title (author, revision and others), up to a blank line."""
    top = parts[0].end if parts and parts[0].level == 1 else 0
    header: dict[str, str] = {}
    for line in lines[top : top + _HEADER_LINES]:
        if match := _ATTRIBUTE.fullmatch(line):
            header.setdefault(match[1].lower(), (match[2] or "").strip())
        elif top and (revision := _REVISION.fullmatch(line)):
            header.setdefault("revdate", revision[1])
        elif not line.strip() and top:
            break
    date = dates.parse(header.get("revdate", "")) or dates.parse(header.get("date", ""))
    metadata = {
        key: header[key]
        for key in ("author", "description", "keywords", "revnumber")
        if header.get(key)
    }
    return Attributes(
        lang=header.get("lang") or None,
        date=date,
        created_at=dates.moment(date) if date else None,
        metadata=metadata,
    )
