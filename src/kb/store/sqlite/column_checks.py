"""What may stand in each column, and which cells hold something else.

SQLite lets any value stand in any column, and a page that was damaged may hold anything that looks
like a row. Every cell that kb reads is listed here with what kb writes there. `kb doctor` compares
all of them; otherwise they are compared when something has gone wrong, to tell a damaged store from
a fault of kb.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from kb.errors import StoreUnusable

HINT = "see what is wrong with kb doctor, and mend what can be mended with kb doctor --fix"
_MOST = 1 << 53  # of a counter: far more than there can be, and still countable


class Cell(NamedTuple):
    """The types of SQLite that may stand in a column, and what else must hold of the value."""

    types: tuple[str, ...]
    holds: Callable[[Any], bool] | None = None


class Fault(NamedTuple):
    """A cell that holds what kb cannot have written. `key` is the row's id where it has one."""

    table: str
    key: int | None
    column: str
    raw: Any

    def __str__(self) -> str:
        row = "" if self.key is None else f" {self.key}"
        return f"{self.table}{row}: {self.column}"


def damaged(what: str) -> StoreUnusable:
    return StoreUnusable(f"the store is damaged: {what}", HINT)


# --- what may stand where -------------------------------------------------------------------------


def is_names(value: Any) -> bool:
    """A heading path: texts."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_spans(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_span, value))


def _is_span(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return False
    numbers = (value.get(name) for name in ("start", "end", "page"))
    texts = (value.get(name) for name in ("symbol", "lang"))
    return all(one is None or type(one) is int for one in numbers) and all(
        one is None or isinstance(one, str) for one in texts
    )


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _json(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def check(text: str) -> bool:
        try:
            return holds(json.loads(text))
        except (ValueError, RecursionError):
            return False

    return check


def is_path(value: str | bytes) -> bool:
    return bool(value) and 0 not in (value.encode() if isinstance(value, str) else value)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


_ANY = Cell(("integer",))
_COUNT = Cell(("integer",), lambda value: 0 <= value < _MOST)
_TEXT = Cell(("text",))
_NAME = Cell(("text",), lambda value: bool(value) and "\0" not in value)
_SAID = Cell(("text", "null"))
_TIME = Cell(("real", "integer"))
_BYTES = Cell(("blob",))

CELLS: Mapping[str, Mapping[str, Cell]] = {
    "state": {"changes": _COUNT, "chunks": _COUNT, "created_at": _TEXT, "store_id": _TEXT},
    "roots": {
        "name": _NAME,
        "path": Cell(("text", "blob"), is_path),
        "whole": Cell(("integer",), lambda value: value in (0, 1)),
    },
    "documents": {
        "root_id": Cell(("integer", "null")), "path": _NAME, "doc_path": _NAME, "title": _TEXT,
        "type": _NAME, "kind": _SAID, "scope": _NAME, "lang": _SAID, "trust": _NAME, "date": _TEXT,
        "created_at": _TEXT, "updated_at": _TEXT, "expires_at": _SAID, "indexed_at": _TEXT,
        "indexed_ns": _ANY, "access_count": _COUNT, "content_hash": _TEXT,
        "chunker_version": _TEXT, "size_bytes": _COUNT, "mtime_ns": _ANY, "ctime_ns": _ANY,
        "device": Cell(("integer", "null")), "os_path": Cell(("blob", "null"), is_path),
        "metadata": Cell(("text",), _json(is_object)), "body": _SAID,
    },
    "document_tags": {"doc_id": _ANY, "tag": _TEXT,
        "source": Cell(("text",), lambda value: value in ("file", "user")),
    },
    "chunks": {
        "doc_id": _ANY, "ordinal": _COUNT, "section_label": _SAID, "chunker_version": _TEXT,
        "content_hash": _TEXT, "indexed_at": _TEXT, "spans": Cell(("text",), _json(is_spans)),
        "heading_path": Cell(("text",), _json(is_names)), "heading": _TEXT, "text": _TEXT,
        "parts": _TEXT, "cjk": _TEXT,
    },
    "models": {
        "name": _TEXT, "version": _TEXT, "dimension": Cell(("integer",), lambda value: value > 0),
        "token_dimension": Cell(("integer", "null")),
        "role": Cell(("text", "null"), lambda value: value in ("search", "next", "gone")),
        "ready": _COUNT, "failed": _COUNT, "sparse": _COUNT, "tokens": _COUNT, "source": _SAID,
        "keep_old": _ANY, "marks": _SAID,
    },
    "embeddings": {
        "model_id": _ANY, "chunk_id": _ANY,
        "state": Cell(("text",), lambda value: value in ("pending", "ready", "failed")),
        "attempts": _COUNT,
        "embedded_at": _SAID, "error": _SAID, "dense": Cell(("blob", "null")), "sparse": _SAID,
        "tokens": Cell(("blob", "null")),
    },
    "vector_changes": {"model_id": _ANY, "chunk_id": _ANY, "stamp": _ANY},
    "vector_indexes": {"name": _TEXT, "model_id": _ANY, "change": _ANY, "stamp": _ANY},
    "sparse_terms": {"term": _TEXT},
    "sparse_segments": {"model_id": _ANY, "stamp": _ANY, "chunks": _COUNT, "chunk_ids": _BYTES},
    "sparse_postings": {"block": Cell(("blob",), lambda value: len(value) % 6 == 0)},
    "sparse_chunks": {"chunk_id": _ANY, "model_id": _ANY, "segment": _ANY},
    "sparse_gone": {"segment": _ANY, "chunk_id": _ANY},
    "sparse_pending": {"model_id": _ANY, "chunk_id": _ANY},
    "jobs": {
        "model_id": _ANY, "place": _TEXT, "pid": _ANY, "started": _TIME, "lease_until": _TIME,
        "done": _COUNT, "chunk_ids": Cell(("text",), _json(_is_ids)),
    },
    "sqlite_sequence": {"name": _TEXT, "seq": _COUNT},
}  # fmt: skip
_WITHOUT_ROWID = ("document_tags", "sparse_chunks", "sparse_gone", "sparse_pending")


def check_texts(values: Iterable[object], what: str) -> None:
    """Refuse what is neither a text nor nothing."""
    if not {type(value) for value in values} <= {str, type(None)}:
        raise damaged(what)


class Shape:
    """Checks the types of fetched rows, which cost next to nothing: few combinations occur."""

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        """`columns` are those of the rows; the first is the row's id. A name that the table does
        not have is not checked."""
        self._table = table
        self._columns = columns
        self._seen: set[tuple[type, ...]] = set()

    def check(self, row: Sequence[Any]) -> None:
        types = tuple(map(type, row))
        if types not in self._seen:
            for name, kind in zip(self._columns, types, strict=True):
                cell = CELLS[self._table].get(name)
                if cell is not None and _TYPES.get(kind, "") not in cell.types:
                    raise damaged(f"{self._table} {row[0]}: {name}")
            self._seen.add(types)


_TYPES = {int: "integer", float: "real", str: "text", bytes: "blob", type(None): "null"}


# --- looking --------------------------------------------------------------------------------------


def faults(connection: apsw.Connection, tables: Sequence[str] = tuple(CELLS)) -> Iterator[Fault]:
    """Every cell of these tables that holds what kb cannot have written."""
    for table in tables:
        known = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
        cells = {name: cell for name, cell in CELLS[table].items() if name in known}
        if cells:
            yield from _faults(connection, table, cells)


def _faults(connection: apsw.Connection, table: str, cells: Mapping[str, Cell]) -> Iterator[Fault]:
    # As bytes: a text that is not UTF-8 could not even be fetched.
    columns = ", ".join(f"typeof({name}), iif(typeof({name}) = 'text', CAST({name} AS BLOB), "
                        f"{name})" for name in cells)  # fmt: skip
    key = "NULL" if table in _WITHOUT_ROWID else "rowid"
    rows: Iterator[Any] = connection.execute(f"SELECT {key}, {columns} FROM {table}")
    for key_value, *values in rows:
        pairs = zip(values[::2], values[1::2], strict=True)
        for (name, cell), (kind, raw) in zip(cells.items(), pairs, strict=True):
            if kind not in cell.types or not _holds(cell, kind, raw):
                yield Fault(table, key_value, name, raw)


def _holds(cell: Cell, kind: str, raw: Any) -> bool:
    try:
        value = raw.decode() if kind == "text" else raw
    except UnicodeDecodeError:
        return False
    return value is None or cell.holds is None or cell.holds(value)


def diagnosis(connection: apsw.Connection) -> str | None:
    """What is damaged, in words, if something is; the first that is found."""
    from kb.store.sqlite import posting_integrity

    try:
        fault = next(faults(connection), None)
        if fault is not None:
            return str(fault)
        wrong = posting_integrity.fault(connection)
        return None if wrong is None else f"the index of sparse vectors: {wrong}"
    except Exception as error:  # noqa: BLE001  # whatever a damaged page makes of a row
        return f"it cannot be read ({error})"
