"""The columns of a page, and the order in which a reader takes them.

Pure. A page has columns where a strip of white parts most of its lines. What lies across the strip
(a title, a wide table) parts the page into bands; in each band the left side is read before the
right one. Sides are looked at again, for a third column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median

from kb.ingest.parsers.pdf.lines import Line, Run, lines_of

_DEPTH = 2
_BINS = 256  # across the page, to look for the strip in
_MIDDLE = (0.15, 0.85)
_TRIED = 4  # a table on the page may have a strip of its own
_LEAST_WIDTH = 20  # heights of a line; what is narrower has no columns

# A table has a strip of white too. Files nearly always have the text of a column in one go, and a
# table row by row: where the sides take turns, it takes lines that fill them to be columns.
_FEW_TURNS = 0.08  # per run of words
_IN_ONE_GO = (2, 0.3)  # lines on either side, and how much of its width they fill
_TAKING_TURNS = (6, 0.65)
_LETTERS = 0.6  # of what is written; a table of numbers has fewer
_STRAY_LINES = 2  # that lie on one side by chance, as the last line of a paragraph does


@dataclass(slots=True)
class _Band:
    """A stretch of the page: `wide` lines, or those to the left and to the right of the strip."""

    wide: list[Run] = field(default_factory=list)
    left: list[Run] = field(default_factory=list)
    right: list[Run] = field(default_factory=list)


def columns_of(runs: Sequence[Run]) -> list[list[Line]]:
    """The lines of every column, in reading order."""
    return [lines_of(part) for part in _parts(runs, _DEPTH)]


def _parts(runs: Sequence[Run], depth: int) -> list[list[Run]]:
    if depth and len(runs) >= 4:
        lines, height = lines_of(runs), _height(runs)
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
    """Where few runs lie across, away from the edges; the best ones first."""
    left, right = min(run.x0 for run in runs), max(run.x1 for run in runs)
    if right - left < max(_LEAST_WIDTH * height, 1.0):
        return []
    scale = _BINS / (right - left)
    steps = [0] * (_BINS + 2)
    for run in runs:
        steps[int((run.x0 - left) * scale)] += 1
        steps[int((run.x1 - left) * scale) + 1] -= 1
    covered = list(accumulate(steps[:_BINS]))
    lows = _lows(covered, int(_BINS * _MIDDLE[0]), int(_BINS * _MIDDLE[1]))
    places = [left + place / scale for place in lows[:_TRIED]]
    return [place for place in places if sum(run.x0 > place for run in runs) > 1]


def _lows(covered: Sequence[int], first: int, last: int) -> list[float]:
    """The middles of the stretches from `first` to `last` that are lower than what is beside them;
    the lowest first, and of those the longest."""
    lows, start = [], first
    for place in range(first + 1, last + 1):
        if place < last and covered[place] == covered[start]:
            continue
        if covered[start] < min(covered[start - 1], covered[place]):
            lows.append((covered[start], start - place, (start + place) / 2))
        start = place
    return [middle for *_, middle in sorted(lows)]


def _bands(lines: Iterable[Line], strip: float, margin: float) -> list[_Band]:
    """A formula that sticks out into the strip by less than `margin` is not wide."""
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
    return _without_strays([band for band in bands if band.wide or band.left or band.right])


def _without_strays(bands: Iterable[_Band]) -> list[_Band]:
    """A line or two on one side below wide ones belong to those."""
    kept: list[_Band] = []
    for band in bands:
        one_sided = not (band.left and band.right)
        if kept and kept[-1].wide and one_sided:
            few = len(lines_of(band.left + band.right)) <= _STRAY_LINES
            if few or band.wide:
                kept[-1].wide += band.wide + band.left + band.right
                continue
        kept.append(band)
    return kept


def _are_columns(bands: Sequence[_Band], strip: float) -> bool:
    """Whether the bands have columns. Those that do not, on a page where others do, become wide."""
    in_one_go = [band for band in bands if not _takes_turns(band)]
    if _fill_columns(in_one_go, strip, *_IN_ONE_GO):
        for band in bands:
            if _takes_turns(band):
                band.wide, band.left, band.right = band.left + band.right, [], []
        return True
    return _fill_columns(bands, strip, *_TAKING_TURNS)


def _fill_columns(
    bands: Iterable[_Band], strip: float, least_lines: int, least_filled: float
) -> bool:
    left: list[Line] = []
    right: list[Line] = []
    for band in bands:
        lines = lines_of(band.left), lines_of(band.right)
        if min(map(len, lines)) > 1:  # a single line says nothing
            left += lines[0]
            right += lines[1]
    if min(len(left), len(right)) < least_lines:
        return False
    filled = min(
        _filled(left, strip - min(line.x0 for line in left)),
        _filled(right, max(line.x1 for line in right) - strip),
    )
    return filled >= least_filled and _is_prose(left) and _is_prose(right)


def _takes_turns(band: _Band) -> bool:
    """Whether the file goes over to the other side more often than once."""
    left = [(run.order, "left") for run in band.left]
    right = [(run.order, "right") for run in band.right]
    turns = sum(one[1] != other[1] for one, other in pairwise(sorted(left + right)))
    return turns > 1 + _FEW_TURNS * (len(left) + len(right))


def _is_prose(lines: Iterable[Line]) -> bool:
    signs = "".join([line.text for line in lines]).replace(" ", "")
    return sum(map(str.isalpha, signs)) >= _LETTERS * len(signs)


def _filled(lines: Sequence[Line], width: float) -> float:
    """How much of a side its lines take up, on average."""
    return sum(run.width for line in lines for run in line.runs) / (len(lines) * max(width, 1.0))
