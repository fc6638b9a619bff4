"""The valid values of each column, and the cells with other values.

SQLite accepts any value in any column, and a damaged page may contain anything that looks like a
row. Every cell that kb reads is listed here with the values that kb writes. `kb doctor` checks all
cells; otherwise they are checked after an error, to distinguish a damaged store from a bug in kb.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apsw

from kb.errors import StoreUnusable
from kb.values import Any, NamedTuple

HINT = "run kb doctor to see what is wrong, and kb doctor --fix to repair it"
_MOST = 1 << 53  # a counter is never larger
_MOST_DIMENSION = 1 << 16  # of a vector; models have a few thousand


class Cell(NamedTuple):
    """The SQLite types that a column may have, and a condition on the value."""

    types: tuple[str, ...]
    holds: Callable[[Any], bool] | None = None


class Fault(NamedTuple):
    """A cell with a value that kb cannot have written. `key` is the id of the row, if it has
    one."""

    table: str
    key: int | None
    column: str
    raw: Any

    def __str__(self) -> str:
        row = "" if self.key is None else f" {self.key}"
        return f"{self.table}{row}: {self.column}"


def damage_error(what: str) -> StoreUnusable:
    return StoreUnusable(f"the store is damaged: {what}", HINT)


# --- valid values ---------------------------------------------------------------------------------


def is_names(value: Any) -> bool:
    """Whether a value is a heading path: a list of strings."""
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


def _is_dimension(value: int) -> bool:
    return 0 < value <= _MOST_DIMENSION


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
    "removed_documents": {
        "root_path": Cell(("text", "blob"), is_path), "path": _NAME, "access_count": _COUNT,
        "user_tags": Cell(("text",), _json(is_names)),
    },
    "chunks": {
        "doc_id": _ANY, "ordinal": _COUNT, "section_label": _SAID, "chunker_version": _TEXT,
        "content_hash": _TEXT, "indexed_at": _TEXT, "spans": Cell(("text",), _json(is_spans)),
        "heading_path": Cell(("text",), _json(is_names)), "heading": _TEXT, "text": _TEXT,
        "parts": _TEXT, "cjk": _TEXT,
    },
    "models": {
        "name": _NAME, "version": _TEXT, "dimension": Cell(("integer",), _is_dimension),
        "token_dimension": Cell(("integer", "null"), _is_dimension),
        "role": Cell(("text", "null"), lambda value: value in ("search", "next", "gone")),
        "ready": _COUNT, "failed": _COUNT, "sparse": _COUNT, "tokens": _COUNT, "source": _SAID,
        "keep_old": _ANY, "marks": _SAID,
    },
    "embeddings": {
        "model_id": _ANY, "chunk_id": _ANY,
        "state": Cell(("text",), lambda value: value in ("pending", "ready", "failed")),
        "attempts": _COUNT,
        "embedded_at": _SAID, "error": _SAID, "dense": Cell(("blob", "null")),
        "sparse": Cell(("text", "blob", "null")),
        "tokens": Cell(("blob", "null")),
    },
    "vector_pieces": {"data": _BYTES},
    "vector_changes": {"model_id": _ANY, "chunk_id": _ANY, "stamp": _ANY},
    "text_changes": {"chunk_id": _ANY, "stamp": _ANY},
    "vector_indexes": {"name": _TEXT, "model_id": _ANY, "change": _ANY, "stamp": _ANY},
    "sparse_terms": {"term": _TEXT},
    "sparse_segments": {"model_id": _ANY, "stamp": _ANY, "chunks": _COUNT, "chunk_ids": _BYTES},
    "sparse_postings": {
        "block": Cell(("blob",), lambda value: len(value) % 6 == 0 or len(value) % 4 == 1)
    },
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
    """Raise `StoreUnusable` if a value is neither a string nor None."""
    if not {type(value) for value in values} <= {str, type(None)}:
        raise damage_error(what)


class Shape:
    """Checks the types of fetched rows. The check is cheap, because few combinations occur."""

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        """`columns` are the columns of the rows; the first one is the id. Names that the table does
        not have are not checked."""
        self._table = table
        self._columns = columns
        self._seen: set[tuple[type, ...]] = set()

    def check(self, row: Sequence[Any]) -> None:
        types = tuple(map(type, row))
        if types not in self._seen:
            for name, kind in zip(self._columns, types, strict=True):
                cell = CELLS[self._table].get(name)
                if cell is not None and _TYPES.get(kind, "") not in cell.types:
                    raise damage_error(f"{self._table} {row[0]}: {name}")
            self._seen.add(types)


_TYPES = {int: "integer", float: "real", str: "text", bytes: "blob", type(None): "null"}


# --- finding faults -------------------------------------------------------------------------------


def faults(connection: apsw.Connection, tables: Sequence[str] = tuple(CELLS)) -> Iterator[Fault]:
    """Every cell of these tables with a value that kb cannot have written."""
    for table in tables:
        known = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
        cells = {name: cell for name, cell in CELLS[table].items() if name in known}
        if cells:
            yield from _faults(connection, table, cells)


def _faults(connection: apsw.Connection, table: str, cells: Mapping[str, Cell]) -> Iterator[Fault]:
    # As bytes, because text that is not UTF-8 cannot be fetched.
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
    """A description of the first damaged part of the store; None if nothing is damaged."""
    from kb.store.sqlite import posting_integrity

    try:
        fault = next(faults(connection), None)
        if fault is not None:
            return str(fault)
        wrong = posting_integrity.fault(connection)
        return None if wrong is None else f"the sparse index: {wrong}"
    except Exception as error:  # noqa: BLE001  # a damaged page can raise anything
        return f"it cannot be read ({error})"
