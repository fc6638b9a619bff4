"""Separates page furniture (running headers, footers and page numbers) from the text.

Pure. Furniture would break paragraphs and repeat in every passage, so it is moved, but its words
stay on the page: `Page.furniture` holds them, to follow the text.

Only the outermost lines of a page are examined. A line is furniture if the same line is at the same
height on nearby pages; nearby, since the headers of a book change with its chapters. Lines with
different numbers are the same only if a number counts the pages: the rows of a form on every page
(`Invoice 4711`, `Total 1,204.50`) are text. A page that would have no text left keeps all lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median

from kb.ingest.parsers.pdf.lines import Line

_EDGE_LINES = 3  # at the top and at the bottom
_NEARBY_PAGES = 12
# Occurrences on nearby pages that make a line furniture; one is enough for the outermost line.
_MIN_REPEATS = 2
_MIN_PAGES = 3  # in shorter documents, no line is furniture
_MAX_SIZE = 1.15  # times the usual size; a larger line is a heading, such as `Chapter 2`
_SAME_HEIGHT = 0.5  # of a line's height
_MIN_GAP = 1.8  # in line heights, between a bare page number and the text
_MAX_DIGITS = 4  # of a page number
_FRONT_PAGES = 60  # by which a page number may differ from the position in the file

_DIGITS = re.compile(r"\d+")
_NO_LETTERS = re.compile(r"[\d\s]+")
_NUMBER = re.compile(
    r"[-–—|\[(\s]*(?:(?:page|seite|p\.|s\.)\s*)?(?:\d{1,4}|[ivxlc]{1,7})"
    r"(?:\s*(?:of|von|de|/)\s*\d{1,4})?[-–—|\])\s]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a page from top to bottom, and the furniture that no earlier page has."""

    body: list[Line]
    furniture: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    page: int
    height: float
    numbers: tuple[str, ...]


def split_furniture(pages: Sequence[Sequence[Line]]) -> list[Page]:
    """Split the lines of every page, given from top to bottom, into text and furniture."""
    places: dict[str, list[_Place]] = defaultdict(list)
    for number, lines in enumerate(pages if len(pages) >= _MIN_PAGES else ()):
        for index in _edges(lines):
            line = lines[index]
            places[_pattern(line)].append(_Place(number, line.bottom, _numbers(line)))
    usual = [median(line.height for line in lines) for lines in pages if lines]
    largest = _MAX_SIZE * median(usual) if usual else 0.0
    kept: set[str] = set()
    return [_split_page(number, lines, places, largest, kept) for number, lines in enumerate(pages)]


def _edges(lines: Sequence[Line]) -> list[int]:
    count = len(lines)
    return [i for i in range(count) if i < _EDGE_LINES or i >= count - _EDGE_LINES]


def _pattern(line: Line) -> str:
    return _NO_LETTERS.sub("", line.text).casefold()


def _numbers(line: Line) -> tuple[str, ...]:
    return tuple(_DIGITS.findall(line.text))


def _split_page(
    number: int,
    lines: Sequence[Line],
    places: dict[str, list[_Place]],
    largest: float,
    kept: set[str],
) -> Page:
    furniture = set()
    for index in _edges(lines):
        line = lines[index]
        enough = 1 if index in (0, len(lines) - 1) else _MIN_REPEATS
        repeats = _pages_with(line, number, places[_pattern(line)]) >= enough
        if line.height <= largest and (repeats or _is_page_number(lines, index)):
            furniture.add(index)
    if len(furniture) == len(lines):
        return Page(list(lines))
    page = Page([line for index, line in enumerate(lines) if index not in furniture])
    for index in sorted(furniture):
        if text := _new_words(lines[index], number + 1, kept):
            page.furniture.append(text)
    return page


def _new_words(line: Line, number: int, kept: set[str]) -> str:
    """The line without the runs that are already `kept`. A bare page number is always new. A line
    with another number may belong to a series of forms, so it stays whole."""
    texts = [run.text for run in line.runs] if _has_page_number(line, number) else [line.text]
    new = [text for text in texts if text not in kept or _NUMBER.fullmatch(text)]
    kept.update(new)
    return " ".join(new)


def _has_page_number(line: Line, number: int) -> bool:
    short = (text for text in _numbers(line) if len(text) <= _MAX_DIGITS)
    return any(abs(int(text) - number) <= _FRONT_PAGES for text in short)


def _pages_with(line: Line, number: int, places: Sequence[_Place]) -> int:
    """The number of nearby pages that have the line at the same height."""
    near, numbers = line.height * _SAME_HEIGHT, _numbers(line)
    first = bisect_left(places, _Place(number - _NEARBY_PAGES, -inf, ()))
    last = bisect_left(places, _Place(number + _NEARBY_PAGES, inf, ()))
    return len(
        {
            place.page
            for place in places[first:last]
            if place.page != number
            and abs(place.height - line.bottom) <= near
            and _count_pages(numbers, place.numbers, place.page - number)
        }
    )


def _count_pages(one: Sequence[str], other: Sequence[str], pages: int) -> bool:
    """Whether the numbers of two lines that are `pages` apart are equal or count the pages."""
    if len(one) != len(other):
        return False
    pairs = [(here, there) for here, there in zip(one, other, strict=True) if here != there]
    return all(
        max(len(here), len(there)) <= _MAX_DIGITS and int(there) - int(here) == pages
        for here, there in pairs
    )


def _is_page_number(lines: Sequence[Line], index: int) -> bool:
    """Whether the line is an outermost bare number, apart from the text."""
    line = lines[index]
    if index not in (0, len(lines) - 1) or not _NUMBER.fullmatch(line.text):
        return False
    if len(lines) == 1:
        return False
    near = lines[1] if index == 0 else lines[-2]
    return abs(near.bottom - line.bottom) > _MIN_GAP * max(line.height, near.height)
