"""Blocks from the structure of a text format: what its headings and its atomic parts are.

Serves the parsers of markup that is read by lines. They say where headings and parts that must not
be cut stand; all that lies between goes by paragraph.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kb.types import Block, Span

HEADING_CHARS = 500  # a longer heading is not one


@dataclass(frozen=True, slots=True)
class Part:
    """Lines `start` to `end`, counted from 0, the end left out: a heading if there is a `level`,
    else something that is `atomic` or a stretch of text."""

    start: int
    end: int
    level: int = 0
    heading: str = ""
    atomic: bool = False


def blocks(lines: Sequence[str], parts: Iterable[Part]) -> Iterator[Block]:
    """Every line that is not blank, in exactly one block; `parts` are in order, none overlaps."""
    above: list[tuple[int, str]] = []
    for part in _gapless(lines, parts):
        if part.level:
            while above and above[-1][0] >= part.level:
                above.pop()
            above.append((part.level, part.heading))
        block = line_block(
            lines,
            part.start,
            part.end,
            heading_path=tuple(text for _, text in above if text),
            atomic=part.atomic,
            boundary=bool(part.level),
        )
        if block is not None:
            yield block


def _gapless(lines: Sequence[str], parts: Iterable[Part]) -> Iterator[Part]:
    cursor = 0
    for part in parts:
        yield from (Part(start, end) for start, end in paragraphs(lines, cursor, part.start))
        yield part
        cursor = part.end
    yield from (Part(start, end) for start, end in paragraphs(lines, cursor, len(lines)))


def first_heading(parts: Iterable[Part]) -> str | None:
    return next((part.heading for part in parts if part.level and part.heading), None)


def indent_of(line: str) -> int:
    """The columns of space that `line` begins with."""
    line = line.expandtabs(8)
    return len(line) - len(line.lstrip())


def indented_end(lines: Sequence[str], start: int, indent: int) -> int:
    """Where the lines from `start` on end that are indented by more than `indent`."""
    end = start
    for number in range(start, len(lines)):
        if not lines[number].strip():
            continue
        if indent_of(lines[number]) <= indent:
            break
        end = number + 1
    return end


def width_of(text: str) -> int:
    """How many columns `text` takes: a Chinese character takes two, an accent none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


# --- ranges of lines ------------------------------------------------------------------------------


def trimmed(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """The range without blank lines at its ends; empty when all are blank."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def paragraphs(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of `start` to `end` that have no blank line in them."""
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
    """The lines as a block, without the blank ones at its ends; None when there are no others."""
    start, end = trimmed(lines, start, end)
    if start == end:
        return None
    span = Span("line", start + 1, end)
    return Block("\n".join(lines[start:end]), span, heading_path, atomic, boundary)
