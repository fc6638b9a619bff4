"""Converts a Word document into blocks: the text of `word/document.xml` by its styles, then
headers, footers and other parts.

Uses no library: only a small part of the format is needed, and a conversion through HTML would lose
more than it saves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, one_line, wrap_lines
from kb.ingest.parser_support.office import attributes_of, embedded_texts, properties_of
from kb.ingest.parser_support.zip_archive import Archive, local_name, resolve_href
from kb.ingest.parsers.docx.alternative_chunks import AlternativeChunk, write_alternative_chunk
from kb.ingest.parsers.docx.styles import Role, Styles, attribute, value
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source

_OLE = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted and of old Word files
# Deleted text, alternative versions, and properties.
_HIDDEN = frozenset(
    {"Fallback", "del", "delText", "fldData", "instrText", "moveFrom", "pPr", "rPr", "tblPr"}
)
_CHARACTERS = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": " ", "tab": " "}
_REFERENCES = {
    "footnoteReference": "footnote",
    "endnoteReference": "endnote",
    "commentReference": "comment",
}
_NOTE_PREFIXES = {"footnote": "", "endnote": "e", "comment": "c"}
# Other parts of the file with text.
_OTHER_PARTS = re.compile(r"(?:header|footer|diagrams/data|charts/chart|charts/chartEx)\d*\.xml")
# Texts in attributes: descriptions of pictures and tables, word art, forms, links.
_ATTRIBUTE_TEXTS = {
    "alias": ("val",), "cNvPr": ("descr", "title"), "docPr": ("descr", "title"),
    "helpText": ("val",), "hyperlink": ("tooltip",), "imagedata": ("title",),
    "listEntry": ("val",), "listItem": ("displayText", "value"), "shape": ("alt",),
    "statusText": ("val",), "tblCaption": ("val",), "tblDescription": ("val",),
    "textpath": ("string",),
}  # fmt: skip
_LIST_NUMBER = re.compile(r"%\d")
_LABEL_WORD = re.compile(r"[^\W\d_]{3}")
_FURTHER_PROPERTIES = {
    "docProps/app.xml": ("Company", "Manager"),
    "docProps/custom.xml": ("bstr", "lpstr", "lpwstr"),
}
_SHOWN_PROPERTIES = ("title", "subject", "creator", "keywords", "description", "category")


def parse_docx(source: Source) -> Parsed:
    if source.data.startswith(_OLE):
        raise Unsupported(
            "encrypted: save a copy without a password (for an old Word file, as .docx)"
        )
    archive = Archive(source.data)
    path = _document_path(archive)
    document = archive.xml(path)
    if document is None:
        raise Unreadable(f"not a Word document: {path} is missing")
    numbering = archive.xml(_related_path(archive, path, "numbering"))
    styles = Styles(archive.xml(_related_path(archive, path, "styles")), numbering)
    out = Extract()
    chunks = _alternative_chunks(archive, path)
    writer = _Writer(out, styles, _notes(archive, path), chunks)
    writer.write(document)
    properties = properties_of(archive)
    title = writer.title or properties.get("title") or out.first_heading
    shown = [properties[key] for key in _SHOWN_PROPERTIES if key in properties]
    out.append_missing(
        [
            *writer.unplaced_texts,
            *_fallbacks(document),
            *_attribute_texts(document),
            *_other_parts(archive, path),
            *_list_labels(numbering),
            *embedded_texts(archive, resolve_href(path, "embeddings"), writer.warnings),
            *shown,
            *_further_properties(archive),
        ],
        (title or "")[:TITLE_CHARS],
    )
    return Parsed(
        type="docx",
        blocks=out.blocks,
        title=title or file_names.title_of(source.name),
        attributes=attributes_of(properties),
        warnings=tuple(writer.warnings),
        text=out.text,
    )


class _Writer:
    """Writes paragraphs and tables; the lines of a list or a listing are collected first."""

    def __init__(
        self,
        out: Extract,
        styles: Styles,
        notes: dict[tuple[str, str], str],
        chunks: dict[str, AlternativeChunk],
    ) -> None:
        self.title: str | None = None
        self.warnings: list[str] = []
        self._chunks = chunks
        self._chunk_rest: list[str] = []
        self.contents: list[str] = []  # the lines of the table of contents
        self._out = out
        self._styles = styles
        self._notes = notes
        self._cited = set[tuple[str, str]]()
        self._pending_notes: list[str] = []  # of the current paragraph, to write after it
        self._buffer: list[str] = []
        self._kind = ""  # of the lines in the buffer

    def write(self, document: Element) -> None:
        stack = [iter(document)]
        while stack:
            element = next(stack[-1], None)
            if element is None:
                stack.pop()
            elif local_name(element) == "p":
                stack.append(iter(self._paragraph(element)))
            elif local_name(element) == "tbl" and (boxes := self._table(element)) is not None:
                stack.append(iter(boxes))
            elif local_name(element) == "altChunk":
                self._alternative_chunk(attribute(element, "id") or "")
            elif local_name(element) not in _HIDDEN:
                stack.append(iter(element))
        for identity in list(self._chunks):  # notes in tables, or without a reference
            self._alternative_chunk(identity)
        self._flush()

    @property
    def unplaced_texts(self) -> list[str]:
        """Texts that have no place in the document: the table of contents, and notes without a
        reference."""
        return [*self.contents, *self._notes.values(), *self._chunk_rest]

    def _alternative_chunk(self, identity: str) -> None:
        """Write the text of a file of another format that is embedded here."""
        self._flush()
        chunk = self._chunks.pop(identity, None)
        if chunk is None:
            return
        rest = write_alternative_chunk(chunk, self._out)
        if rest is None:
            self.warnings.append(f"{chunk.name} is not read: its format is not supported here")
        else:
            self._chunk_rest += rest

    def _paragraph(self, paragraph: Element) -> list[Element]:
        """Write the paragraph; return its text boxes, which come after it."""
        boxes: list[Element] = []
        notes: list[str] = []
        text = "".join(self._runs(paragraph, boxes, notes))
        if text.strip():
            self._write_paragraph(self._styles.role(paragraph), text)
            self._pending_notes += notes
            if not self._kind:
                self._flush()
        elif self._kind == "code":
            self._buffer.append("")
        return boxes

    def _write_paragraph(self, role: Role, text: str) -> None:
        if role.kind != self._kind:
            self._flush()
        if role.kind == "code":
            self._collect("code", text.split("\n"))
        elif role.kind == "item":
            margin, words = "  " * role.level, wrap_lines(_tidy(text))
            rest = " " * len(role.marker)
            marks = [role.marker, *[rest] * (len(words) - 1)]
            self._collect(
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

    def _collect(self, kind: str, lines: list[str]) -> None:
        self._kind = kind
        self._buffer += lines

    def _flush(self) -> None:
        """Write the buffered lines, and then their notes."""
        if self._kind == "code":
            self._out.code("\n".join(self._buffer))
        else:
            self._out.lines(self._buffer)
        for note in self._pending_notes:
            self._out.paragraph(note)
        self._buffer, self._pending_notes, self._kind = [], [], ""

    def _runs(self, element: Element, boxes: list[Element], notes: list[str]) -> Iterator[str]:
        """Yield the text of an element; collect its text boxes and notes."""
        stack = [iter(element)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
                continue
            kind = local_name(inner)
            if kind == "t":
                yield inner.text or ""
            elif kind in _CHARACTERS:
                yield _CHARACTERS[kind]
            elif kind in _REFERENCES:
                yield self._cite(_REFERENCES[kind], attribute(inner, "id") or "", notes)
            elif kind == "txbxContent":
                boxes.append(inner)
            elif kind not in _HIDDEN:
                if kind == "p":  # a cell may have several paragraphs
                    yield " "
                stack.append(iter(inner))

    def _cite(self, kind: str, identity: str, notes: list[str]) -> str:
        note = self._notes.get((kind, identity))
        if not note:
            return ""
        mark = f"[^{_NOTE_PREFIXES[kind]}{identity}]"
        if (kind, identity) not in self._cited:  # a note may be cited any number of times
            self._cited.add((kind, identity))
            notes.append(f"{mark}: {note}")
        return mark

    def _table(self, table: Element) -> list[Element] | None:
        """Write a table and return its text boxes, which come after it; None if it has a single
        column, which is a frame around text."""
        notes: list[str] = []
        boxes: list[Element] = []
        cells = [list(_children(row, "tc")) for row in _children(table, "tr")]
        if max(map(len, cells), default=0) < 2:
            return None
        rows = [["".join(self._runs(cell, boxes, notes)) for cell in row] for row in cells]
        self._flush()
        self._out.table(rows)
        self._pending_notes = notes
        self._flush()
        return boxes


def _children(element: Element, name: str) -> Iterator[Element]:
    """Yield the elements of this name below `element`, but not those of nested tables."""
    stack = [iter(element)]
    while stack:
        inner = next(stack[-1], None)
        if inner is None:
            stack.pop()
        elif local_name(inner) == name:
            yield inner
        elif local_name(inner) not in ("tbl", *_HIDDEN):
            stack.append(iter(inner))


def _tidy(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


# --- other parts ----------------------------------------------------------------------------------


def _document_path(archive: Archive) -> str:
    relations = archive.xml("_rels/.rels")
    for relation in relations if relations is not None else ():
        if (relation.get("Type") or "").endswith("/officeDocument"):
            return resolve_href("", relation.get("Target") or "")
    return "word/document.xml"


def _alternative_chunks(archive: Archive, path: str) -> dict[str, AlternativeChunk]:
    """The embedded files of other formats, by the identity of their relation to the document."""
    folder, _, name = path.rpartition("/")
    relations = archive.xml(f"{folder}/_rels/{name}.rels".lstrip("/"))
    chunks: dict[str, AlternativeChunk] = {}
    for relation in relations if relations is not None else ():
        if (relation.get("Type") or "").endswith("/aFChunk"):
            target = resolve_href(path, relation.get("Target") or "")
            chunks[relation.get("Id") or ""] = AlternativeChunk(target, archive.read(target) or b"")
    return chunks


def _related_path(archive: Archive, path: str, kind: str) -> str:
    """The part that the document at `path` names as its `kind`, such as `footnotes`; without one,
    the part of that name beside it."""
    folder, _, name = path.rpartition("/")
    relations = archive.xml(f"{folder}/_rels/{name}.rels".removeprefix("/"))
    for relation in relations if relations is not None else ():
        if relation.get("Type", "").endswith(f"/{kind}"):
            return resolve_href(path, relation.get("Target", ""))
    return resolve_href(path, f"{kind}.xml")


def _notes(archive: Archive, path: str) -> dict[tuple[str, str], str]:
    """The footnotes, endnotes and comments, by kind and id."""
    notes: dict[tuple[str, str], str] = {}
    for kind in ("footnote", "endnote", "comment"):
        root = archive.xml(_related_path(archive, path, f"{kind}s"))
        for note in root if root is not None else ():
            if attribute(note, "type") in (None, "normal"):
                text = " ".join(_texts(note))
                author = attribute(note, "author") if kind == "comment" else None
                notes[kind, attribute(note, "id") or ""] = f"{author}: {text}" if author else text
    return notes


def _other_parts(archive: Archive, path: str) -> Iterator[str]:
    """Yield the paragraphs of headers, footers, diagrams and charts."""
    folder = resolve_href(path, "")
    for name in archive.names():
        if (
            _OTHER_PARTS.fullmatch(name.removeprefix(f"{folder}/"))
            and (root := archive.xml(name)) is not None
        ):
            yield from _texts(root)
            yield from _attribute_texts(root)


def _list_labels(numbering: Element | None) -> Iterator[str]:
    """Yield the words in the numbers of lists and headings: `Section %1.`"""
    for element in numbering.iter() if numbering is not None else ():
        if local_name(element) == "lvlText":
            label = _LIST_NUMBER.sub(" ", attribute(element, "val") or "")
            # A label without a word is a bullet, or a single letter in a symbol font.
            if _LABEL_WORD.search(label):
                yield one_line(label)


def _fallbacks(root: Element) -> Iterator[str]:
    """Yield the alternatives for programs that do not know a newer feature. Mostly they repeat its
    text."""
    for fallback in root.iter():
        if local_name(fallback) == "Fallback":
            inside = ((local_name(each), each.text or "") for each in fallback.iter())
            yield "".join(" " if kind == "p" else text for kind, text in inside if kind in "pt")


def _attribute_texts(root: Element) -> Iterator[str]:
    """Yield the texts that elements hold in attributes, and the default texts of forms."""
    for element in root.iter():
        kind = local_name(element)
        if kind == "textInput":
            yield value(element, "default") or ""
        for name in _ATTRIBUTE_TEXTS.get(kind, ()):
            yield attribute(element, name) or ""


def _texts(root: Element) -> Iterator[str]:
    """Yield the paragraphs in `root`, without hidden text."""
    pieces: list[str] = []
    stack = [iter([root])]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
            continue
        kind = local_name(element)
        if kind in ("p", "pt"):  # paragraphs of text, points of a chart or diagram
            if text := one_line("".join(pieces)):
                yield text
            pieces = []
        if kind in ("t", "v") and not len(element):  # the `t` of a diagram contains paragraphs
            pieces.append(element.text or "")
        elif kind in _CHARACTERS:
            pieces.append(_CHARACTERS[kind])
        elif kind not in _HIDDEN:
            stack.append(iter(element))
    if text := one_line("".join(pieces)):
        yield text


def _further_properties(archive: Archive) -> Iterator[str]:
    """Yield the custom properties that a company or the author has added."""
    for name, kinds in _FURTHER_PROPERTIES.items():
        root = archive.xml(name)
        for element in root.iter() if root is not None else ():
            if local_name(element) in kinds and element.text:
                yield element.text
