"""Groups the lines of a column into paragraphs, and joins hyphenated words.

Pure. A paragraph begins after a wide gap, with a different font size, with an indent, with a list
marker, or after a line that has room for its first word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from kb.ingest.parsers.pdf.lines import Line

# In line heights, unless noted otherwise.
_WIDE_GAP = 1.3  # times the usual line spacing
_SPACING = 1.2  # the default, if there are too few lines to measure it
_WIDEST_SPACING = 2.0
_OUTLIER_LINES = 8  # one line in this many may extend to the right
_OTHER_SIZE = 1.13  # the ratio of line heights above which the font size differs
_OTHER_FONT = 1.35  # the same within a sentence, because fonts of one size differ in height
_INDENT = 0.6
_ROOM = 0.6  # to spare after the first word of the next line
_MUCH_ROOM = 4.0  # the same, after a line that does not end a sentence
_OTHER_WIDTH = 0.2  # of a line
_CENTERED = 0.6  # distance from the center

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

# Only words of some length are recognized as a compound: `data-driven`, not `in-deed`.
_COMPOUND_HEAD = 3
_COMPOUND_TAIL = 4


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    height: float  # the height of its lines, which stands for the font size


def group_paragraphs(columns: Iterable[Sequence[Line]], known: Set[str]) -> list[Paragraph]:
    """Group the lines of a page, in reading order. `known` holds the words of the document, which
    decide whether a hyphen is kept."""
    paragraphs: list[list[Line]] = []
    for lines in columns:
        groups = _group_lines(lines)
        at = _continued_paragraph(paragraphs, groups)
        if at is not None:
            paragraphs[at] = paragraphs[at] + groups.pop(0)
        paragraphs += groups
    return [Paragraph(join_lines(lines, known), _usual_height(lines)) for lines in paragraphs]


def words_inside(line: str) -> list[str]:
    """The words of a line that are certainly whole: all but the first and the last."""
    return [word.strip(".,;:()[]“”\"'!?") for word in line.lower().split()[1:-1]]


# --- where paragraphs begin -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    left: float
    right: float
    spacing: float  # from line to line, in heights

    def centers(self, *lines: Line) -> bool:
        """Whether all lines are centered, and do not merely fill the column."""
        middle = self.left + self.right
        return all(
            abs(line.x0 + line.x1 - middle) / 2 < _CENTERED * line.height for line in lines
        ) and any(line.x0 - self.left > line.height for line in lines)


def _group_lines(lines: Sequence[Line]) -> list[list[Line]]:
    if not lines:
        return []
    steps = [_step(above, below) for above, below in pairwise(lines)]
    ends = sorted(line.x1 for line in lines)
    column = _Column(
        left=min(line.x0 for line in lines),
        right=ends[-1 - len(ends) // _OUTLIER_LINES],
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
    """Whether `line` begins a paragraph instead of continuing `group`."""
    last = group[-1]
    if _step(last, line) > _WIDE_GAP * min(column.spacing, _WIDEST_SPACING):
        return True
    if _continues_word(last.text, line.text):
        return False
    in_a_sentence = line.text[0].islower() and not _SENTENCE_END.search(last.text)
    if not _same_size(last.height, line.height, _OTHER_FONT if in_a_sentence else _OTHER_SIZE):
        return True
    if _LEADERS.search(last.text) or _LEADERS.search(line.text):
        return True
    if column.centers(last, line):
        return False
    return (
        _is_item(group, line) or _is_indented(group, line, after) or _has_room(last, line, column)
    )


def _step(last: Line, line: Line) -> float:
    return (line.bottom - last.bottom) / max(last.height, line.height, 0.1)


def _same_size(one: float, other: float, limit: float = _OTHER_SIZE) -> bool:
    return max(one, other) <= limit * max(min(one, other), 0.1)


def _continues_word(last: str, line: str) -> bool:
    """Whether the line continues a hyphenated word or a range of numbers: pages 291- | 300."""
    return last[-1] in "-–" and last[-2:-1].isalnum() and (line[0].islower() or line[0].isdigit())


def _is_item(group: Sequence[Line], line: Line) -> bool:
    mark = _ITEM.match(line.text)
    if mark is None or mark["number"] is None:
        return mark is not None
    # A number may begin a line by chance.
    first = _ITEM.match(group[0].text)
    among_items = first is not None and first["number"] is not None
    return among_items or bool(_SENTENCE_END.search(group[-1].text))


def _is_indented(group: Sequence[Line], line: Line, after: Line | None) -> bool:
    """Whether the line is indented, or the first one of an entry with a hanging indent."""
    last, indent = group[-1], _INDENT * line.height
    shift = line.x0 - last.x0
    if shift > indent:
        if len(group) == 1 and _ITEM.match(last.text):
            return False
        if len(group) > 1 or after is None:
            return len(group) > 1 or bool(_SENTENCE_END.search(last.text))
        return after.x0 < line.x0 - indent  # otherwise this is the hanging indent
    return shift < -indent and len(group) > 1


def _has_room(last: Line, line: Line, column: _Column) -> bool:
    """Whether `last` has room for the first word of `line`."""
    sentence_ended = bool(_SENTENCE_END.search(last.text))
    if line.text[0].islower() and not sentence_ended:
        return False
    room = _ROOM if sentence_ended else _MUCH_ROOM
    return column.right - last.x1 > line.head + room * line.height


def _continued_paragraph(
    paragraphs: Sequence[Sequence[Line]], groups: Sequence[Sequence[Line]]
) -> int | None:
    """The index of the paragraph that continues at the top of the next column: the last one of that
    font size, since footnotes may follow it, if its lines are equally long."""
    if not groups or not groups[0][0].text[0].islower():
        return None
    line, is_end = groups[0][0], len(groups[0]) == 1 and _SENTENCE_END.search(groups[0][0].text)
    for at in range(len(paragraphs) - 1, -1, -1):
        last = paragraphs[at][-1]
        if _same_size(last.height, line.height):
            as_long = abs(last.width - line.width) < _OTHER_WIDTH * last.width
            fits = as_long or (is_end and line.width < last.width)
            return at if fits and not _SENTENCE_END.search(last.text) else None
    return None


def _usual_height(lines: Sequence[Line]) -> float:
    return median(line.height for line in lines)


# --- lines into text ------------------------------------------------------------------------------


def join_lines(lines: Sequence[Line], known: Set[str]) -> str:
    text = lines[0].text
    for line in lines[1:]:
        text = _join_line(text, line.text, known)
    return _LEADERS.sub("… ", text).strip()


def _join_line(text: str, line: str, known: Set[str]) -> str:
    head, tail = _BROKEN_WORD.search(text[-80:]), _FIRST_WORD.match(line)
    if head and tail and line[0].islower() and tail[0] not in _HANGING:
        return (text if _is_compound(head[1], tail[0], known) else text[:-1]) + line
    unspaced = _UNSPACED.match(text[-1]) and _UNSPACED.match(line)
    if unspaced or (_HYPHENATED.search(text) and not (tail and tail[0] in _HANGING)):
        return text + line
    return f"{text} {line}"


def _is_compound(head: str, tail: str, known: Set[str]) -> bool:
    """Whether the hyphen between two lines belongs to the word.

    A word that occurs elsewhere in the document without a hyphen is hyphenated here; one that
    occurs with a hyphen, or whose halves occur as words, is a compound. Any other word counts as
    hyphenated.
    """
    head, tail = head.lower(), tail.lower()
    if "-" in head or f"{head}-{tail}" in known:
        return head + tail not in known
    if head + tail in known or len(head) < _COMPOUND_HEAD or len(tail) < _COMPOUND_TAIL:
        return False
    return head in known and tail in known
