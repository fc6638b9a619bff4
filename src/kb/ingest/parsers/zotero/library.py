"""The items of a Zotero library: authors, year and title as a heading, then what is known about the
work, notes, and annotations with their pages.

The bytes of the database are read into memory, so that nothing is locked or written while Zotero
runs.
"""

from __future__ import annotations

import html
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kb.ingest.decode import Unreadable
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ports import Parsed, Source

_VERSIONS = slice(18, 20)  # bytes of the header: 2 means a write-ahead log, 1 means none
_FIRST_FIELDS = (
    "publicationTitle", "bookTitle", "proceedingsTitle", "publisher", "date", "DOI", "ISBN", "url",
)  # fmt: skip
_HIDDEN_FIELDS = frozenset({"title", "abstractNote", "accessDate", "libraryCatalog", "rights"})
_YEAR = re.compile(r"\d{4}")
# `2019-05-00 May 2019`: the date as Zotero parsed it, and as the user wrote it.
_DATE = re.compile(r"(\d{4}(?:-(?!00)\d\d){0,2})(?:-00){0,2}(?: (\S.*))?")
_PDF_PLACE = re.compile(r"(\d{5})\|\d+\|\d+")  # page from 0, character, distance from the top
_BREAK = re.compile(r"<(?:br|/p|/div|/h[1-6]|/li|/tr)\b[^>]{0,200}>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_MAX_AUTHORS = 3
_NO_PARENT = -1  # of notes and attachments that belong to no work
_MAX_COLLECTION_DEPTH = 20
_ANNOTATIONS = {1: "highlight", 2: "note", 3: "image", 4: "ink", 5: "underline", 6: "text"}

Rows = list[tuple[Any, ...]]


class _Item(NamedTuple):
    key: str
    kind: str


class _Annotation(NamedTuple):
    key: str
    kind: int
    text: str
    comment: str
    page: str  # its label, such as `iv`
    place: str  # its position in the file, in a form that depends on the format


def parse_library(source: Source) -> Parsed:
    data = bytearray(source.data)
    if bytes(data[_VERSIONS]) == b"\2\2":
        data[_VERSIONS] = b"\1\1"
    database = sqlite3.connect(":memory:")
    try:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        database.deserialize(bytes(data))
        database.execute("PRAGMA trusted_schema = OFF")
        database.set_authorizer(_deny_views)
        return _parse(_Library(database), source)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise Unreadable(f"not a Zotero library, or Zotero is writing it: {error}") from error
    finally:
        database.close()


def _deny_views(
    _action: int, _first: str | None, _second: str | None, _database: str | None, view: str | None
) -> int:
    """Refuse access through a view. Zotero has none, and a view in place of a table could be an
    endless query."""
    return sqlite3.SQLITE_OK if view is None else sqlite3.SQLITE_DENY


def _parse(library: _Library, source: Source) -> Parsed:
    out = Extract()
    items = library.items
    for number, (item_id, item) in enumerate(items.items(), 1):
        _write(out, library, item_id, item)
        source.on_progress(number, len(items))
    _write_without_work(out, library)
    warnings = () if out.blocks else ("the library has no items",)
    return Parsed(
        type="zotero", blocks=out.blocks, title="Zotero", text=out.text, warnings=warnings
    )


class _Library:
    """The tables of the database, by item."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        deleted = {item for (item,) in self._rows("SELECT itemID FROM deletedItems")}
        self.items = {
            item: _Item(str(key), str(kind))
            for item, key, kind in self._rows(
                "SELECT i.itemID, i.key, t.typeName FROM items i JOIN itemTypes t "
                "ON t.itemTypeID = i.itemTypeID WHERE t.typeName NOT IN ('attachment', 'note', "
                "'annotation') ORDER BY i.dateAdded, i.itemID"
            )
            if item not in deleted
        }
        self.fields: dict[int, dict[str, str]] = defaultdict(dict)
        for item, name, value in self._rows(
            "SELECT d.itemID, f.fieldName, v.value FROM itemData d JOIN fields f "
            "ON f.fieldID = d.fieldID JOIN itemDataValues v ON v.valueID = d.valueID"
        ):
            text = one_line(str(value))
            self.fields[item][str(name)] = _date(text) if name == "date" else text
        self.creators: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for item, last, first in self._rows(
            "SELECT i.itemID, c.lastName, c.firstName FROM itemCreators i JOIN creators c "
            "ON c.creatorID = i.creatorID ORDER BY i.itemID, i.orderIndex"
        ):
            self.creators[item].append((one_line(str(last or "")), one_line(str(first or ""))))
        self.tags = self._texts(
            "SELECT i.itemID, t.name FROM itemTags i JOIN tags t ON t.tagID = i.tagID ORDER BY 1, 2"
        )
        self.collections = self._collections()
        self.notes: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        for item, parent, key, note in self._rows(
            "SELECT n.itemID, n.parentItemID, i.key, n.note FROM itemNotes n JOIN items i "
            "ON i.itemID = n.itemID ORDER BY n.itemID"
        ):
            if item not in deleted and parent not in deleted:
                self.notes[parent or _NO_PARENT].append((item, str(key), str(note or "")))
        self.attachments: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        for item, parent, key, path in self._rows(
            "SELECT a.itemID, a.parentItemID, i.key, a.path FROM itemAttachments a JOIN items i "
            "ON i.itemID = a.itemID ORDER BY a.itemID"
        ):
            if item not in deleted and parent not in deleted:
                self.attachments[parent or _NO_PARENT].append((item, str(key), str(path or "")))
        self.annotations = self._annotations()
        self.groups = self._groups()

    def _rows(self, query: str) -> Rows:
        return self._database.execute(query).fetchall()

    def _texts(self, query: str) -> dict[int, list[str]]:
        texts: dict[int, list[str]] = defaultdict(list)
        for item, text in self._rows(query):
            texts[item].append(one_line(str(text)))
        return texts

    def _collections(self) -> dict[int, list[str]]:
        """The collections of each item, as `Boats / Anchors`."""
        known = {
            number: (one_line(str(name)), parent)
            for number, name, parent in self._rows(
                "SELECT collectionID, collectionName, parentCollectionID FROM collections"
            )
        }

        def path(number: Any) -> str:
            names: list[str] = []
            while number in known and len(names) < _MAX_COLLECTION_DEPTH:
                name, number = known[number]
                names.append(name)
            return " / ".join(reversed(names))

        collections: dict[int, list[str]] = defaultdict(list)
        for item, number in self._rows("SELECT itemID, collectionID FROM collectionItems"):
            collections[item].append(path(number))
        return collections

    def _annotations(self) -> dict[int, list[_Annotation]]:
        """The annotations of each attachment; libraries of Zotero 5 have none."""
        annotations: dict[int, list[_Annotation]] = defaultdict(list)
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'itemAnnotations'"):
            return annotations
        for parent, *values in self._rows(
            "SELECT a.parentItemID, i.key, a.type, a.text, a.comment, a.pageLabel, a.sortIndex "
            "FROM itemAnnotations a JOIN items i ON i.itemID = a.itemID "
            "ORDER BY a.parentItemID, a.sortIndex"
        ):
            key, kind, *texts = values
            annotations[parent].append(
                _Annotation(
                    str(key),
                    kind if isinstance(kind, int) else 0,
                    *(one_line(str(text or "")) for text in texts),
                )
            )
        return annotations

    def _groups(self) -> dict[int, int]:
        """The numbers of the groups to which items belong; other items are the user's own."""
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'groups'"):
            return {}
        rows = self._rows(
            "SELECT i.itemID, g.groupID FROM items i JOIN groups g ON g.libraryID = i.libraryID"
        )
        return {item: group for item, group in rows if isinstance(group, int)}

    def link(self, action: str, item: int, key: str) -> str:
        """The address that opens an item in Zotero."""
        group = self.groups.get(item)
        return f"zotero://{action}/{f'groups/{group}' if group else 'library'}/items/{key}"


# --- one item -------------------------------------------------------------------------------------


def _write(out: Extract, library: _Library, item_id: int, item: _Item) -> None:
    fields, creators = library.fields[item_id], library.creators[item_id]
    out.heading(1, _heading(fields, creators) or item.kind)
    out.lines(_facts(library, item_id, item, fields))
    out.paragraph(fields.get("abstractNote", ""))
    for _item, _key, note in library.notes[item_id]:
        out.lines(f"> {line}" for line in _plain(note))
    for attachment, key, path in library.attachments[item_id]:
        if name := _file_name(path):
            out.paragraph(f"Attachment: {name}")
        _write_attachment(out, library, attachment, key)


def _write_without_work(out: Extract, library: _Library) -> None:
    """Write the notes and attachments that belong to no work, each under a heading of its own."""
    for item, key, note in library.notes[_NO_PARENT]:
        lines = _plain(note)
        out.heading(1, lines[0] if lines else "Note")
        out.lines([*lines[1:], library.link("select", item, key)])
    for attachment, key, path in library.attachments[_NO_PARENT]:
        out.heading(1, _file_name(path) or "Attachment")
        out.lines([library.link("select", attachment, key)])
        _write_attachment(out, library, attachment, key)


def _write_attachment(out: Extract, library: _Library, attachment: int, key: str) -> None:
    for _item, _key, note in library.notes[attachment]:
        out.lines(f"> {line}" for line in _plain(note))
    link = library.link("open-pdf", attachment, key)
    for annotation in library.annotations[attachment]:
        out.lines(_annotation_lines(annotation, link))


def _file_name(path: str) -> str:
    return path.rpartition(":")[2].rpartition("/")[2]


def _facts(
    library: _Library, item_id: int, item: _Item, fields: Mapping[str, str]
) -> Iterator[str]:
    people = [one_line(f"{first} {last}") for last, first in library.creators[item_id]]
    yield ", ".join(filter(None, people))
    shown = [name for name in _FIRST_FIELDS if name in fields]
    others = [name for name in fields if name not in shown and name not in _HIDDEN_FIELDS]
    for name in (*shown, *others):
        yield f"{name}: {fields[name]}"
    if collections := library.collections[item_id]:
        yield f"Collections: {'; '.join(collections)}"
    yield " ".join(f"#{tag}" for tag in library.tags[item_id])
    yield library.link("select", item_id, item.key)


def _heading(fields: Mapping[str, str], creators: list[tuple[str, str]]) -> str:
    """The heading of an entry: `Noether, Klein 1918: Invariante Variationsprobleme`."""
    names = [last or first for last, first in creators]
    more = " et al." if len(names) > _MAX_AUTHORS else ""
    year = _YEAR.search(fields.get("date", ""))
    who = one_line(f"{', '.join(names[:_MAX_AUTHORS])}{more} {year[0] if year else ''}")
    return ": ".join(filter(None, (who, fields.get("title", ""))))


def _annotation_lines(annotation: _Annotation, attachment: str) -> Iterator[str]:
    """Yield the highlighted text with its page, the comment, and a link that opens the annotation
    in Zotero; `attachment` is the address of the attachment. The page in the link is counted from
    the start of the file and does not depend on its label."""
    kind = _ANNOTATIONS.get(annotation.kind, "annotation")
    page = f"p. {annotation.page}" if annotation.page else kind
    if annotation.text or annotation.comment:
        yield f"{page}: {annotation.text}".rstrip(": ") if annotation.text else f"{page}:"
        if annotation.comment:
            yield f"— {annotation.comment}"
        place = _PDF_PLACE.fullmatch(annotation.place)
        page = f"page={int(place[1]) + 1}&" if place else ""
        yield f"{attachment}?{page}annotation={annotation.key}"


def _date(value: str) -> str:
    """A date as the user wrote it, or without the zeros that stand for an unknown month or day."""
    date = _DATE.fullmatch(value)
    return (date[2] or date[1]) if date else value


def _plain(note: str) -> list[str]:
    """The lines of a note, which is HTML."""
    text = html.unescape(_TAG.sub("", _BREAK.sub("\n", note)))
    return [line for each in text.split("\n") if (line := one_line(each))]
