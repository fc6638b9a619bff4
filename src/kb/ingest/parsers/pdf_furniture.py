"""What stands on many pages and belongs to none: running headers and footers, page numbers.

Pure. Only the outermost lines of a page are looked at. A line is furniture when it stands at the
same height on other pages nearby, whatever its digits say; nearby, since the headers of a book
change with its chapters.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from math import inf
from statistics import median

from kb.ingest.parsers.pdf_lines import Line

_EDGE_LINES = 3  # at the top and at the bottom
_NEARBY_PAGES = 12
_ELSEWHERE = 2  # other pages nearby that have it, to be furniture; one for the outermost line
_LEAST_PAGES = 3  # of a document that has any
_LARGEST = 1.15  # times the usual size of letters: what is larger is a heading, `Chapter 2`
_SAME_HEIGHT = 0.5  # of a line's height
_APART = 1.8  # heights between a bare page number and the text

_DIGITS = re.compile(r"[\d\s]+")
_NUMBER = re.compile(
    r"[-–—|\[(\s]*(?:(?:page|seite|p\.|s\.)\s*)?(?:\d{1,4}|[ivxlc]{1,7})"
    r"(?:\s*(?:of|von|de|/)\s*\d{1,4})?[-–—|\])\s]*",
    re.IGNORECASE,
)

Place = tuple[int, float]  # a page and a height on it


def without_furniture(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """The lines of every page, from top to bottom, without those that only frame it."""
    places: dict[str, list[Place]] = defaultdict(list)
    for number, lines in enumerate(pages if len(pages) >= _LEAST_PAGES else ()):
        for index in _edges(lines):
            places[_pattern(lines[index])].append((number, lines[index].bottom))
    usual = [median(line.height for line in lines) for lines in pages if lines]
    largest = _LARGEST * median(usual) if usual else 0.0
    return [_body(number, lines, places, largest) for number, lines in enumerate(pages)]


def _edges(lines: Sequence[Line]) -> list[int]:
    count = len(lines)
    return [i for i in range(count) if i < _EDGE_LINES or i >= count - _EDGE_LINES]


def _pattern(line: Line) -> str:
    return _DIGITS.sub("", line.text).casefold()


def _body(
    number: int, lines: Sequence[Line], places: dict[str, list[Place]], largest: float
) -> list[Line]:
    furniture = set()
    for index in _edges(lines):
        line = lines[index]
        enough = 1 if index in (0, len(lines) - 1) else _ELSEWHERE
        repeats = _pages_with(line, number, places[_pattern(line)]) >= enough
        if line.height <= largest and (repeats or _is_page_number(lines, index)):
            furniture.add(index)
    return [line for index, line in enumerate(lines) if index not in furniture]


def _pages_with(line: Line, number: int, places: Sequence[Place]) -> int:
    """How many other pages nearby have the line at the same height."""
    near = line.height * _SAME_HEIGHT
    first = bisect_left(places, (number - _NEARBY_PAGES, -inf))
    last = bisect_left(places, (number + _NEARBY_PAGES, inf))
    return len(
        {
            page
            for page, height in places[first:last]
            if page != number and abs(height - line.bottom) <= near
        }
    )


def _is_page_number(lines: Sequence[Line], index: int) -> bool:
    """A number alone, as the outermost line, and not just the end of the text."""
    line = lines[index]
    if index not in (0, len(lines) - 1) or not _NUMBER.fullmatch(line.text):
        return False
    if len(lines) == 1:
        return False
    near = lines[1] if index == 0 else lines[-2]
    return abs(near.bottom - line.bottom) > _APART * max(line.height, near.height)
