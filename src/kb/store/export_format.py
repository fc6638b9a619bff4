"""The format `export.v1`, a store as lines of JSON: a header, then roots, documents, chunks and
what is kept of removed documents, each ordered by id.

Derived data (the indexes and their columns) is left out, and the import recomputes it. Vectors,
which take a long time to compute, are included with their chunks on request, and their models in
the header. Columns with JSON are written as JSON, and bytes as `{"base64": ...}`. This module does
no I/O and runs no SQL.
"""

from __future__ import annotations

import base64
import binascii
import json
import ntpath
import os
import posixpath
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kb.errors import (
    BrokenImport,
    InvalidRequest,
    StoreTooNew,
    StoreUnusable,
    is_unicode,
    short_repr,
)
from kb.metadata import LEGACY_TAGS, LEGACY_TEXT_CHARS, check_metadata
from kb.regular_files import OutsideRoot, names_inside
from kb.store.sqlite import column_checks
from kb.types import KINDS, SCOPES, TRUSTS, JsonDict

SCHEMA = "export.v1"
STORE_SCHEMA = 15  # the schema of the SQLite store, whose columns the records have

# The types that each field may have. Every column of the tables is listed in order, which a test
# checks. `tags` and `embeddings` come from separate tables; only complete embeddings are exported.
_ID, _TEXT, _SAID = (int,), (str,), (str, type(None))
HEADER: Mapping[str, tuple[type, ...]] = {
    "schema_version": _TEXT, "kb": _TEXT, "store_schema": _ID, "created_at": _TEXT, "changes": _ID,
    "counts": (dict,), "sequences": (dict,),
}  # fmt: skip
ROOT: Mapping[str, tuple[type, ...]] = {
    "root_id": _ID, "name": _TEXT, "path": (str, bytes), "whole": _ID,
}  # fmt: skip
DOCUMENT: Mapping[str, tuple[type, ...]] = {
    "doc_id": _ID, "root_id": (int, type(None)), "path": _TEXT, "doc_path": _TEXT, "title": _TEXT,
    "type": _TEXT, "kind": _SAID, "scope": _TEXT, "lang": _SAID, "trust": _TEXT, "date": _TEXT,
    "created_at": _TEXT, "updated_at": _TEXT, "expires_at": _SAID, "indexed_at": _TEXT,
    "indexed_ns": _ID, "access_count": _ID, "content_hash": _TEXT, "chunker_version": _TEXT,
    "size_bytes": _ID, "mtime_ns": _ID, "ctime_ns": _ID, "device": (int, type(None)),
    "os_path": (bytes, type(None)), "metadata": (dict,), "body": _SAID,
}  # fmt: skip
CHUNK: Mapping[str, tuple[type, ...]] = {
    "chunk_id": _ID, "doc_id": _ID, "ordinal": _ID, "section_label": _SAID,
    "chunker_version": _TEXT, "content_hash": _TEXT, "indexed_at": _TEXT, "spans": (list,),
    "heading_path": (list,), "heading": _TEXT, "text": _TEXT,
}  # fmt: skip
REMOVED: Mapping[str, tuple[type, ...]] = {
    "removed_id": _ID, "root_path": (str, bytes), "path": _TEXT, "access_count": _ID,
    "user_tags": (list,),
}  # fmt: skip
MODEL: Mapping[str, tuple[type, ...]] = {
    "model_id": _ID, "name": _TEXT, "version": _TEXT, "dimension": _ID,
    "token_dimension": (int, type(None)), "role": _SAID, "source": _SAID,
    "marks": (list, type(None)),
}  # fmt: skip
EMBEDDING: Mapping[str, tuple[type, ...]] = {
    "model_id": _ID, "embedded_at": _SAID, "dense": (bytes,), "sparse": (dict, type(None)),
    "tokens": (bytes, type(None)),
}  # fmt: skip
RECORDS = {"root": ROOT, "document": DOCUMENT, "chunk": CHUNK, "removed_document": REMOVED}
TABLES = {
    "root": "roots",
    "document": "documents",
    "chunk": "chunks",
    "removed_document": "removed_documents",
}
JSON_COLUMNS = ("metadata", "spans", "heading_path", "marks", "user_tags")
_BESIDES: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "document": {"tags": (dict,)},
    "chunk": {"embeddings": (list, type(None))},
}
_SMALL_BYTES = 1 << 20
_MAX_VALUES = 1_000_000  # in a line
_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_MOST_ID = 1 << 52  # `kb doctor` accepts twice as many: an imported store can still grow
_MOST_NUMBER = 1 << 63
_CLOSED = {"kind": (*KINDS, None), "scope": SCOPES, "trust": TRUSTS}
_TIMES = ("created_at", "updated_at", "expires_at", "indexed_at", "embedded_at", "date")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", re.ASCII)


# --- exporting ------------------------------------------------------------------------------------


def line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=_bytes_as_json)
    return text.encode() + b"\n"


def from_row(kind: str, row: tuple[Any, ...]) -> JsonDict:
    """The record of a row with the columns of `RECORDS[kind]`."""
    record = dict(zip(RECORDS[kind], row, strict=True))
    for name in JSON_COLUMNS:
        if name in record:
            record[name] = _stored_json(record[name], f"{name} of {kind} {row[0]}")
    return {"record": kind} | record


def _stored_json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreUnusable(
            f"the {what} are damaged ({error})",
            "restore a backup, or remove that document with kb rm",
        ) from error


def _bytes_as_json(value: Any) -> JsonDict:
    return {"base64": base64.b64encode(value).decode("ascii")}


# --- importing ------------------------------------------------------------------------------------


def parse(raw: bytes, number: int) -> JsonDict:
    """Parse a line as an object. `number` is the line number for errors."""
    if len(raw) > _SMALL_BYTES and _structure(raw) > _MAX_VALUES:
        raise broken_line(number, f"more than {_MAX_VALUES:,} values in one line")
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise broken_line(number, f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise broken_line(number, "not a JSON object")
    return value


def _structure(raw: bytes) -> int:
    """A lower bound for the number of values in a line: parsed values take far more memory than
    their text."""
    return len(_OUTSIDE_STRINGS.sub(b"", raw).translate(None, _NO_STRUCTURE))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def header(raw: bytes, store_schema: int) -> JsonDict:
    """Check the header of an export for a store with schema `store_schema`."""
    header = parse(raw, 1)
    version = header.get("schema_version")
    if not isinstance(version, str) or not version.startswith("export."):
        raise broken_line(1, "not the header of an export")
    newer = header.get("store_schema")
    if version != SCHEMA or (isinstance(newer, int) and newer > store_schema):
        raise too_new(1, f"{version} of schema {newer}")
    _check(header, {**HEADER, "models": (list,)}, 1, optional=("models",))
    for model in header.setdefault("models", []):
        if isinstance(model, dict):
            model.setdefault("source", None)  # new in schema 4
            model.setdefault("marks", None)  # new in schema 6
        _check_marks(_check_object(model, MODEL, 1))
        _check_cells("models", model, 1)
    for name in ("counts", "sequences"):
        header[name].setdefault("removed_documents", 0)  # new in schema 13
        _check(header[name], dict.fromkeys(TABLES.values(), _ID), 1)
    return header


def _check_marks(model: JsonDict) -> None:
    for mark in model["marks"] or ():
        if not isinstance(mark, list) or [type(each) for each in mark] != [str, str, int, int]:
            raise broken_line(1, "an invalid exam result")


def record(raw: bytes, number: int) -> tuple[str, JsonDict]:
    """Check a line after the header. Returns its kind and the values of its columns."""
    value = parse(raw, number)
    kind = value.pop("record", None)
    if not isinstance(kind, str):
        raise broken_line(number, "`record` is missing")
    if kind not in RECORDS:
        raise too_new(number, f"a record of kind {kind!r}")
    fields = {**RECORDS[kind], **_BESIDES.get(kind, {})}
    if kind == "chunk" and isinstance(value.setdefault("embeddings", []), list | None):
        value["embeddings"] = [_embedding(one, number) for one in value["embeddings"] or ()]
    for name, each in value.items():
        if bytes in fields.get(name, ()):
            value[name] = _decode_bytes(each, number)
    _check(value, fields, number)
    _check_cells(TABLES[kind], value, number)
    _check_inside(value, number)
    if kind == "root":
        _check_root(value, number)
    elif kind == "removed_document":
        _check_folder("root_path", value, number)
        _check_place(value, number)
    elif kind == "document" and value["root_id"] is not None:
        _check_place(value, number)
    return kind, value


def _embedding(value: Any, number: int) -> JsonDict:
    """Check one entry of a chunk's `embeddings`, and decode its vectors."""
    if isinstance(value, dict):
        value |= {name: _decode_bytes(value.get(name), number) for name in ("dense", "tokens")}
    checked = _check_object(value, EMBEDDING, number)
    if not all(type(weight) in (int, float) for weight in (checked["sparse"] or {}).values()):
        raise broken_line(number, "the weight of a token is not a number")
    return checked


def as_columns(record: Mapping[str, Any]) -> JsonDict:
    """The values in the form that the tables store."""
    return {
        name: json.dumps(value, ensure_ascii=False)
        if name in JSON_COLUMNS and value is not None
        else value
        for name, value in record.items()
        if name not in ("tags", "embeddings")
    }


def broken_line(number: int, why: str) -> BrokenImport:
    return BrokenImport(f"line {number}: {why}", "nothing was imported; export again")


def too_new(number: int, what: str) -> StoreTooNew:
    return StoreTooNew(
        f"line {number}: {what} was written by a newer kb", "upgrade with: pip install -U kb-search"
    )


def _decode_bytes(value: Any, number: int) -> Any:
    """Decode a value that represents bytes."""
    if not isinstance(value, dict) or set(value) != {"base64"}:
        return value
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise broken_line(number, f"not base64 ({error})") from error


def _check_object(value: Any, fields: Mapping[str, tuple[type, ...]], number: int) -> JsonDict:
    if not isinstance(value, dict):
        raise broken_line(number, f"not an object: {short_repr(value)}")
    _check(value, fields, number)
    return value


def _check(
    value: Mapping[str, Any],
    fields: Mapping[str, tuple[type, ...]],
    number: int,
    optional: tuple[str, ...] = (),
) -> None:
    if missing := [name for name in fields if name not in value and name not in optional]:
        raise broken_line(number, f"{missing[0]!r} is missing")
    for name, each in value.items():
        if name not in fields:
            raise too_new(number, f"the field {name!r}")
        if type(each) not in fields[name] or each not in _CLOSED.get(name, (each,)):
            raise broken_line(number, f"{name!r} cannot be {short_repr(each)}")
        if type(each) is int and not _fits(name, each):
            raise broken_line(number, f"{name!r} cannot be {short_repr(each)}")
        if type(each) is str and not is_unicode(each):
            raise broken_line(number, f"{name!r} is not Unicode text")
        if type(each) is str and name in _TIMES and not _is_time(name, each):
            raise broken_line(number, f"{name!r} cannot be {short_repr(each)}")


def _is_time(name: str, value: str) -> bool:
    """Whether a value is a time as kb writes it; `date` may also be a day. Times are compared as
    text, so that one in another form would hide a document or put it at the wrong place."""
    if not _TIME.fullmatch(value) or (len(value) == len("2026-01-31") and name != "date"):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _fits(name: str, value: int) -> bool:
    """Whether there is room for further ids after this one, since new ids follow the highest
    one."""
    if name.endswith("_id") or name in _COUNTED:
        return (1 if name.endswith("_id") else 0) <= value < _MOST_ID
    return -_MOST_NUMBER <= value < _MOST_NUMBER


_COUNTED = ("access_count", "changes", "chunks", "dimension", "documents", "ordinal",
            "removed_documents", "roots", "size_bytes", "token_dimension")  # fmt: skip


def _check_inside(value: Mapping[str, Any], number: int) -> None:
    """Check values that would make a search fail."""
    for span in value.get("spans", ()):
        if not column_checks.is_spans([span]) or not _is_place(span):
            raise broken_line(number, f"not a span: {short_repr(span)}")
    if not column_checks.is_names(value.get("heading_path", [])):
        raise broken_line(number, "a heading is not a string")
    if not column_checks.is_names(value.get("user_tags", [])):
        raise broken_line(number, "a tag is not a string")
    if "metadata" in value:
        try:
            check_metadata(value["metadata"], stored=True)
        except InvalidRequest as error:
            raise broken_line(number, error.message) from error
    if len(value.get("lang") or "") > LEGACY_TEXT_CHARS:
        raise broken_line(number, f"'lang' is longer than {LEGACY_TEXT_CHARS:,} characters")
    tags = value.get("tags", dict.fromkeys(value.get("user_tags", ()), "user"))
    if len(tags) > LEGACY_TAGS:
        raise broken_line(number, f"a document has more than {LEGACY_TAGS:,} tags")
    for tag, source in tags.items():
        if not tag:
            raise broken_line(number, "a tag is empty")
        if len(tag) > LEGACY_TEXT_CHARS:
            raise broken_line(
                number, f"the tag {short_repr(tag)} is longer than {LEGACY_TEXT_CHARS:,} characters"
            )
        if source not in ("file", "user"):
            raise broken_line(number, f"the tag {tag!r} cannot come from {source!r}")


def _is_place(span: Mapping[str, Any]) -> bool:
    """Whether the line or page numbers of a span count from 1 and are in order. Spans of other
    kinds are not checked: their numbers may be times or coordinates."""
    start, end, page = (span.get(name) for name in ("start", "end", "page"))
    if span["kind"] not in ("line", "page", "code"):
        return bool(span["kind"])
    numbers = [one for one in (start, end, page) if one is not None]
    in_order = start is None or end is None or start <= end
    return in_order and all(0 < one < _MOST_ID for one in numbers)


def _check_root(value: Mapping[str, Any], number: int) -> None:
    """Check the name and the absolute path of a root, which may come from any operating system."""
    name = value["name"]
    is_nfc = unicodedata.is_normalized("NFC", name)
    if not name or "/" in name or "\0" in name or name.startswith("note:") or not is_nfc:
        raise broken_line(number, f"'name' of a root cannot be {short_repr(name)}")
    _check_folder("path", value, number)


def _check_folder(name: str, value: Mapping[str, Any], number: int) -> None:
    path = os.fsdecode(value[name])
    if "\0" in path or not (posixpath.isabs(path) or ntpath.isabs(path)):
        raise broken_line(number, f"{name!r} of a root cannot be {short_repr(path)}")


def _check_place(value: Mapping[str, Any], number: int) -> None:
    """Check that a document's file is inside its root, under both of its names, and that no other
    spelling of its path leads to another document."""
    if not unicodedata.is_normalized("NFC", value["path"]):
        raise broken_line(number, f"'path' cannot be {short_repr(value['path'])}")
    for name in ("path", "os_path"):
        try:
            if value.get(name) is not None:
                names_inside(os.fsdecode(value[name]))
        except OutsideRoot:
            raise broken_line(number, f"{name!r} cannot be {short_repr(value[name])}") from None


def _check_cells(table: str, value: Mapping[str, Any], number: int) -> None:
    """Check that `kb doctor` would accept the values. JSON values are checked elsewhere."""
    for name, cell in column_checks.CELLS[table].items():
        each = value.get(name)
        if each is None or cell.holds is None or name in JSON_COLUMNS:
            continue
        if not cell.holds(each):
            raise broken_line(number, f"{name!r} cannot be {short_repr(each)}")
