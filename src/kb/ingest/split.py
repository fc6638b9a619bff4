"""Splits a text that is too long for one chunk at the best available place.

Pure. Prefers paragraphs, then lines, then sentences, then spaces, then other marks between words.
Only a word that is longer than a chunk is cut. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# The end of a sentence with closing quotes or brackets. In CJK, no space follows it.
_SENTENCE = re.compile(r"""(?:[.!?…]["'”’)\]]*(?=\s)|[。！？｡][”’」』）】]*)""")
_SPACE = re.compile(r"\s+")
_BETWEEN = re.compile(r"\W+")  # such as the commas of a list without spaces
_MARKS = 16  # how far to step back to keep combining marks with their letter


class Piece(NamedTuple):
    """Lines `first` to `last` of the text, counted from 0; `broken` if it is a part of one line."""

    text: str
    first: int
    last: int
    broken: bool = False


def split_text(text: str, limit: int) -> Iterator[Piece]:
    """Split `text` into paragraphs, long ones into lines, and long lines into pieces."""
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
                pieces = split_line(lines[number], limit)
                yield from (Piece(piece, number, number, broken=True) for piece in pieces)


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = 0
    for number, line in enumerate((*lines, "")):
        if not line.strip():
            if start < number:
                yield start, number
            start = number + 1


def split_line(line: str, limit: int) -> Iterator[str]:
    """Split a line into pieces of at most `limit` characters, without surrounding spaces."""
    start = 0
    while start < len(line):
        end = _end(line, start, limit)
        if piece := line[start:end].strip():
            yield piece
        start = end


def _end(line: str, start: int, limit: int) -> int:
    """Where the piece that begins at `start` ends: at a boundary in its second half, if any."""
    stop = start + limit
    if stop >= len(line):
        return len(line)
    half = start + limit // 2
    for pattern in (_SENTENCE, _SPACE):
        # One character beyond the limit, so that a sentence may end exactly there.
        ends = [match.end() for match in pattern.finditer(line, half, stop + 1)]
        if ends := [end for end in ends if start < end <= stop]:
            return ends[-1]
    # Search the first half too, because a word that is cut is in no chunk. Vowel signs and accents
    # match as well, but belong to a word.
    ends = [match.end() for match in _BETWEEN.finditer(line, start, stop)]
    if ends := [end for end in ends if unicodedata.category(line[end - 1])[0] != "M"]:
        return ends[-1]
    for back in range(stop, max(stop - _MARKS, start + 1), -1):
        if not unicodedata.combining(line[back]):
            return back
    return stop
