"""Text extracted from a format that is not plain text: a web page, an office file, an e-mail.

Parsers write into an `Extract` in reading order. The text resembles Markdown, and every block is a
range of its lines, so that citations can refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kb.ingest.parser_support.sections import HeadingStack, line_block, trim_range
from kb.ingest.split import split_line
from kb.text.normalize import nfc
from kb.types import Block, Span

# A paragraph is one line, unless it is too long for a useful citation.
_LINE_CHARS = 800
_HEADING_CHARS = 500
_PLACE_CHARS = 300
# Control characters, and characters that some programs treat as line ends.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff]")
_FENCE = re.compile(r"^[ \t]*+(`{3,})", re.MULTILINE)
_WORD = re.compile(r"\w+")
_FEW_WORDS = 20  # up to this many are searched one by one, which is faster than splitting the text
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


class Extract:
    """Collects the text of a document and its blocks. Set `place` to what people look for in the
    original file, such as a cell, a slide or an anchor; citations show it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._headings = HeadingStack()
        self.blocks: list[Block] = []
        self.place: str | None = None  # of the following blocks in the original file
        self.first_heading: str | None = None  # of the first level

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def warnings(self) -> list[str]:
        """Warnings about bytes that are not valid in the encoding of the text."""
        count = self.text.count("\ufffd")
        return [f"{count:,} characters cannot be decoded and are shown as \ufffd"] * bool(count)

    def heading(self, level: int, text: str) -> None:
        """Write a heading, and enter its section."""
        words = one_line(text)
        if not words:
            return
        self.enter_section(level, words[:_HEADING_CHARS].rstrip())
        if len(words) <= _HEADING_CHARS:
            self._append([f"{'#' * level} {words}"], boundary=True)
        else:  # too long for a real heading
            self._append(wrap_lines(words), boundary=True)

    def enter_section(self, level: int, heading: str) -> None:
        """Put the following blocks under this heading, without writing it."""
        self._headings.enter(level, nfc(heading))
        if heading and level == 1 and self.first_heading is None:
            self.first_heading = nfc(heading)

    def paragraph(self, text: str, prefix: str = "") -> None:
        """Write a paragraph of one or more lines; `prefix` marks a quotation."""
        self._append([prefix + line for line in wrap_lines(text)])

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines unchanged, such as list items or verses."""
        self._append(lines)

    def code(self, text: str, language: str = "", *, whole: bool = True) -> None:
        """Write a listing; unless it is `whole`, the chunker may split it."""
        lines = clean(text).split("\n")
        first, last = trim_range(lines, 0, len(lines))
        if first == last:
            return
        longest = max((len(run) for run in _FENCE.findall(text)), default=2)
        fence = "`" * max(3, longest + 1)
        known = language.lower() if _LANGUAGE.fullmatch(language) else ""
        self._append([fence + known, *lines[first:last], fence], atomic=whole)

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Write a table, one line for each row."""
        cleaned = ([one_line(cell) for cell in row] for row in rows)
        self._append([" | ".join(row).rstrip() for row in cleaned if any(row)], atomic=True)

    def append_missing(self, texts: Iterable[str], *known: str) -> None:
        """Append texts that have no place in the document, such as metadata and hidden parts.

        A text is omitted if all its words already occur in the document or in the `known` texts.
        """
        pending = [(text, words) for text in texts if (words := set(_words(text)))]
        self.place = None
        present = _words_in(set().union(*(words for _, words in pending)), self.text, *known)
        lines: list[str] = []
        for text, words in pending:
            if words - present:
                present |= words
                lines += wrap_lines(one_line(text))
        self._append(lines)

    def add_blocks(self, lines: Sequence[str], blocks: Iterable[Block]) -> None:
        """Write lines with the given blocks, whose spans refer to `lines`. Their places are inside
        `place`."""
        shift = self._start_paragraph()
        self._lines += lines
        for block in blocks:
            start, end = (block.span.start or 1) + shift, (block.span.end or 1) + shift
            path = self._headings.path + block.heading_path
            span = Span("line", start, end, extra=self._extra(block.span.place))
            self.blocks.append(Block(block.text, span, path, block.atomic, block.boundary))

    def _append(
        self, lines: Iterable[str], *, atomic: bool = False, boundary: bool = False
    ) -> None:
        cleaned = clean("\n".join(lines)).split("\n")
        first, last = trim_range(cleaned, 0, len(cleaned))
        if first == last:
            return
        start = self._start_paragraph()
        self._lines += cleaned[first:last]
        path = self._headings.path
        block = line_block(
            self._lines,
            start,
            len(self._lines),
            heading_path=path,
            atomic=atomic,
            boundary=boundary,
        )
        if block is not None:
            self.blocks.append(replace(block, span=replace(block.span, extra=self._extra())))

    def _extra(self, inner: str | None = None) -> dict[str, Any]:
        """The `extra` fields of a span: the current place, followed by `inner`, a place inside
        it."""
        separator = "" if not self.place or not inner or inner.startswith(("#", ":")) else ", "
        place = (self.place or "") + separator + (inner or "")
        return {"place": place[:_PLACE_CHARS]} if place else {}

    def _start_paragraph(self) -> int:
        """Add a blank line after existing text, and return the number of lines."""
        if self._lines:
            self._lines.append("")
        return len(self._lines)


def _words(text: str) -> list[str]:
    return _WORD.findall(nfc(text).casefold())


def _words_in(words: set[str], *texts: str) -> set[str]:
    """The `words` that occur in one of the texts."""
    whole = nfc("\n".join(texts)).casefold()
    if len(words) > _FEW_WORDS:
        return words.intersection(_WORD.findall(whole))
    return {word for word in words if re.search(rf"\b{re.escape(word)}\b", whole)}


def clean(text: str) -> str:
    """Normalize to NFC and `\\n` line ends; remove control characters and trailing spaces."""
    text = _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    return nfc("\n".join(line.rstrip() for line in text.split("\n")))


def one_line(text: str) -> str:
    """Join the words of `text` with single spaces."""
    return " ".join(_CONTROLS.sub(" ", text).split())


def wrap_lines(text: str) -> list[str]:
    """Split a paragraph into lines, breaking very long ones after a sentence."""
    return [piece for line in text.split("\n") for piece in split_line(line, _LINE_CHARS)]
