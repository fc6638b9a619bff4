"""reStructuredText, by section. Read by lines: kb needs its structure, not what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import FormatParser
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

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blank, so that the rest keeps its numbers
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


def _parts(lines: Sequence[str]) -> Iterator[Part]:
    styles: list[tuple[str, bool]] = []  # of headings, by level: in the order they first appear
    at = no_table = done = 0  # up to no_table no border begins a table; done belongs to a part
    while at < len(lines):
        if (title := _title(lines, at)) is not None:
            words, style, end = title
            if style not in styles:
                styles.append(style)
            start = _labels_above(lines, at, done)
            yield Part(start, end, styles.index(style) + 1, plain(words))
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
    """(words, style, end) of the heading that begins at `at`."""
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
    """Where the labels that stand right above a heading begin: they are its own."""
    start = at
    while at > done and (not lines[at - 1].strip() or _LABEL.match(lines[at - 1])):
        at -= 1
        if lines[at].strip():
            start = at
    return start


def _may_begin(lines: Sequence[str], at: int) -> bool:
    """Not in the middle of a paragraph."""
    above = lines[at - 1] if at else ""
    return not above.strip() or above[0].isspace() or above.startswith("..") or _is_adornment(above)


def _is_adornment(line: str) -> bool:
    return bool(_ADORNMENT.fullmatch(line)) and line.strip() not in ("::", "..", "...")


def _is_wide_enough(adornment: str, words: str) -> bool:
    """docutils forgives an underline that is too short, if it is one beyond doubt."""
    width = len(adornment)
    return len(words) <= HEADING_CHARS and (width >= 4 or width >= width_of(words))


def plain(markup: str) -> str:
    """A heading without its markup: "``x`` and :ref:`y <z>`" -> "x and y"."""
    text = _LINK.sub(r"\1", _ROLE.sub("`", markup))
    return " ".join(_MARKS.sub("", text).split())


# --- what must not be cut -------------------------------------------------------------------------


def _atomic(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    line = lines[at]
    if found := _DIRECTIVE.match(line):
        if found[1].lower().rpartition(":")[2] not in _ATOMIC:
            return None
        return at, max(at + 1, indented_end(lines, at + 1, indent_of(line)))
    if line.rstrip().endswith("::") and not line.lstrip().startswith(".. "):
        return _literal(lines, at)
    if _GRID_BORDER.fullmatch(line) or line.lstrip().startswith(">>> "):
        return at, _paragraph_end(lines, at)
    return None


def _literal(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    """The block that `::` announces, which is indented."""
    start = at + 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    end = indented_end(lines, start, indent_of(lines[at]))
    return (start, end) if at + 1 < start < end else None


def _simple_table(lines: Sequence[str], at: int) -> tuple[int, bool]:
    """Where the table that begins at `at` ends: with a border that nothing stands below; there may
    be blank lines in it. Where the search ended, and False, if it has no such border."""
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


# --- what a document says about itself ------------------------------------------------------------


def _fields(lines: Sequence[str], parts: Sequence[Part]) -> Attributes:
    """The fields at the top (`:Date: 2026-03-01`), below the title if there is one."""
    top = parts[0].end if parts and parts[0].level else 0
    block = line_block(lines, top, min(len(lines), top + 40))
    said: dict[str, str] = {}
    for line in block.text.split("\n") if block is not None else ():
        if (found := _FIELD.fullmatch(line)) is None:
            break
        said.setdefault(found[1].lower(), found[2].strip())
    date = dates.parse(said.get("date", ""))
    known: dict[str, Any] = {
        key: said[key] for key in ("author", "authors", "version", "status") if key in said
    }
    return Attributes(date=date, created_at=dates.moment(date) if date else None, metadata=known)
