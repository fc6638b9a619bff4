"""Groups words into runs, and runs into lines.

Pure. A run is a sequence of words without a wide gap; it is never wider than a column, a table cell
or a label. Which runs form a line depends on the columns, which are detected later.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kb.ingest.parsers.pdf.pages import HYPHEN_MARKS, Word

# Gaps in line heights (about 1.2 em): words are closer together, columns farther apart.
_WIDEST_SPACE = 0.8
_FARTHEST_BACK = 0.5
_SAME_LINE = 0.5  # the share of the lower height that overlaps

_LIGATURES = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
}  # fmt: skip
_HYPHENS = dict.fromkeys((*HYPHEN_MARKS, "\u2010", "\u2011"), "-")
_BULLETS = {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "▸"}  # in Symbol and Wingdings
_CONTROLS = {chr(code): None for code in (*range(32), *range(127, 160), 0xFEFF, 0xFFFF)}
_CLEAN = str.maketrans({**_CONTROLS, **_LIGATURES, **_HYPHENS, **_BULLETS})
_SOFT_HYPHEN = "\xad"
_HYPHEN_SPACE = re.compile(rf"(?<=[{HYPHEN_MARKS}]) ")

# Accents typeset as separate characters before their letter, as in older TeX. Only in words: in
# formulas they often belong to the letter before them.
_COMBINING = {
    "´": "\u0301", "ˆ": "\u0302", "˜": "\u0303", "¨": "\u0308", "˚": "\u030a", "˝": "\u030b",
    "ˇ": "\u030c", "˘": "\u0306", "¯": "\u0304",
}  # fmt: skip
_ACCENTED = re.compile(
    rf"([{''.join(_COMBINING)}])([^\W\d_])(?:(?=[^\W\d_])|(?<=[^\W\d_]{{2}}..))", re.DOTALL
)
# The same with spaces around the accent: N ¨ urnberg.
_SPACED_ACCENT = re.compile(rf"(?<=[^\W\d_]) ([{''.join(_COMBINING)}]) (?=[^\W\d_]{{2}})")


class Boxed(Protocol):
    @property
    def top(self) -> float: ...
    @property
    def bottom(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Run:
    """A sequence of words. `top` and `bottom` are those of its longest word, so that superscripts
    and subscripts do not move it; `head` is the width of its first word; `order` is its position
    in the file."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    head: float
    order: int

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def width(self) -> float:
        return self.x1 - self.x0


@dataclass(frozen=True, slots=True)
class Line:
    """Runs on one line, joined as one text."""

    runs: tuple[Run, ...]
    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    head: float

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def width(self) -> float:
        return self.x1 - self.x0


def group_runs(words: Iterable[Word]) -> list[Run]:
    """Group upright words, in file order, into runs."""
    groups: list[list[Word]] = []
    for word in words:
        if groups and _continues(groups[-1][-1], word):
            groups[-1].append(word)
        else:
            groups.append([word])
    runs = (_run(group, order) for order, group in enumerate(groups))
    return [run for run in runs if run.text]


def group_lines(runs: Iterable[Run]) -> list[Line]:
    """Group runs into lines, from top to bottom."""
    rows: list[list[Run]] = []
    longest: Run | None = None  # of the last row, to compare with
    for run in sorted(runs, key=lambda run: (run.top + run.bottom, run.x0)):
        if longest is not None and on_same_line(longest, run):
            rows[-1].append(run)
            longest = max(longest, run, key=lambda run: run.width)
        else:
            rows.append([run])
            longest = run
    return [_line(row) for row in rows]


def on_same_line(one: Boxed, other: Boxed) -> bool:
    """Whether two boxes are on the same line."""
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    return shared > _SAME_LINE * min(one.bottom - one.top, other.bottom - other.top)


def clean(text: str) -> str:
    """Convert `text` to NFC without ligatures, control characters and soft hyphens. A soft hyphen
    at the end becomes a hyphen, since many files break words with it."""
    text = _HYPHEN_SPACE.sub("", text).translate(_CLEAN)
    if not text.isascii():
        text = _SPACED_ACCENT.sub(r"\1", _join_surrogates(text))
        text = _ACCENTED.sub(_compose, text)
        text = text[:-1].replace(_SOFT_HYPHEN, "") + text[-1:].replace(_SOFT_HYPHEN, "-")
    return unicodedata.normalize("NFC", text).strip()


def one_line(text: str) -> str:
    """Join and clean the lines of a text."""
    return " ".join(clean(" ".join(text.split())).split())


def _join_surrogates(text: str) -> str:
    """Combine surrogate pairs, which PDFium returns separately, and drop lone surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _compose(match: re.Match[str]) -> str:
    letter = {"ı": "i", "ȷ": "j"}.get(match[2], match[2])
    composed = unicodedata.normalize("NFC", letter + _COMBINING[match[1]])
    return composed if len(composed) == 1 else match[0]


def _continues(word: Word, following: Word) -> bool:
    height = max(word.bottom - word.top, following.bottom - following.top)
    gap = following.x0 - word.x1
    return -_FARTHEST_BACK * height <= gap <= _WIDEST_SPACE * height and on_same_line(
        word, following
    )


def _run(words: Sequence[Word], order: int) -> Run:
    longest = max(words, key=lambda word: len(word.text))
    return Run(
        text=clean(" ".join([word.text for word in words])),
        x0=min(word.x0 for word in words),
        x1=max(word.x1 for word in words),
        top=longest.top,
        bottom=longest.bottom,
        head=words[0].x1 - words[0].x0,
        order=order,
    )


def _line(row: list[Run]) -> Line:
    if len(row) == 1:  # almost always
        run = row[0]
        return Line((run,), run.text, run.x0, run.x1, run.top, run.bottom, run.head)
    runs = sorted(row, key=lambda run: run.x0, reverse=_is_right_to_left(row))
    longest = max(runs, key=lambda run: run.width)
    return Line(
        runs=tuple(runs),
        text=" ".join([run.text for run in runs]),
        x0=min(run.x0 for run in runs),
        x1=max(run.x1 for run in runs),
        top=longest.top,
        bottom=longest.bottom,
        head=runs[0].head,
    )


def _is_right_to_left(row: Sequence[Run]) -> bool:
    """Whether most letters belong to a right-to-left script."""
    text = "".join([run.text for run in row])
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(char) for char in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")
