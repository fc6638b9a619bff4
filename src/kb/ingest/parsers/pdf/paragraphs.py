"""Lines of a column into paragraphs, with the words that were broken at line ends put together.

Pure. A paragraph begins after a wider gap, with another size of letters, with an indent, with the
mark of a list item, or after a line on which its first word would still have had room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from kb.ingest.parsers.pdf.lines import Line

# In heights of a line, unless said otherwise.
_WIDE_GAP = 1.3  # times the usual distance of lines
_SPACING = 1.2  # the usual one, where there are too few lines to tell
_WIDEST_SPACING = 2.0
_STICKING_OUT = 8  # one line of so many may stick out to the right
_OTHER_SIZE = 1.13  # times
_OTHER_FONT = 1.35  # the same, where a sentence goes on: fonts of one size differ in height
_INDENT = 0.6
_ROOM = 0.6  # to spare besides the first word of the next line
_MUCH_ROOM = 4.0  # the same, after what is not the end of a sentence
_OTHER_WIDTH = 0.2  # of a line
_CENTRED = 0.6  # how far off the middle

_ITEM = re.compile(
    r"(?:[•▪◦‣▸●■]|\[[\w+]{1,8}\]|(?P<number>[–—*-]|\(?(?:\d{1,3}|[a-z])[.)]))(?:\s|$)"
)
_SENTENCE_END = re.compile(r"[.!?:;。！？][\"'”’)\]]*$")
_BROKEN_WORD = re.compile(r"([^\W\d_][\w-]*)-$")
_HYPHENATED = re.compile(r"[^\s-]-$")
_HANGING = frozenset(
    {"and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o", "e"}
)  # two- and
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_LEADERS = re.compile(r"(?:[.·…]\s?){8,}")  # the dots of a table of contents
_UNSPACED = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")

# A compound is only told from a broken word by words of some length: `data-driven`, not `in-deed`.
_COMPOUND_HEAD = 3
_COMPOUND_TAIL = 4


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    height: float  # of its lines: the size of its letters


def paragraphs_of(columns: Iterable[Sequence[Line]], known: Set[str]) -> list[Paragraph]:
    """Of a page, in reading order. `known` are the document's words, to judge hyphens by."""
    found: list[list[Line]] = []
    for lines in columns:
        groups = _grouped(lines)
        at = _continued(found, groups)
        if at is not None:
            found[at] = found[at] + groups.pop(0)
        found += groups
    return [Paragraph(joined(lines, known), _usual_height(lines)) for lines in found]


def words_inside(line: str) -> list[str]:
    """The words of a line that are surely whole: not the first and not the last."""
    return [word.strip(".,;:()[]“”\"'!?") for word in line.lower().split()[1:-1]]


# --- where paragraphs begin -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    left: float
    right: float
    spacing: float  # from line to line, in heights

    def centres(self, *lines: Line) -> bool:
        """Whether all are in the middle, and not just because they fill the column."""
        middle = self.left + self.right
        return all(
            abs(line.x0 + line.x1 - middle) / 2 < _CENTRED * line.height for line in lines
        ) and any(line.x0 - self.left > line.height for line in lines)


def _grouped(lines: Sequence[Line]) -> list[list[Line]]:
    if not lines:
        return []
    steps = [_step(above, below) for above, below in pairwise(lines)]
    ends = sorted(line.x1 for line in lines)
    column = _Column(
        left=min(line.x0 for line in lines),
        right=ends[-1 - len(ends) // _STICKING_OUT],
        spacing=median(steps) if len(steps) >= 4 else _SPACING,
    )
    groups = [[lines[0]]]
    for number, line in enumerate(lines[1:], 1):
        after = lines[number + 1] if number + 1 < len(lines) else None
        if _begins(groups[-1], line, after, column):
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups


def _begins(group: Sequence[Line], line: Line, after: Line | None, column: _Column) -> bool:
    """Whether `line` begins a paragraph, rather than going on with `group`."""
    last = group[-1]
    if _step(last, line) > _WIDE_GAP * min(column.spacing, _WIDEST_SPACING):
        return True
    if _goes_on(last.text, line.text):
        return False
    in_a_sentence = line.text[0].islower() and not _SENTENCE_END.search(last.text)
    if not _same_size(last.height, line.height, _OTHER_FONT if in_a_sentence else _OTHER_SIZE):
        return True
    if _LEADERS.search(last.text) or _LEADERS.search(line.text):
        return True
    if column.centres(last, line):
        return False
    return _is_item(group, line) or _is_indented(group, line, after) or _ended(last, line, column)


def _step(last: Line, line: Line) -> float:
    return (line.bottom - last.bottom) / max(last.height, line.height, 0.1)


def _same_size(one: float, other: float, limit: float = _OTHER_SIZE) -> bool:
    return max(one, other) <= limit * max(min(one, other), 0.1)


def _goes_on(last: str, line: str) -> bool:
    """After a hyphen, or the dash between two numbers: pages 291- | 300."""
    return last[-1] in "-–" and last[-2:-1].isalnum() and (line[0].islower() or line[0].isdigit())


def _is_item(group: Sequence[Line], line: Line) -> bool:
    mark = _ITEM.match(line.text)
    if mark is None or mark["number"] is None:
        return mark is not None
    # A number may also just happen to begin a line.
    first = _ITEM.match(group[0].text)
    among_items = first is not None and first["number"] is not None
    return among_items or bool(_SENTENCE_END.search(group[-1].text))


def _is_indented(group: Sequence[Line], line: Line, after: Line | None) -> bool:
    """An indented first line, or the first line of an entry whose others hang."""
    last, indent = group[-1], _INDENT * line.height
    shift = line.x0 - last.x0
    if shift > indent:
        if len(group) == 1 and _ITEM.match(last.text):
            return False
        if len(group) > 1 or after is None:
            return len(group) > 1 or bool(_SENTENCE_END.search(last.text))
        return after.x0 < line.x0 - indent  # else this is where the lines of the entry hang
    return shift < -indent and len(group) > 1


def _ended(last: Line, line: Line, column: _Column) -> bool:
    """Whether the first word of `line` would have had room on `last`."""
    sentence_ended = bool(_SENTENCE_END.search(last.text))
    if line.text[0].islower() and not sentence_ended:
        return False
    room = _ROOM if sentence_ended else _MUCH_ROOM
    return column.right - last.x1 > line.head + room * line.height


def _continued(found: Sequence[Sequence[Line]], groups: Sequence[Sequence[Line]]) -> int | None:
    """Which paragraph goes on at the top of the next column: the last one in letters of that size,
    for there may be footnotes below it; if its lines are as long."""
    if not groups or not groups[0][0].text[0].islower():
        return None
    line, is_end = groups[0][0], len(groups[0]) == 1 and _SENTENCE_END.search(groups[0][0].text)
    for at in range(len(found) - 1, -1, -1):
        last = found[at][-1]
        if _same_size(last.height, line.height):
            as_long = abs(last.width - line.width) < _OTHER_WIDTH * last.width
            fits = as_long or (is_end and line.width < last.width)
            return at if fits and not _SENTENCE_END.search(last.text) else None
    return None


def _usual_height(lines: Sequence[Line]) -> float:
    return median(line.height for line in lines)


# --- lines into text ------------------------------------------------------------------------------


def joined(lines: Sequence[Line], known: Set[str]) -> str:
    text = lines[0].text
    for line in lines[1:]:
        text = _with_next(text, line.text, known)
    return _LEADERS.sub("… ", text).strip()


def _with_next(text: str, line: str, known: Set[str]) -> str:
    head, tail = _BROKEN_WORD.search(text[-80:]), _FIRST_WORD.match(line)
    if head and tail and line[0].islower() and tail[0] not in _HANGING:
        return (text if _is_compound(head[1], tail[0], known) else text[:-1]) + line
    unspaced = _UNSPACED.match(text[-1]) and _UNSPACED.match(line)
    if unspaced or (_HYPHENATED.search(text) and not (tail and tail[0] in _HANGING)):
        return text + line
    return f"{text} {line}"


def _is_compound(head: str, tail: str, known: Set[str]) -> bool:
    """Whether the hyphen between two lines belongs to the word. By what else the document says: a
    word that it has elsewhere is broken here; one that it has with a hyphen, or whose halves it
    has as words of their own, is a compound. A word it never has is taken for broken."""
    head, tail = head.lower(), tail.lower()
    if "-" in head or f"{head}-{tail}" in known:
        return head + tail not in known
    if head + tail in known or len(head) < _COMPOUND_HEAD or len(tail) < _COMPOUND_TAIL:
        return False
    return head in known and tail in known
