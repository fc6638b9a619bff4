"""Word documents: the text of `word/document.xml`, by its styles; behind it headers, footers, and
what else is written in other parts.

Read without a library: what is needed of the format is little, and a conversion to HTML and from
there to text would lose more than it spares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, one_line, wrap_lines
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.signatures import signature
from kb.ingest.parser_support.zip_archive import Archive, local, resolved
from kb.ingest.parsers.docx.styles import Role, Styles, attribute
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIXES = frozenset({".docm", ".docx", ".dotm", ".dotx"})
_OLE = b"\xd0\xcf\x11\xe0"  # how a file begins that is encrypted, and how old ones do
# Deleted text, the second version of what is there twice, and what is not shown.
_SKIPPED = frozenset(
    {"Fallback", "del", "delText", "fldData", "instrText", "moveFrom", "pPr", "rPr", "tblPr"}
)
_WRITTEN = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": " ", "tab": " "}
_NOTES = {
    "footnoteReference": "footnote",
    "endnoteReference": "endnote",
    "commentReference": "comment",
}
_MARKS = {"footnote": "", "endnote": "e", "comment": "c"}
# Parts beside the document that hold text of their own, and which elements it is in.
_BESIDE = re.compile(r"(?:header|footer|diagrams/data|charts/chart)\d*\.xml")
_TOLD = ("title", "subject", "creator", "keywords", "description", "category")


class DocxParser(FormatParser):
    name = "docx"
    version = "3"
    signatures = frozenset({"docx", "zip"})

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES or signature(source.data) == "docx"

    def parse(self, source: Source) -> Parsed:
        if source.data.startswith(_OLE):
            raise Unsupported("encrypted: needs a password (or it is an old Word file)")
        archive = Archive(source.data)
        path = _document_path(archive)
        document = archive.xml(path)
        if document is None:
            raise Unreadable(f"not a Word document: it has no {path}")
        styles = Styles(
            archive.xml(resolved(path, "styles.xml")), archive.xml(resolved(path, "numbering.xml"))
        )
        out = Extract()
        writer = _Writer(out, styles, _notes(archive, path))
        writer.write(document)
        said = _properties(archive)
        title = writer.title or said.get("title") or out.first_heading
        told = [said[key] for key in _TOLD if key in said]
        out.rest([*writer.left_out, *_beside(archive, path), *told], (title or "")[:TITLE_CHARS])
        return Parsed(
            type="docx",
            blocks=out.blocks,
            title=title or file_names.title_of(source.name),
            attributes=_attributes(said),
            text=out.text,
        )


class _Writer:
    """Writes paragraphs and tables; lines of a list, and of code, are gathered first."""

    def __init__(self, out: Extract, styles: Styles, notes: dict[tuple[str, str], str]) -> None:
        self.title: str | None = None
        self.contents: list[str] = []  # what a table of contents says
        self._out = out
        self._styles = styles
        self._notes = notes
        self._cited: list[str] = []  # notes that are not written yet
        self._gathered: list[str] = []
        self._kind = ""  # of what is gathered

    def write(self, document: Element) -> None:
        waiting = [iter(document)]
        while waiting:
            element = next(waiting[-1], None)
            if element is None:
                waiting.pop()
            elif local(element) == "p":
                waiting.append(iter(self._paragraph(element)))
            elif local(element) == "tbl" and (boxes := self._table(element)) is not None:
                waiting.append(iter(boxes))
            elif local(element) not in _SKIPPED:
                waiting.append(iter(element))
        self._end()

    @property
    def left_out(self) -> list[str]:
        """Texts without a place: the table of contents, and notes that nothing refers to."""
        return [*self.contents, *self._notes.values()]

    def _paragraph(self, paragraph: Element) -> list[Element]:
        """Write it; the boxes that hang on it are for afterwards."""
        boxes: list[Element] = []
        cited: list[str] = []
        text = "".join(self._runs(paragraph, boxes, cited))
        if text.strip():
            self._put(self._styles.role(paragraph), text)
            self._cited += cited
            if not self._kind:
                self._end()
        elif self._kind == "code":
            self._gathered.append("")
        return boxes

    def _put(self, role: Role, text: str) -> None:
        if role.kind != self._kind:
            self._end()
        if role.kind == "code":
            self._gather("code", text.split("\n"))
        elif role.kind == "item":
            margin, words = "  " * role.level, wrap_lines(_tidy(text))
            rest = " " * len(role.marker)
            marks = [role.marker, *[rest] * (len(words) - 1)]
            self._gather(
                "item", [margin + mark + line for mark, line in zip(marks, words, strict=True)]
            )
        elif role.kind in ("title", "heading"):
            self._out.heading(role.level, text)
            if role.kind == "title":
                self.title = self.title or one_line(text)
        elif role.kind == "contents":
            self.contents.append(text)
        else:
            self._out.paragraph(_tidy(text), "> " if role.kind == "quote" else "")

    def _gather(self, kind: str, lines: list[str]) -> None:
        self._kind = kind
        self._gathered += lines

    def _end(self) -> None:
        """Write what was gathered, and the notes to it."""
        if self._kind == "code":
            self._out.code("\n".join(self._gathered))
        else:
            self._out.lines(self._gathered)
        for note in self._cited:
            self._out.paragraph(note)
        self._gathered, self._cited, self._kind = [], [], ""

    def _runs(self, element: Element, boxes: list[Element], cited: list[str]) -> Iterator[str]:
        """The pieces of text in an element; what is in boxes, and in notes, is put aside."""
        waiting = [iter(element)]
        while waiting:
            inner = next(waiting[-1], None)
            if inner is None:
                waiting.pop()
                continue
            kind = local(inner)
            if kind == "t":
                yield inner.text or ""
            elif kind in _WRITTEN:
                yield _WRITTEN[kind]
            elif kind in _NOTES:
                yield self._cite(_NOTES[kind], attribute(inner, "id") or "", cited)
            elif kind == "txbxContent":
                boxes.append(inner)
            elif kind not in _SKIPPED:
                if kind == "p":  # several, in a cell
                    yield " "
                waiting.append(iter(inner))

    def _cite(self, kind: str, identity: str, cited: list[str]) -> str:
        note = self._notes.get((kind, identity))
        if not note:
            return ""
        mark = f"[^{_MARKS[kind]}{identity}]"
        cited.append(f"{mark}: {note}")
        return mark

    def _table(self, table: Element) -> list[Element] | None:
        """Write a table, unless it has a single column: that is a frame around text. The boxes in
        it are for afterwards."""
        cited: list[str] = []
        boxes: list[Element] = []
        rows = [
            ["".join(self._runs(cell, boxes, cited)) for cell in _inside(row, "tc")]
            for row in _inside(table, "tr")
        ]
        if max(map(len, rows), default=0) < 2:
            return None
        self._end()
        self._out.table(rows)
        self._cited = cited
        self._end()
        return boxes


def _inside(element: Element, name: str) -> Iterator[Element]:
    """The elements of this name that belong to `element`, not to another of the kind in it."""
    waiting = [iter(element)]
    while waiting:
        inner = next(waiting[-1], None)
        if inner is None:
            waiting.pop()
        elif local(inner) == name:
            yield inner
        elif local(inner) not in ("tbl", *_SKIPPED):
            waiting.append(iter(inner))


def _tidy(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


# --- the other parts ------------------------------------------------------------------------------


def _document_path(archive: Archive) -> str:
    relations = archive.xml("_rels/.rels")
    for relation in relations if relations is not None else ():
        if (relation.get("Type") or "").endswith("/officeDocument"):
            return resolved("", relation.get("Target") or "")
    return "word/document.xml"


def _notes(archive: Archive, path: str) -> dict[tuple[str, str], str]:
    """(kind, id) -> text of the notes at the foot of pages and at the end, and of comments."""
    notes: dict[tuple[str, str], str] = {}
    for kind in ("footnote", "endnote", "comment"):
        root = archive.xml(resolved(path, f"{kind}s.xml"))
        for note in root if root is not None else ():
            if attribute(note, "type") in (None, "normal"):
                text = " ".join(_texts(note))
                author = attribute(note, "author") if kind == "comment" else None
                notes[kind, attribute(note, "id") or ""] = f"{author}: {text}" if author else text
    return notes


def _beside(archive: Archive, path: str) -> Iterator[str]:
    """What headers, footers, diagrams and charts say, paragraph by paragraph."""
    folder = resolved(path, "")
    for name in archive.names():
        if (
            _BESIDE.fullmatch(name.removeprefix(f"{folder}/"))
            and (root := archive.xml(name)) is not None
        ):
            yield from _texts(root)


def _texts(root: Element) -> Iterator[str]:
    """The paragraphs in `root`, without what is left out of the document too."""
    pieces: list[str] = []
    waiting = [iter([root])]
    while waiting:
        element = next(waiting[-1], None)
        if element is None:
            waiting.pop()
            continue
        kind = local(element)
        if kind in ("p", "pt"):  # of a text; of a chart or a diagram
            if text := one_line("".join(pieces)):
                yield text
            pieces = []
        if kind in ("t", "v"):
            pieces.append(element.text or "")
        elif kind in _WRITTEN:
            pieces.append(_WRITTEN[kind])
        elif kind not in _SKIPPED:
            waiting.append(iter(element))
    if text := one_line("".join(pieces)):
        yield text


def _properties(archive: Archive) -> dict[str, str]:
    root = archive.xml("docProps/core.xml")
    every = root if root is not None else ()
    said = {local(one): one_line(one.text or "") for one in every}
    if said.get("title", "").startswith("Microsoft Word"):  # put there by printing
        said.pop("title")
    return {key: text for key, text in said.items() if text}


def _attributes(said: dict[str, str]) -> Attributes:
    created, modified = (dates.parse(said.get(key, "")) for key in ("created", "modified"))
    known = {"creator": "author", "subject": "subject", "keywords": "keywords"}
    metadata: dict[str, Any] = {name: said[key] for key, name in known.items() if key in said}
    return Attributes(
        date=created,
        created_at=dates.moment(created) if created else None,
        updated_at=dates.moment(modified) if modified else None,
        metadata=metadata,
    )
