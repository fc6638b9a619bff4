"""Blocks from ranges of lines, for the parsers of line-based markup.

A parser lists its headings and atomic parts; the lines between them become paragraphs. Ranges count
from 0 and exclude their end, as in Python; spans count from 1 and include their end.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kb.types import Block, Span

HEADING_CHARS = 500  # a longer line is not a heading


@dataclass(frozen=True, slots=True)
class Part:
    """The range of lines from `start` to `end`: a heading if it has a `level`, otherwise a
    paragraph or an `atomic` part."""

    start: int
    end: int
    level: int = 0
    heading: str = ""
    atomic: bool = False


class HeadingStack:
    """The headings above the current position of a document."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._entries)

    def enter(self, level: int, heading: str) -> None:
        """Leave the sections of this level and below it; enter that of `heading`, unless it is
        empty."""
        while self._entries and self._entries[-1][0] >= level:
            self._entries.pop()
        if heading:
            self._entries.append((level, heading))


def blocks(lines: Sequence[str], parts: Iterable[Part]) -> Iterator[Block]:
    """Yield blocks that together contain every non-blank line once. `parts` are in order and do not
    overlap."""
    headings = HeadingStack()
    for part in _fill_gaps(lines, parts):
        if part.level:
            headings.enter(part.level, part.heading)
        block = line_block(
            lines,
            part.start,
            part.end,
            heading_path=headings.path,
            atomic=part.atomic,
            boundary=bool(part.level),
        )
        if block is not None:
            yield block


def _fill_gaps(lines: Sequence[str], parts: Iterable[Part]) -> Iterator[Part]:
    cursor = 0
    for part in parts:
        yield from (Part(start, end) for start, end in paragraphs(lines, cursor, part.start))
        yield part
        cursor = part.end
    yield from (Part(start, end) for start, end in paragraphs(lines, cursor, len(lines)))


def first_heading(parts: Iterable[Part]) -> str | None:
    """The text of the first heading, if any."""
    return next((part.heading for part in parts if part.level and part.heading), None)


def indent_of(line: str) -> int:
    """The width of the indentation of `line`, in columns."""
    line = line.expandtabs(8)
    return len(line) - len(line.lstrip())


def indented_end(lines: Sequence[str], start: int, indent: int) -> int:
    """The end of the lines from `start` on that are indented by more than `indent`."""
    end = start
    for number in range(start, len(lines)):
        if not lines[number].strip():
            continue
        if indent_of(lines[number]) <= indent:
            break
        end = number + 1
    return end


def width_of(text: str) -> int:
    """The width of `text` in columns: two for a Chinese character, none for an accent."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


# --- ranges of lines ------------------------------------------------------------------------------


def trim_range(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Drop the blank lines at both ends of a range; it becomes empty if all are blank."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def paragraphs(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges between blank lines, from `start` to `end`."""
    first = None
    for number in range(start, end):
        if lines[number].strip():
            first = number if first is None else first
        elif first is not None:
            yield first, number
            first = None
    if first is not None:
        yield first, end


def line_block(
    lines: Sequence[str],
    start: int,
    end: int,
    *,
    heading_path: tuple[str, ...] = (),
    atomic: bool = False,
    boundary: bool = False,
) -> Block | None:
    """The lines as a block, without blank lines at its ends; None if all are blank."""
    start, end = trim_range(lines, start, end)
    if start == end:
        return None
    span = Span("line", start + 1, end)
    return Block("\n".join(lines[start:end]), span, heading_path, atomic, boundary)
