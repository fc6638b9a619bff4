"""Excel workbooks: the rows of each sheet, with the values that the workbook shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from kb.ingest import file_names
from kb.ingest.decode import Unreadable
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.office import (
    SHOWN_PROPERTIES,
    attributes_of,
    embedded_texts,
    open_archive,
    properties_of,
    relations,
    unescape,
    write_rows,
)
from kb.ingest.parser_support.zip_archive import Archive, find_all, local_name
from kb.ingest.parsers.xlsx.number_formats import NumberFormat, number_formats, plain_number
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source

_WORKBOOK = "xl/workbook.xml"
_OTHER_PARTS = ("xl/charts/", "xl/comments", "xl/drawings/drawing", "xl/threadedComments/")
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
# Parts of a number format that are not format codes.
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_ATTRIBUTES = {  # attributes with text for readers
    "dataValidation": ("promptTitle", "prompt", "errorTitle", "error"),
    "hyperlink": ("tooltip", "display"),
}
_HEADERS = frozenset(
    {"oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter"}
)
# Formatting codes in headers and footers: fonts, colors, positions and fields.
_CODE = re.compile(r'&(?:"[^"]*"|\d+|K[0-9A-F]{6}|[A-Z&])')
# A long text that many cells share is written in full until these add up to the limit.
_LONG_CHARS, _SHORTENED_CHARS, _MAX_REPEATED_CHARS = 1_000, 100, 500_000
_MAX_DAYS = 2_958_465  # the last day that a workbook supports, in the year 9999


def parse_xlsx(source: Source) -> Parsed:
    archive = open_archive(source.data, ".xlsx")
    root = archive.xml(_WORKBOOK)
    if root is None:
        raise Unreadable(f"not an Excel workbook: {_WORKBOOK} is missing")
    strings = [unescape("".join(_plain_texts(each)))
               for each in find_all(archive.xml(_strings_part(archive)), "si")]  # fmt: skip
    epoch = datetime(1904, 1, 1) if _uses_1904(root) else datetime(1899, 12, 30)
    styles = archive.xml("xl/styles.xml")
    cells = _Cells(strings, _date_styles(styles), number_formats(styles), epoch)
    out = Extract()
    sheets = _sheets(archive, root)
    read: set[str] = set()  # parts, each of which is read once
    others: list[str] = [text for each in find_all(root, "definedName")
                         for text in (each.get("name", ""), each.text or "")
                         if not each.get("name", "").startswith("_xlnm.")]  # fmt: skip
    for number, (name, path) in enumerate(sheets, 1):
        sheet = archive.xml(path) if path not in read else None
        read.add(path)
        out.place = name
        out.heading(1, name)
        others += _sheet_texts(sheet)
        write_rows(out, name, cells.rows(sheet) if sheet is not None else ())
        for cell, text in _comments(archive, path) if sheet is not None else ():
            out.place = f"{name}!{cell}"
            out.paragraph(text)
        source.on_progress(number, len(sheets))
    properties = properties_of(archive)
    title = properties.get("title", "")
    others += [text for name in archive.names() if name.startswith(_OTHER_PARTS)
               and name.endswith(".xml") for text in _texts(archive.xml(name))]  # fmt: skip
    shown = [properties[key] for key in SHOWN_PROPERTIES if key in properties]
    out.enter_section(1, "")  # they belong to no sheet
    warnings: list[str] = []
    embedded = embedded_texts(archive, "xl/embeddings", warnings)
    out.append_missing([*others, *embedded, *shown], title[:TITLE_CHARS])
    if cells.shortened:
        warnings.append(
            f"{cells.shortened:,} cells with a long text that others have are shortened"
        )
    return Parsed(
        type="xlsx",
        blocks=out.blocks,
        title=title or file_names.title_of(source.name),
        attributes=attributes_of(properties),
        warnings=tuple(warnings),
        text=out.text,
    )


def _strings_part(archive: Archive) -> str:
    """The part with the strings that cells share, which the workbook names."""
    parts = relations(archive, _WORKBOOK).values()
    named = (path for kind, path in parts if kind == "sharedStrings")
    return next(named, "xl/sharedStrings.xml")


def _sheets(archive: Archive, root: Element) -> list[tuple[str, str]]:
    """The names and parts of the sheets, in the order of the workbook."""
    parts = relations(archive, _WORKBOOK)
    sheets = []
    for sheet in find_all(root, "sheet"):
        ids = [value for key, value in sheet.items() if key.endswith("}id")]
        path = parts[ids[0]][1] if ids and ids[0] in parts else ""
        sheets.append((sheet.get("name", ""), path))
    return sheets


def _uses_1904(root: Element) -> bool:
    return any(each.get("date1904") in ("1", "true") for each in find_all(root, "workbookPr"))


def _date_styles(root: Element | None) -> frozenset[int]:
    """The numbers of the cell styles that show dates."""
    custom = {
        each.get("numFmtId"): _QUOTED.sub("", each.get("formatCode", "")).lower()
        for each in find_all(root, "numFmt")
    }
    formats = [each.get("numFmtId") or "" for cells in find_all(root, "cellXfs") for each in cells]
    return frozenset(
        number
        for number, each in enumerate(formats)
        if (each.isdecimal() and len(each) < 10 and int(each) in _DATE_FORMATS)
        or any(code in custom.get(each, "") for code in ("yy", "dd", "d/", "/d", "h:mm"))
    )


class _Cells:
    """Turns the cells of a sheet into text."""

    def __init__(
        self,
        strings: Sequence[str],
        dates: frozenset[int],
        formats: Mapping[int, NumberFormat],
        epoch: datetime,
    ) -> None:
        self._strings = strings
        self._dates = dates
        self._formats = formats
        self._epoch = epoch
        self._written: set[int] = set()  # long strings
        self._repeated_chars = 0
        self.shortened = 0  # cells

    def rows(self, sheet: Element) -> Iterator[tuple[str, str]]:
        """Yield the rows with text, one line each, after the name of their first cell with text."""
        rows = (row for data in sheet if local_name(data) == "sheetData" for row in data)
        for number, row in enumerate(rows, 1):
            cells = [each for each in row if local_name(each) == "c"]
            texts = [one_line(self._text(cell)) for cell in cells]
            if any(texts):
                first = next(cell for cell, text in zip(cells, texts, strict=True) if text)
                name = first.get("r") or f"A{row.get('r') or number}"
                yield name, " | ".join(text for text in texts if text)

    def _text(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return unescape("".join(_plain_texts(cell)))
        value = next((each.text or "" for each in cell if local_name(each) == "v"), None)
        if value is None:  # not computed yet
            formulas = (each.text for each in cell if local_name(each) == "f")
            return "".join(f"={text}" for text in formulas if text)
        value = value.strip()
        if kind == "s":
            known = value.isdecimal() and len(value) < 10 and int(value) < len(self._strings)
            return self._string(int(value)) if known else ""
        if kind == "str":
            return unescape(value)
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value, value)
        style = cell.get("s", "0")
        if kind != "n" or not style.isdecimal() or len(style) >= 10:
            return value
        if (shown := self._formats.get(int(style))) is not None:
            return shown(value)
        return self._date(value) if int(style) in self._dates else plain_number(value)

    def _string(self, index: int) -> str:
        """A string that cells share. A long one is shortened if it is repeated too often, since a
        small file could become very large."""
        text = self._strings[index]
        if len(text) <= _LONG_CHARS:
            return text
        if index not in self._written:
            self._written.add(index)
            return text
        self._repeated_chars += len(text)
        if self._repeated_chars <= _MAX_REPEATED_CHARS:
            return text
        self.shortened += 1
        return f"{text[:_SHORTENED_CHARS]}…"

    def _date(self, value: str) -> str:
        """A number of days as a date, with the time if it has one."""
        try:
            days = float(value)
        except ValueError:
            return value
        if not 0 <= days <= _MAX_DAYS:
            return value
        moment = self._epoch + timedelta(seconds=round(days * 86_400))
        if days < 1:
            return moment.strftime("%H:%M")
        return moment.strftime("%Y-%m-%d" if days == int(days) else "%Y-%m-%d %H:%M")


def _comments(archive: Archive, sheet: str) -> Iterator[tuple[str, str]]:
    """Yield the comments on the cells of a sheet, each after the name of its cell."""
    for kind, path in relations(archive, sheet).values():
        if kind in ("comments", "threadedComment"):
            root = archive.xml(path)
            for comment in [*find_all(root, "comment"), *find_all(root, "threadedComment")]:
                if text := one_line(unescape("".join(_comment_texts(comment)))):
                    yield comment.get("ref", ""), text


def _comment_texts(comment: Element) -> Iterator[str]:
    for element in comment.iter():
        if local_name(element) in ("t", "text"):
            yield element.text or ""


def _plain_texts(root: Element) -> Iterator[str]:
    """Yield the texts of a string, without its pronunciation."""
    stack = [root]
    while stack:
        element = stack.pop()
        if local_name(element) == "t":
            yield element.text or ""
        if local_name(element) != "rPh":
            stack += reversed(element)


def _sheet_texts(sheet: Element | None) -> Iterator[str]:
    """Yield the texts of a sheet that are not in its cells: hints and choices for input, hints of
    links, headers and footers."""
    for element in sheet.iter() if sheet is not None else ():
        kind = local_name(element)
        for name in _ATTRIBUTES.get(kind, ()):
            yield element.get(name, "")
        text = element.text or ""
        if kind in _HEADERS:
            yield _CODE.sub(" ", text)
        elif kind in ("formula1", "formula2") and text.startswith('"'):  # else a range of cells
            yield text


def _texts(root: Element | None) -> Iterator[str]:
    """Yield the texts of comments, charts and drawings."""
    for element in root.iter() if root is not None else ():
        if local_name(element) in ("t", "v", "text") and element.text:
            is_value = local_name(element) == "v"
            yield plain_number(element.text) if is_value else unescape(element.text)
        if local_name(element) == "cNvPr":
            yield element.get("descr", "")
