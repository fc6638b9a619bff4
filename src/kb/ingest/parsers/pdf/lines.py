"""Words into runs, and runs into lines: what stands side by side on a page.

Pure. A run is a stretch of words without a wide gap; it is never wider than a column, a table's
cell or a label. Which runs make a line together depends on the columns, which are found later.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kb.ingest.parsers.pdf.pages import HYPHEN_MARKS, Word

# Gaps in heights of a line, which is about 1.2 em: words stand closer, columns farther apart.
_WIDEST_SPACE = 0.8
_FARTHEST_BACK = 0.5
_SAME_LINE = 0.5  # of the smaller one's height lies beside the other

_LIGATURES = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
}  # fmt: skip
_HYPHENS = dict.fromkeys((*HYPHEN_MARKS, "\u2010", "\u2011"), "-")
_BULLETS = {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "▸"}  # as Symbol and Wingdings have them
_CONTROLS = {chr(code): None for code in (*range(32), *range(127, 160), 0xFEFF, 0xFFFF)}
_CLEAN = str.maketrans({**_CONTROLS, **_LIGATURES, **_HYPHENS, **_BULLETS})
_SOFT_HYPHEN = "\xad"
_INNER_MARK = re.compile(rf"(?<=[{HYPHEN_MARKS}]) ")

# Accents that were set as signs of their own before their letter, as older TeX does. In words only:
# in formulas they stand over the letter before them as often.
_COMBINING = {
    "´": "\u0301", "ˆ": "\u0302", "˜": "\u0303", "¨": "\u0308", "˚": "\u030a", "˝": "\u030b",
    "ˇ": "\u030c", "˘": "\u0306", "¯": "\u0304",
}  # fmt: skip
_ACCENTED = re.compile(
    rf"([{''.join(_COMBINING)}])([^\W\d_])(?:(?=[^\W\d_])|(?<=[^\W\d_]{{2}}..))", re.DOTALL
)
# The same with air around the sign: N ¨ urnberg.
_AIRY_ACCENT = re.compile(rf"(?<=[^\W\d_]) ([{''.join(_COMBINING)}]) (?=[^\W\d_]{{2}})")


class Boxed(Protocol):
    @property
    def top(self) -> float: ...
    @property
    def bottom(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of words. `top` and `bottom` are those of its longest word, so that signs above
    and below the line do not move it; `head` is the width of its first word; `order` is its place
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
    """Runs that stand side by side, as one text."""

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


def runs_of(words: Iterable[Word]) -> list[Run]:
    """Of upright words, in the order of the file."""
    stretches: list[list[Word]] = []
    for word in words:
        if stretches and _goes_on(stretches[-1][-1], word):
            stretches[-1].append(word)
        else:
            stretches.append([word])
    runs = (_run(stretch, order) for order, stretch in enumerate(stretches))
    return [run for run in runs if run.text]


def lines_of(runs: Iterable[Run]) -> list[Line]:
    """From top to bottom."""
    rows: list[list[Run]] = []
    longest: Run | None = None  # of the last row: what others are compared with
    for run in sorted(runs, key=lambda run: (run.top + run.bottom, run.x0)):
        if longest is not None and beside(longest, run):
            rows[-1].append(run)
            longest = max(longest, run, key=lambda run: run.width)
        else:
            rows.append([run])
            longest = run
    return [_line(row) for row in rows]


def beside(one: Boxed, other: Boxed) -> bool:
    """Whether two boxes are on the same line."""
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    return shared > _SAME_LINE * min(one.bottom - one.top, other.bottom - other.top)


def clean(text: str) -> str:
    """NFC, without ligatures, control characters, and soft hyphens but for one at the end, which
    is how many files have the hyphen of a word that goes on."""
    text = _INNER_MARK.sub("", text).translate(_CLEAN)
    if not text.isascii():
        text = _AIRY_ACCENT.sub(r"\1", _without_halves(text))
        text = _ACCENTED.sub(_composed, text)
        text = text[:-1].replace(_SOFT_HYPHEN, "") + text[-1:].replace(_SOFT_HYPHEN, "-")
    return unicodedata.normalize("NFC", text).strip()


def one_line(text: str) -> str:
    """A text of several lines as one, `clean`."""
    return " ".join(clean(" ".join(text.split())).split())


def _without_halves(text: str) -> str:
    """Where PDFium gives UTF-16, the halves of a character are put together; single ones go."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _composed(found: re.Match[str]) -> str:
    letter = {"ı": "i", "ȷ": "j"}.get(found[2], found[2])
    composed = unicodedata.normalize("NFC", letter + _COMBINING[found[1]])
    return composed if len(composed) == 1 else found[0]


def _goes_on(word: Word, following: Word) -> bool:
    height = max(word.bottom - word.top, following.bottom - following.top)
    gap = following.x0 - word.x1
    return -_FARTHEST_BACK * height <= gap <= _WIDEST_SPACE * height and beside(word, following)


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
    if len(row) == 1:  # nearly always
        run = row[0]
        return Line((run,), run.text, run.x0, run.x1, run.top, run.bottom, run.head)
    runs = sorted(row, key=lambda run: run.x0, reverse=_from_the_right(row))
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


def _from_the_right(row: Sequence[Run]) -> bool:
    """Whether most letters are of a script that is written so."""
    text = "".join([run.text for run in row])
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(char) for char in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")
