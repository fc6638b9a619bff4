"""Cutting a text that is too long for one chunk, where it hurts least.

Pure. Between paragraphs, else between lines, else in a line: after a sentence, between words, and
at last between any two characters. Linear in the length of the text, whatever it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# What ends a sentence, with what may close behind it. CJK needs no space after it.
_SENTENCE = re.compile(r"""(?:[.!?…]["'”’)\]]*(?=\s)|[。！？｡][”’」』）】]*)""")
_SPACE = re.compile(r"\s+")
_MARKS = 16  # how far to step back so as not to cut off an accent


class Piece(NamedTuple):
    """Lines `first` to `last` of the text, from 0; `broken` when it is a part of one line."""

    text: str
    first: int
    last: int
    broken: bool = False


def cut(text: str, limit: int) -> Iterator[Piece]:
    """`text` as paragraphs; those longer than `limit` as lines; those as pieces of lines."""
    lines = text.split("\n")
    for start, end in _paragraphs(lines):
        paragraph = "\n".join(lines[start:end])
        if len(paragraph) <= limit:
            yield Piece(paragraph, start, end - 1)
            continue
        for number in range(start, end):
            if len(lines[number]) <= limit:
                yield Piece(lines[number], number, number)
            else:
                pieces = cut_line(lines[number], limit)
                yield from (Piece(piece, number, number, broken=True) for piece in pieces)


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = 0
    for number, line in enumerate((*lines, "")):
        if not line.strip():
            if start < number:
                yield start, number
            start = number + 1


def cut_line(line: str, limit: int) -> Iterator[str]:
    """A line in pieces of at most `limit` characters, without the spaces around them."""
    start = 0
    while start < len(line):
        end = _end(line, start, limit)
        if piece := line[start:end].strip():
            yield piece
        start = end


def _end(line: str, start: int, limit: int) -> int:
    """Where the piece from `start` ends; in its second half if anything there offers itself."""
    stop = start + limit
    if stop >= len(line):
        return len(line)
    half = start + limit // 2
    for pattern in (_SENTENCE, _SPACE):
        # One character more is seen, so that a sentence may end exactly at the limit.
        ends = [found.end() for found in pattern.finditer(line, half, stop + 1)]
        if ends := [end for end in ends if start < end <= stop]:
            return ends[-1]
    for back in range(stop, max(stop - _MARKS, start + 1), -1):
        if not unicodedata.combining(line[back]):
            return back
    return stop
