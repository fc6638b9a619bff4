"""What the zip-based office formats share: properties, relations between parts, embedded files,
rows of sheets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kb.ingest import dates
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.zip_archive import Archive, find_all, local_name, resolve_href
from kb.types import Attributes

_OLE = b"\xd0\xcf\x11\xe0"  # the container of encrypted and of old office files
_PRINTED = ("Microsoft Word", "Microsoft PowerPoint")  # titles set by a printer driver
_ROWS, _ROWS_CHARS = 50, 400  # of a block
_MAX_WORKBOOKS, _NAMED = 20, 5  # embedded workbooks to read; files to name in a warning
# A character that XML does not allow, or that would look like such an escape: `_x000D_`, `_x005F_`.
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_KNOWN = {"creator": "author", "subject": "subject", "keywords": "keywords"}
SHOWN_PROPERTIES = ("title", "subject", "creator", "keywords", "description", "category")


def open_archive(data: bytes, suffix: str) -> Archive:
    """The parts of an office file. Raises `Unsupported` if it is encrypted or of an old format."""
    if data.startswith(_OLE):
        raise Unsupported(
            f"encrypted: save a copy without a password (for an old file, as {suffix})"
        )
    return Archive(data)


def properties_of(archive: Archive) -> dict[str, str]:
    """The properties that the author sees, without empty ones."""
    root = archive.xml("docProps/core.xml")
    elements = root if root is not None else ()
    properties = {local_name(each): one_line(each.text or "") for each in elements}
    if properties.get("title", "").startswith(_PRINTED):
        properties.pop("title")
    return {key: text for key, text in properties.items() if text}


def attributes_of(properties: dict[str, str]) -> Attributes:
    """The attributes of a document with these properties."""
    created, modified = (dates.parse(properties.get(key, "")) for key in ("created", "modified"))
    metadata: dict[str, Any] = {
        name: properties[key] for key, name in _KNOWN.items() if key in properties
    }
    return Attributes(
        date=created,
        created_at=dates.moment(created) if created else None,
        updated_at=dates.moment(modified) if modified else None,
        metadata=metadata,
    )


def relations(archive: Archive, path: str) -> dict[str, tuple[str, str]]:
    """The parts that the part at `path` names, by the id of the relation: kind and path. Addresses
    outside the file are left out."""
    folder, _, name = path.rpartition("/")
    root = archive.xml(f"{folder}/_rels/{name}.rels".removeprefix("/"))
    return {
        each.get("Id", ""): (
            each.get("Type", "").rpartition("/")[2],
            resolve_href(path, each.get("Target", "")),
        )
        for each in (root if root is not None else ())
        if each.get("TargetMode") != "External"
    }


def embedded_texts(archive: Archive, folder: str, warnings: list[str]) -> Iterator[str]:
    """Yield the texts in the cells of embedded workbooks, of which the document shows only
    pictures. Adds a warning that names the other embedded files, which are not read."""
    names = [name for name in archive.names() if name.startswith(f"{folder}/")]
    workbooks = [name for name in names if name.lower().endswith((".xlsx", ".xlsm"))]
    workbooks = workbooks[:_MAX_WORKBOOKS]
    for name in workbooks:
        try:
            root = Archive(archive.read(name) or b"").xml("xl/sharedStrings.xml")
        except (Unreadable, Unsupported):
            warnings.append(f"{name}: the embedded workbook cannot be read")
            continue
        for cell in find_all(root, "si"):
            yield "".join(part.text or "" for part in find_all(cell, "t"))
    warn_of_embedded((name for name in names if name not in workbooks), warnings)


def warn_of_embedded(names: Iterable[str], warnings: list[str]) -> None:
    """Add a warning that names embedded files which are not read, if there are any."""
    files = [base for name in names if (base := name.rpartition("/")[2])]
    if files:
        more = f", and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        warnings.append(f"embedded files are not read: {', '.join(files[:_NAMED])}{more}")


def unescape(text: str) -> str:
    """The text with the characters that its escapes stand for; controls become spaces. Excel and
    PowerPoint write line ends and tabs in this way."""
    if "_x" not in text:
        return text
    chars = {each: chr(int(each, 16)) for each in _ESCAPED.findall(text)}
    shown = {each: char if char.isprintable() else " " for each, char in chars.items()}
    return _ESCAPED.sub(lambda match: shown[match[1]], text)


def write_rows(out: Extract, sheet: str, rows: Iterable[tuple[str, str]]) -> None:
    """Write the rows of a sheet, each given as the name of its first cell and its line. The rows
    are written in short blocks, so that a citation, which names the first cell of a block, is close
    to the cited words."""
    lines: list[str] = []
    chars = 0
    for cell, line in rows:
        if chars > _ROWS_CHARS or len(lines) == _ROWS:
            out.lines(lines)
            lines, chars = [], 0
        if not lines:
            out.place = f"{sheet}!{cell}"
        lines.append(line)
        chars += len(line)
    out.lines(lines)
