"""reStructuredText, by section. Scanned by lines: only the structure matters.

Many projects name such files `.txt`. A text file counts as reStructuredText if its beginning has a
heading and a directive, label or role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import (
    HEADING_CHARS,
    Part,
    blocks,
    first_heading,
    indent_of,
    indented_end,
    line_block,
    width_of,
)
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIXES = frozenset({".rest", ".rst"})
_TEXT_SUFFIXES = frozenset({".text", ".txt"})
_HEAD_BYTES = 8192
_MARKUP = re.compile(
    r"^\s*\.\. (?:_[^:\n]+:|[\w:.+-]+::)(?:\s|$)|(?<!\S):[\w:.+-]+:`[^`\n]+`", re.M
)
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*")
_DIRECTIVE = re.compile(r"\s*\.\.\s+(?:\|[^|]+\|\s+)?([\w:.+-]+?)::(?:\s|$)")
_ATOMIC = frozenset(
    """
    code code-block csv-table digraph doctest graph graphviz ipython jupyter-execute list-table
    literalinclude math mermaid parsed-literal plantuml plot prompt productionlist raw sourcecode
    table testcode testoutput testsetup uml
    """.split()
)
_TABLE_BORDER = re.compile(r"\s*=+(?:\s+=+)+\s*")
_GRID_BORDER = re.compile(r"\s*\+(?:[-=]+\+)+\s*")
_FIELD = re.compile(r":([\w -]{1,40}):\s+(\S.*)")
_LABEL = re.compile(r"\.\. _[^:]+:\s*$|\.\. (?:highlight|currentmodule)::|:tocdepth:|:orphan:")
_ROLE = re.compile(r":[\w:.+-]+:`!?")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")
_MARKS = re.compile(r"``|\*\*|(?<![\w\\])[*`|](?=\S)|(?<=\S)(?<!\\)[*`|](?!\w)_{0,2}|\\(?=\S)")


class RstParser(FormatParser):
    name = "rst"
    version = "4"
    max_local_bytes = SMALL_BYTES

    def accepts(self, source: Source) -> bool:
        suffix = file_names.suffix_of(source.name)
        return suffix in _SUFFIXES or (suffix in _TEXT_SUFFIXES and _has_markup(source.data))

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blanked to keep the line numbers
        parts = list(_parts(lines))
        attributes = front_matter.merge(front.attributes, _fields(lines, parts))
        return Parsed(
            type="rst",
            blocks=[*front.blocks(), *blocks(lines, parts)],
            title=attributes.title or first_heading(parts) or file_names.title_of(source.name),
            lang=attributes.lang,
            attributes=attributes,
            warnings=front.warnings,
        )


def _has_markup(data: bytes) -> bool:
    """Whether a text has both headings with adornments and markup that only reStructuredText
    has."""
    text = data[:_HEAD_BYTES].decode("utf-8", "ignore")
    if _MARKUP.search(text) is None:
        return False
    lines = text.split("\n")
    return any(_title(lines, at) is not None for at in range(len(lines)))


def _parts(lines: Sequence[str]) -> Iterator[Part]:
    styles: list[tuple[str, bool]] = []  # styles of headings; their level is the order of first use
    at = no_table = done = 0  # no table begins before no_table; lines before done are used
    while at < len(lines):
        if (title := _title(lines, at)) is not None:
            words, style, end = title
            if style not in styles:
                styles.append(style)
            start = _labels_above(lines, at, done)
            yield Part(start, end, styles.index(style) + 1, heading_text(words))
            at = done = end
            continue
        block = _atomic(lines, at)
        if block is None and at >= no_table and _TABLE_BORDER.fullmatch(lines[at]):
            end, closed = _simple_table(lines, at)
            block = (at, end) if closed else None
            no_table = end
        if block is not None:
            yield Part(*block, atomic=True)
            done = block[1]
        at = block[1] if block is not None else at + 1


# --- headings -------------------------------------------------------------------------------------


def _title(lines: Sequence[str], at: int) -> tuple[str, tuple[str, bool], int] | None:
    """The heading that begins at `at`: its words, its style and its end."""
    if not lines[at].strip() or not _may_begin(lines, at):
        return None
    if _is_adornment(lines[at]) and at + 2 < len(lines):
        words, below = lines[at + 1].strip(), lines[at + 2].rstrip()
        if words and below == lines[at].rstrip() and _is_wide_enough(below, words):
            return words, (below[0], True), at + 3
    if at + 1 < len(lines) and not lines[at][0].isspace():
        words, below = lines[at].strip(), lines[at + 1].rstrip()
        if _is_adornment(below) and not _is_adornment(words) and _is_wide_enough(below, words):
            return words, (below[0], False), at + 2
    return None


def _labels_above(lines: Sequence[str], at: int, done: int) -> int:
    """The first of the label lines directly above a heading, which belong to it."""
    start = at
    while at > done and (not lines[at - 1].strip() or _LABEL.match(lines[at - 1])):
        at -= 1
        if lines[at].strip():
            start = at
    return start


def _may_begin(lines: Sequence[str], at: int) -> bool:
    """Whether a heading may begin here, not in the middle of a paragraph."""
    above = lines[at - 1] if at else ""
    return not above.strip() or above[0].isspace() or above.startswith("..") or _is_adornment(above)


def _is_adornment(line: str) -> bool:
    return bool(_ADORNMENT.fullmatch(line)) and line.strip() not in ("::", "..", "...")


def _is_wide_enough(adornment: str, words: str) -> bool:
    """Whether the underline fits; like docutils, accepts a short one of at least 4 characters."""
    width = len(adornment)
    return len(words) <= HEADING_CHARS and (width >= 4 or width >= width_of(words))


def heading_text(markup: str) -> str:
    """The text of a heading without its markup: "``x`` and :ref:`y <z>`" -> "x and y"."""
    text = _LINK.sub(r"\1", _ROLE.sub("`", markup))
    return " ".join(_MARKS.sub("", text).split())


# --- atomic parts ---------------------------------------------------------------------------------


def _atomic(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    line = lines[at]
    if match := _DIRECTIVE.match(line):
        if match[1].lower().rpartition(":")[2] not in _ATOMIC:
            return None
        return at, max(at + 1, indented_end(lines, at + 1, indent_of(line)))
    if line.rstrip().endswith("::") and not line.lstrip().startswith(".. "):
        return _literal(lines, at)
    if _GRID_BORDER.fullmatch(line) or line.lstrip().startswith(">>> "):
        return at, _paragraph_end(lines, at)
    return None


def _literal(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    """The indented literal block after `::`."""
    start = at + 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    end = indented_end(lines, start, indent_of(lines[at]))
    return (start, end) if at + 1 < start < end else None


def _simple_table(lines: Sequence[str], at: int) -> tuple[int, bool]:
    """Find the end of the table that begins at `at`: a border with a blank line below. Returns the
    end and True; without such a border, the end of the search and False."""
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if line.strip() and indent_of(line) < indent_of(lines[at]):
            return number, False
        last = number + 1 == len(lines) or not lines[number + 1].strip()
        if last and _TABLE_BORDER.fullmatch(line) and number > at + 1:
            return number + 1, True
    return len(lines), False


def _paragraph_end(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and lines[at].strip():
        at += 1
    return at


# --- attributes -----------------------------------------------------------------------------------


def _fields(lines: Sequence[str], parts: Sequence[Part]) -> Attributes:
    """The attributes in the field list at the top (`:Date: 2026-03-01`), after the title if any."""
    top = parts[0].end if parts and parts[0].level else 0
    block = line_block(lines, top, min(len(lines), top + 40))
    fields: dict[str, str] = {}
    for line in block.text.split("\n") if block is not None else ():
        if (match := _FIELD.fullmatch(line)) is None:
            break
        fields.setdefault(match[1].lower(), match[2].strip())
    date = dates.parse(fields.get("date", ""))
    metadata: dict[str, Any] = {
        key: fields[key] for key in ("author", "authors", "version", "status") if key in fields
    }
    return Attributes(date=date, created_at=dates.moment(date) if date else None, metadata=metadata)
