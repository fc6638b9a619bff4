"""Reads pages without readable text by OCR, if its extra is installed.

The lines that OCR finds become words with boxes, so that columns and paragraphs are recognized as
on other pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kb.ingest.parser_support import ocr
from kb.ingest.parsers.pdf.pages import PageText, Pdf, Word

_DPI = 150
_POINTS = 72  # PDF units in an inch
_WORD = re.compile(r"\S+")


class Scanner:
    """Reads pages by OCR; `pages` are the numbers of those that it has read, and `left_out` of
    those beyond the limit."""

    def __init__(self) -> None:
        self.pages: list[int] = []
        self.left_out: list[int] = []
        self._is_available = ocr.is_available()

    def read(self, pdf: Pdf, number: int, page: PageText) -> PageText:
        """Add the text of the page's picture; return the page unchanged if there is none."""
        if not self._is_available:
            return page
        if len(self.pages) >= ocr.MAX_PAGES:
            self.left_out.append(number)
            return page
        scale = _DPI / _POINTS
        image = pdf.render(number - 1, scale)
        words = list(_words(ocr.read_lines(image), scale)) if image is not None else []
        if not words:
            return page
        self.pages.append(number)
        return PageText(words, page.notes)


def _words(lines: Iterable[ocr.TextLine], scale: float) -> Iterator[Word]:
    """Split lines into words, whose boxes are estimated from their place in the line."""
    for line in lines:
        width = (line.x1 - line.x0) / max(len(line.text), 1)
        for match in _WORD.finditer(line.text):
            x0, x1 = (line.x0 + at * width for at in match.span())
            yield Word(match[0], x0 / scale, x1 / scale, line.top / scale, line.bottom / scale)
