"""Text taken out of a format that is not text itself: a web page, an office file, a mail.

What the parsers of such formats write into, in reading order. The text looks like Markdown, and
every block is a range of its lines, so that a citation can be opened in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kb.ingest.parser_support.sections import line_block, trimmed
from kb.ingest.split import split_line
from kb.text.normalize import nfc
from kb.types import Block, Span

# A paragraph is one line, unless it is so long that a citation of that line would say little.
_LINE_CHARS = 800
_HEADING_CHARS = 500
# What no text has a use for, and what some programs take for the end of a line.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff]")
_FENCE = re.compile(r"^[ \t]*+(`{3,})", re.MULTILINE)
_WORD = re.compile(r"\w+")
_FEW_WORDS = 20  # are looked for one by one, which is faster than to read all of a text's words
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


class Extract:
    """A text in the making, with its blocks."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._above: list[tuple[int, str]] = []
        self.blocks: list[Block] = []
        self.first_heading: str | None = None  # of the first level

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the text itself: bytes that are no characters in its encoding."""
        count = self.text.count("\ufffd")
        return [f"{count:,} characters cannot be decoded: they are read as \ufffd"] * bool(count)

    def heading(self, level: int, text: str) -> None:
        words = one_line(text)
        if not words:
            return
        self.enter(level, words[:_HEADING_CHARS].rstrip())
        if len(words) <= _HEADING_CHARS:
            self._put([f"{'#' * level} {words}"], boundary=True)
        else:  # no heading that anybody wrote
            self._put(wrap_lines(words), boundary=True)

    def enter(self, level: int, heading: str) -> None:
        """What follows stands under this heading, which is written already, or is nowhere."""
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if heading:
            self._above.append((level, nfc(heading)))
            if level == 1 and self.first_heading is None:
                self.first_heading = nfc(heading)

    def paragraph(self, text: str, prefix: str = "") -> None:
        """A paragraph of one or more lines; `prefix` marks a quotation."""
        self._put([prefix + line for line in wrap_lines(text)])

    def lines(self, lines: Iterable[str]) -> None:
        """Lines that stay as they are: the items of a list, verses."""
        self._put(lines)

    def code(self, text: str, language: str = "", *, whole: bool = True) -> None:
        """A listing; one that is not kept `whole` may be cut into several passages."""
        lines = clean(text).split("\n")
        first, last = trimmed(lines, 0, len(lines))
        if first == last:
            return
        longest = max((len(run) for run in _FENCE.findall(text)), default=2)
        fence = "`" * max(3, longest + 1)
        known = language.lower() if _LANGUAGE.fullmatch(language) else ""
        self._put([fence + known, *lines[first:last], fence], atomic=whole)

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        cleaned = ([one_line(cell) for cell in row] for row in rows)
        self._put([" | ".join(row).rstrip() for row in cleaned if any(row)], atomic=True)

    def rest(self, texts: Iterable[str], *known: str) -> None:
        """Texts that have no place in the text stand at its end. Those whose words are all in it,
        or in the `known` texts, add nothing and are left out."""
        waiting = [(text, words) for text in texts if (words := set(_words(text)))]
        present = _present(set().union(*(words for _, words in waiting)), self.text, *known)
        lines: list[str] = []
        for text, words in waiting:
            if words - present:
                present |= words
                lines += wrap_lines(one_line(text))
        self._put(lines)

    def add(self, lines: Sequence[str], blocks: Iterable[Block]) -> None:
        """Lines with blocks of their own, whose spans count in `lines`."""
        shift = self._gap()
        self._lines += lines
        for block in blocks:
            start, end = (block.span.start or 1) + shift, (block.span.end or 1) + shift
            path = tuple(text for _, text in self._above) + block.heading_path
            span = Span("line", start, end)
            self.blocks.append(Block(block.text, span, path, block.atomic, block.boundary))

    def _put(self, lines: Iterable[str], *, atomic: bool = False, boundary: bool = False) -> None:
        cleaned = clean("\n".join(lines)).split("\n")
        first, last = trimmed(cleaned, 0, len(cleaned))
        if first == last:
            return
        start = self._gap()
        self._lines += cleaned[first:last]
        path = tuple(text for _, text in self._above)
        block = line_block(
            self._lines,
            start,
            len(self._lines),
            heading_path=path,
            atomic=atomic,
            boundary=boundary,
        )
        if block is not None:
            self.blocks.append(block)

    def _gap(self) -> int:
        """A blank line after what is there; how many lines there are then."""
        if self._lines:
            self._lines.append("")
        return len(self._lines)


def _words(text: str) -> list[str]:
    return _WORD.findall(nfc(text).casefold())


def _present(words: set[str], *texts: str) -> set[str]:
    """Those of `words` that are in one of the texts."""
    whole = nfc("\n".join(texts)).casefold()
    if len(words) > _FEW_WORDS:
        return words.intersection(_WORD.findall(whole))
    return {word for word in words if re.search(rf"\b{re.escape(word)}\b", whole)}


def clean(text: str) -> str:
    """`text` in NFC, its lines ended by `\\n`, without control characters and without spaces at
    the ends of its lines."""
    text = _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    return nfc("\n".join(line.rstrip() for line in text.split("\n")))


def one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())


def wrap_lines(text: str) -> list[str]:
    """The lines of a paragraph, very long ones broken after a sentence."""
    return [piece for line in text.split("\n") for piece in split_line(line, _LINE_CHARS)]
