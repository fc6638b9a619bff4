"""Blocks from line ranges: what the parsers of line-based formats share.

Ranges count from 0 with the end left out, as Python has it; spans count from 1, ends included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb.types import Block, Span


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
