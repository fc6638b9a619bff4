"""Splits a page into columns, in reading order.

Pure. A page has columns if a strip of white space divides most of its lines. Lines across the
strip, such as a title or a wide table, divide the page into bands; in each band, the left side
precedes the right one. Each side is examined again, for a third column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median

from kb.ingest.parsers.pdf.lines import Line, Run, group_lines

_DEPTH = 2
_BINS = 256  # across the page, to find the strip
_MIDDLE = (0.15, 0.85)
_MAX_STRIPS = 4  # a table may have a strip of its own
_MIN_WIDTH = 20  # in line heights; a narrower page has no columns

# A table has a strip of white space too. Files almost always store a column contiguously, and a
# table row by row: if the sides alternate, only full lines count as columns.
_MAX_TURNS = 0.08  # per run of words
_CONTIGUOUS = (2, 0.3)  # lines on each side, and the share of the width that they fill
_ALTERNATING = (6, 0.65)
_MIN_LETTERS = 0.6  # among the characters; a table of numbers has fewer
_STRAY_LINES = 2  # that are on one side by chance, such as the last line of a paragraph


@dataclass(slots=True)
class _Band:
    """A part of the page: `wide` lines, or those to the left and to the right of the strip."""

    wide: list[Run] = field(default_factory=list)
    left: list[Run] = field(default_factory=list)
    right: list[Run] = field(default_factory=list)


def split_columns(runs: Sequence[Run]) -> list[list[Line]]:
    """The lines of every column, in reading order."""
    return [group_lines(part) for part in _parts(runs, _DEPTH)]


def _parts(runs: Sequence[Run], depth: int) -> list[list[Run]]:
    if depth and len(runs) >= 4:
        lines, height = group_lines(runs), _height(runs)
        for strip in _strips(runs, height):
            bands = _bands(lines, strip, height)
            if _are_columns(bands, strip):
                return [part for band in bands for part in _sides(band, depth - 1)]
    return [list(runs)] if runs else []


def _sides(band: _Band, depth: int) -> list[list[Run]]:
    return [part for side in (band.wide, band.left, band.right) for part in _parts(side, depth)]


def _height(runs: Iterable[Run]) -> float:
    return median(run.height for run in runs)


def _strips(runs: Sequence[Run], height: float) -> list[float]:
    """The positions that few runs cross, away from the edges; the best ones first."""
    left, right = min(run.x0 for run in runs), max(run.x1 for run in runs)
    if right - left < max(_MIN_WIDTH * height, 1.0):
        return []
    scale = _BINS / (right - left)
    steps = [0] * (_BINS + 2)
    for run in runs:
        steps[int((run.x0 - left) * scale)] += 1
        steps[int((run.x1 - left) * scale) + 1] -= 1
    covered = list(accumulate(steps[:_BINS]))
    minima = _minima(covered, int(_BINS * _MIDDLE[0]), int(_BINS * _MIDDLE[1]))
    places = [left + place / scale for place in minima[:_MAX_STRIPS]]
    return [place for place in places if sum(run.x0 > place for run in runs) > 1]


def _minima(covered: Sequence[int], first: int, last: int) -> list[float]:
    """The centers of the local minima from `first` to `last`, ordered from the lowest and, among
    equals, from the widest."""
    minima, start = [], first
    for place in range(first + 1, last + 1):
        if place < last and covered[place] == covered[start]:
            continue
        if covered[start] < min(covered[start - 1], covered[place]):
            minima.append((covered[start], start - place, (start + place) / 2))
        start = place
    return [middle for *_, middle in sorted(minima)]


def _bands(lines: Iterable[Line], strip: float, margin: float) -> list[_Band]:
    """Divide the lines into bands. A run that extends into the strip by less than `margin` is not
    wide."""
    bands = [_Band()]
    for line in lines:
        wide = any(run.x0 < strip - margin and run.x1 > strip + margin for run in line.runs)
        if wide != bool(bands[-1].wide) and (wide or bands[-1].wide):
            bands.append(_Band())
        if wide:
            bands[-1].wide.extend(line.runs)
            continue
        for run in line.runs:
            side = bands[-1].left if run.x0 + run.x1 < 2 * strip else bands[-1].right
            side.append(run)
    return _absorb_strays([band for band in bands if band.wide or band.left or band.right])


def _absorb_strays(bands: Iterable[_Band]) -> list[_Band]:
    """Merge bands with text on one side only into the wide band above them, if they have few lines
    or are wide."""
    kept: list[_Band] = []
    for band in bands:
        one_sided = not (band.left and band.right)
        if kept and kept[-1].wide and one_sided:
            few = len(group_lines(band.left + band.right)) <= _STRAY_LINES
            if few or band.wide:
                kept[-1].wide += band.wide + band.left + band.right
                continue
        kept.append(band)
    return kept


def _are_columns(bands: Sequence[_Band], strip: float) -> bool:
    """Whether the bands form columns. If they do, the other bands become wide."""
    contiguous = [band for band in bands if not _alternates(band)]
    if _fill_columns(contiguous, strip, *_CONTIGUOUS):
        for band in bands:
            if _alternates(band):
                band.wide, band.left, band.right = band.left + band.right, [], []
        return True
    return _fill_columns(bands, strip, *_ALTERNATING)


def _fill_columns(
    bands: Iterable[_Band], strip: float, least_lines: int, least_filled: float
) -> bool:
    left: list[Line] = []
    right: list[Line] = []
    for band in bands:
        lines = group_lines(band.left), group_lines(band.right)
        if min(map(len, lines)) > 1:  # a single line proves nothing
            left += lines[0]
            right += lines[1]
    if min(len(left), len(right)) < least_lines:
        return False
    filled = min(
        _filled_share(left, strip - min(line.x0 for line in left)),
        _filled_share(right, max(line.x1 for line in right) - strip),
    )
    return filled >= least_filled and _is_prose(left) and _is_prose(right)


def _alternates(band: _Band) -> bool:
    """Whether the order of the file alternates between the two sides, instead of finishing one
    first."""
    left = [(run.order, "left") for run in band.left]
    right = [(run.order, "right") for run in band.right]
    turns = sum(one[1] != other[1] for one, other in pairwise(sorted(left + right)))
    return turns > 1 + _MAX_TURNS * (len(left) + len(right))


def _is_prose(lines: Iterable[Line]) -> bool:
    characters = "".join([line.text for line in lines]).replace(" ", "")
    return sum(map(str.isalpha, characters)) >= _MIN_LETTERS * len(characters)


def _filled_share(lines: Sequence[Line], width: float) -> float:
    """The share of a side that its lines fill, on average."""
    return sum(run.width for line in lines for run in line.runs) / (len(lines) * max(width, 1.0))
