"""OpenDocument files: headings, paragraphs, lists and tables; sheets by row; slides with notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.office import warn_of_embedded, write_rows
from kb.ingest.parser_support.zip_archive import Archive, find_all, local_name
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_TEXTS, _SPREADSHEETS = (".odt", ".ott"), (".ods", ".ots")
_SPACES = {"tab": "\t", "line-break": "\n"}
_HIDDEN = frozenset({"tracked-changes", "forms", "sequence-decls", "variable-decls"})
# Footers and dates of a slide, written at the end.
_FURNITURE = frozenset({"date-time", "footer", "page-number", "header"})
_NO_TEXT = frozenset({"page-number", "page-count", "date", "binary-data"})
_ASIDE = frozenset({"title", "desc", "creator"})  # in a paragraph, but not part of its text
_OBJECT = re.compile(r"[^/]+/content\.xml")  # a chart or a formula in the document
_OLE_OBJECT = re.compile(r"Object \d+")  # a file of another program
_SHOWN = ("title", "subject", "creator", "initial-creator", "keyword", "description",
          "user-defined")  # fmt: skip
_ROW_GROUPS = frozenset({"table-header-rows", "table-row-group", "table-rows"})
_COUNT = re.compile(r"[1-9][0-9]?")
_REPEATED = re.compile(r"[1-9][0-9]{0,6}")
_DEPTH = re.compile(r"[1-9]")


def parse_opendocument(source: Source) -> Parsed:
    archive = Archive(source.data)
    if b"encryption-data" in (archive.read("META-INF/manifest.xml") or b""):
        raise Unsupported("encrypted: save a copy without a password")
    content = archive.xml("content.xml")
    if content is None:
        raise Unreadable("not an OpenDocument file: content.xml is missing")
    kind = file_names.suffix_of(source.name)
    out = Extract()
    writer = _Writer(out, sheets=kind in _SPREADSHEETS)
    for body in content:
        if local_name(body) == "body":
            writer.write(body)
    properties = _properties(archive)
    heading = out.first_heading if kind in _TEXTS else writer.slide_title
    title = properties.get("title") or heading or ""
    shown = [properties[key] for key in _SHOWN if key in properties]
    rest = [*_every_text(content, "body"), *_every_text(archive.xml("styles.xml"), "master-styles")]
    for name in archive.names():
        if _OBJECT.fullmatch(name):
            rest += _every_text(archive.xml(name))
    out.append_missing([*rest, *shown], title[:TITLE_CHARS])
    warnings: list[str] = []
    warn_of_embedded(filter(_OLE_OBJECT.fullmatch, archive.names()), warnings)
    return Parsed(
        type="opendocument",
        blocks=out.blocks,
        title=title or file_names.title_of(source.name),
        attributes=_attributes(properties),
        warnings=tuple(warnings),
        text=out.text,
    )


class _Writer:
    """Writes the elements of a document in order, without recursion: nesting has no limit."""

    def __init__(self, out: Extract, *, sheets: bool) -> None:
        self._out = out
        self._sheets = sheets
        self._slides = 0
        self.slide_title = ""  # the title of the first slide that has one

    def write(self, body: Element) -> None:
        headings = _lists_with_headings(body)
        stack = [iter([body])]
        while stack:
            element = next(stack[-1], None)
            if element is None:
                stack.pop()
                continue
            kind = local_name(element)
            if kind == "h":
                level = _attribute(element, "outline-level")
                self._out.heading(int(level) if _DEPTH.fullmatch(level) else 1, _text(element))
                self._write_inside(element)
            elif kind == "p":
                self._out.paragraph(one_line(_text(element)))
                self._write_inside(element)
            elif kind == "list" and id(element) not in headings:  # else numbered headings
                self._out.lines(f"- {text}" for text in _items(element))
            elif kind == "table":
                self._write_table(element)
            elif kind not in _HIDDEN and _attribute(element, "class") not in _FURNITURE:
                if kind == "page":
                    self._write_slide_heading(element)
                elif _attribute(element, "class") == "title":
                    continue  # already in the heading
                stack.append(iter(element))

    def _write_slide_heading(self, page: Element) -> None:
        """Write the number of a slide, by which it can be found, and its title."""
        self._slides += 1
        frames = [each for each in page.iter() if _attribute(each, "class") == "title"]
        title = one_line(" ".join(text for frame in frames for text in _items(frame)))
        self.slide_title = self.slide_title or title
        self._out.place = f"slide {self._slides}"
        self._out.heading(1, f"Slide {self._slides}" + (f": {title}" if title else ""))

    def _write_inside(self, paragraph: Element) -> None:
        """Write the footnotes, comments and frames of a paragraph after it."""
        for element in paragraph.iter():
            kind = local_name(element)
            if kind in ("p", "h") and element is not paragraph:
                self._out.paragraph(one_line(_text(element)), "> ")

    def _write_table(self, table: Element) -> None:
        if not self._sheets:
            rows = [[text for _, text in _cells(each)] for each in _rows(table)]
            self._out.table(row for row in rows if any(row))
            return
        name = _attribute(table, "name")
        self._out.place = name or None
        self._out.heading(1, name)
        write_rows(self._out, name, _named_rows(table))
        for each in table:
            if local_name(each) == "shapes":
                self._out.lines(_items(each))


def _lists_with_headings(body: Element) -> set[int]:
    """The ids of the lists that have a heading in them, at any depth."""
    found: set[int] = set()
    stack = [iter([body])]
    lists: list[Element | None] = [None]  # the enclosing list of each element on the stack, if any
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
            lists.pop()
            continue
        if local_name(element) == "h":
            for around in reversed(lists):
                if around is not None:
                    if id(around) in found:
                        break
                    found.add(id(around))
        stack.append(iter(element))
        lists.append(element if local_name(element) == "list" else None)
    return found


def _rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, without those of tables in its cells."""
    stack = [iter(table)]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
        elif local_name(element) == "table-row":
            yield element
        elif local_name(element) in _ROW_GROUPS:
            stack.append(iter(element))


def _named_rows(table: Element) -> Iterator[tuple[str, str]]:
    """Yield the rows of a sheet with text, after the name of their first cell with text."""
    number = 1
    for row in _rows(table):
        cells = [(column, text) for column, text in _cells(row) if text]
        if cells:
            yield f"{_column_name(cells[0][0])}{number}", " | ".join(text for _, text in cells)
        number += _repetitions(row, "number-rows-repeated")


def _cells(row: Element) -> Iterator[tuple[int, str]]:
    """Yield the columns, from 0, and texts of a row. Repeated cells are written once: a row may
    repeat them a million times."""
    column = 0
    for cell in row:
        if local_name(cell) in ("table-cell", "covered-table-cell"):
            yield column, " ".join(_items(cell)) or _attribute(cell, "value")
            column += _repetitions(cell, "number-columns-repeated")


def _repetitions(element: Element, name: str) -> int:
    count = _attribute(element, name)
    return int(count) if _REPEATED.fullmatch(count) else 1


def _column_name(column: int) -> str:
    """The name of a column: `A` for 0, `AA` for 26."""
    name = ""
    while column >= 0:
        name = chr(ord("A") + column % 26) + name
        column = column // 26 - 1
    return name


def _items(element: Element) -> Iterator[str]:
    for each in element.iter():
        if local_name(each) in ("p", "h") and (text := one_line(_text(each))):
            yield text


def _text(element: Element) -> str:
    """The text of a paragraph, without its notes, comments and frames, and without the paragraphs
    in it, which are written after it."""
    pieces = [element.text or ""]
    stack = [iter(element)]
    parents = [element]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
            done = parents.pop()
            if stack:
                pieces.append(done.tail or "")
            continue
        kind = local_name(child)
        if kind == "s":
            count = _attribute(child, "c")
            pieces.append(" " * (int(count) if _COUNT.fullmatch(count) else 1))
        pieces.append(_SPACES.get(kind, ""))
        if kind in ("annotation", "note", "frame", "custom-shape", "p", "h"):
            pieces.append(child.tail or "")
            continue
        pieces.append(child.text or "")
        stack.append(iter(child))
        parents.append(child)
    return "".join(pieces)


def _attribute(element: Element, name: str) -> str:
    """The value of an attribute, whatever its namespace."""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _every_text(root: Element | None, part: str = "") -> Iterator[str]:
    """Yield every text in the children of `root` with this name, or in the whole of `root`. Besides
    paragraphs, other elements contain text, such as descriptions of pictures and footers of
    slides."""
    roots = () if root is None else [each for each in root if local_name(each) == part]
    stack = [iter(roots if part or root is None else [root])]
    paragraphs = [False]  # whether the elements on the stack are in a paragraph
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
            paragraphs.pop()
            continue
        kind = local_name(element)
        if kind in _HIDDEN or kind in _NO_TEXT or _attribute(element, "class") in _NO_TEXT:
            continue
        if kind in ("p", "h"):
            yield _text(element)
        elif not paragraphs[-1] or kind in _ASIDE:
            yield element.text or ""
        stack.append(iter(element))
        paragraphs.append(paragraphs[-1] or kind in ("p", "h"))


def _properties(archive: Archive) -> dict[str, str]:
    """The properties of the document; several keywords are joined."""
    properties: dict[str, str] = {}
    for meta in find_all(archive.xml("meta.xml"), "meta"):
        for each in meta:
            name, text = local_name(each), one_line(each.text or "")
            if text:
                properties[name] = f"{properties[name]}, {text}" if name in properties else text
    return properties


def _attributes(properties: dict[str, str]) -> Attributes:
    created, modified = (dates.parse(properties.get(key, "")) for key in ("creation-date", "date"))
    author = properties.get("initial-creator") or properties.get("creator")
    known = {"author": author, "subject": properties.get("subject"),
             "keywords": properties.get("keyword")}  # fmt: skip
    metadata: dict[str, Any] = {name: text for name, text in known.items() if text}
    return Attributes(
        date=created,
        created_at=dates.moment(created) if created else None,
        updated_at=dates.moment(modified) if modified else None,
        metadata=metadata,
    )
