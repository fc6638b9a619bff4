"""Roots, and the recorded states of their files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import apsw

from kb.store.sqlite import column_checks, removed_documents
from kb.store.sqlite import filters as where
from kb.store.sqlite.functions import scalar
from kb.text.timestamps import utc_timestamp
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.types import FileLocation, FileState, Filters, Root


_ROOT = column_checks.Shape("roots", ("root_id", "name", "path", "whole", "detached"))
_STATE_COLUMNS = (
    "doc_id", "path", "size_bytes", "mtime_ns", "ctime_ns", "device", "os_path", "content_hash",
    "indexed_ns", "chunker_version",
)  # fmt: skip
_STATE = column_checks.Shape("documents", (*_STATE_COLUMNS, "detached"))


def roots(connection: apsw.Connection, filters: Filters | None = None) -> list[Root]:
    from kb.types import Root

    only, params = _used_roots(connection, filters)
    sql = (
        "SELECT root_id, name, path, whole, root_id IN (SELECT root_id FROM detached_roots) "
        f"FROM roots WHERE {only} ORDER BY path"
    )
    records = []
    for row in connection.execute(sql, params):
        _ROOT.check(row)
        root_id, name, path, whole, detached = row
        if not column_checks.is_path(path):
            raise column_checks.damage_error(f"roots {root_id}: path")
        records.append(Root(root_id, name, os.fsdecode(path), bool(whole), bool(detached)))
    return records


def _used_roots(
    connection: apsw.Connection, filters: Filters | None
) -> tuple[str, tuple[Any, ...]]:
    """The SQL condition on `root_id` that selects roots with a matching document; without filters,
    all roots."""
    if not filters:
        return "1", ()
    sql, params = where.condition(connection, filters, None)
    return f"root_id IN (SELECT d.root_id FROM documents d WHERE {sql})", tuple(params)


def ensure_root(
    connection: apsw.Connection, path: str, *, whole: bool, detached: bool = False
) -> Root:
    """Return the root at `path`, and create it if needed. A root that is marked as `whole` stays
    so. A detached root is attached and gets the new `whole`, unless the caller wants it
    `detached`."""
    known = {root.path: root for root in roots(connection)}
    if (root := known.get(path)) is None:
        from kb.store.root_names import free_name  # a search needs no names

        name = free_name(path, {root.name for root in known.values()})
        connection.execute(
            "INSERT INTO roots (name, path, whole) VALUES (?, ?, ?)",
            (name, _as_stored(path), whole),
        )
        if detached:
            detach_root(connection, connection.last_insert_rowid())
    elif root.detached and not detached:
        connection.execute("DELETE FROM detached_roots WHERE root_id = ?", (root.root_id,))
        connection.execute("UPDATE roots SET whole = ? WHERE root_id = ?", (whole, root.root_id))
    elif whole and not root.whole:
        connection.execute("UPDATE roots SET whole = 1 WHERE root_id = ?", (root.root_id,))
    return next(root for root in roots(connection) if root.path == path)


def detach_root(connection: apsw.Connection, root_id: int) -> None:
    connection.execute("INSERT INTO detached_roots VALUES (?) ON CONFLICT DO NOTHING", (root_id,))


def detach_document(connection: apsw.Connection, doc_id: int) -> None:
    sql = "INSERT INTO detached_documents VALUES (?) ON CONFLICT DO NOTHING"
    connection.execute(sql, (doc_id,))


def attach_document(connection: apsw.Connection, doc_id: int) -> None:
    connection.execute("DELETE FROM detached_documents WHERE doc_id = ?", (doc_id,))


def attach_root(connection: apsw.Connection, root_id: int, path: str) -> None:
    """Set the folder of a root. Its documents stay detached until an ingest finds their files."""
    before: Any = scalar(connection, "SELECT path FROM roots WHERE root_id = ?", (root_id,))
    connection.execute("UPDATE roots SET path = ? WHERE root_id = ?", (_as_stored(path), root_id))
    removed_documents.move(connection, before, _as_stored(path))
    connection.execute("DELETE FROM detached_roots WHERE root_id = ?", (root_id,))
    connection.execute(
        "INSERT INTO detached_documents SELECT doc_id FROM documents WHERE root_id = ? "
        "ON CONFLICT DO NOTHING",
        (root_id,),
    )


def drop_empty_roots(connection: apsw.Connection, names: Iterable[str] = ()) -> None:
    """Delete the roots without documents that have one of these names or are not whole."""
    connection.execute(
        "DELETE FROM roots WHERE (NOT whole OR name IN (SELECT value FROM json_each(?))) "
        "AND root_id NOT IN (SELECT root_id FROM documents WHERE root_id IS NOT NULL)",
        (json.dumps(list(names)),),
    )


def file_states(connection: apsw.Connection, root_id: int) -> dict[str, FileState]:
    from kb.types import FileState

    sql = (
        f"SELECT {', '.join(_STATE_COLUMNS)}, doc_id IN (SELECT doc_id FROM detached_documents) "
        "FROM documents WHERE root_id = ?"
    )
    states = {}
    for row in connection.execute(sql, (root_id,)):
        _STATE.check(row)
        states[row[1]] = FileState(*row)
    return states


def sample(connection: apsw.Connection, limit: int) -> list[tuple[int, FileLocation]]:
    """A random sample of the documents whose files may be read: their ids and files."""
    import random  # needed by `kb doctor` only

    ids = [doc_id for (doc_id,) in connection.execute(
        "SELECT d.doc_id FROM documents d JOIN roots USING (root_id) "
        "WHERE root_id NOT IN (SELECT root_id FROM detached_roots) "
        "AND doc_id NOT IN (SELECT doc_id FROM detached_documents)")]  # fmt: skip
    chosen = sorted(random.sample(ids, min(limit, len(ids))))
    return sorted(locations(connection, chosen).items())


def per_root(connection: apsw.Connection, filters: Filters | None = None) -> dict[str, int]:
    sql = (
        "SELECT r.name, count(d.doc_id) FROM roots r LEFT JOIN documents d USING (root_id) "
        "{} GROUP BY r.root_id ORDER BY r.name"
    )
    if not filters:
        return dict(connection.execute(sql.format("")))
    condition, params = where.condition(connection, filters, None)
    return dict(connection.execute(sql.format(f"WHERE {condition}"), tuple(params)))


def touch_file(connection: apsw.Connection, state: FileState, now_ns: int) -> None:
    """Record new times and a new location of a file whose content is unchanged. Dates that come
    from the old modification time are updated."""
    row = connection.execute(
        "SELECT mtime_ns, date, created_at, updated_at FROM documents WHERE doc_id = ?",
        (state.doc_id,),
    ).fetchone()
    if row is None:
        return
    before, after = (_moment(mtime_ns) for mtime_ns in (row[0], state.mtime_ns))
    dates = [after if date == before else date for date in row[1:]]
    connection.execute(
        "UPDATE documents SET size_bytes = ?, mtime_ns = ?, ctime_ns = ?, device = ?, os_path = ?, "
        "indexed_ns = ?, date = ?, created_at = ?, updated_at = ? WHERE doc_id = ?",
        (state.size_bytes, state.mtime_ns, state.ctime_ns, state.device, state.os_path,
         now_ns, *dates, state.doc_id),
    )  # fmt: skip
    attach_document(connection, state.doc_id)
    if dates != list(row[1:]):  # filters use these dates
        connection.execute("UPDATE state SET changes = changes + 1")


def _moment(time_ns: int) -> str:
    return utc_timestamp(time_ns // 1_000_000_000)


def locations(connection: apsw.Connection, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
    """The locations of documents' files, by document id. Notes have no file."""
    from kb.types import FileLocation

    rows = connection.execute(
        "SELECT d.doc_id, r.path, d.path, d.os_path, "
        "r.root_id IN (SELECT root_id FROM detached_roots) "
        "OR d.doc_id IN (SELECT doc_id FROM detached_documents) "
        "FROM documents d JOIN roots r USING (root_id) "
        "WHERE d.doc_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(doc_ids)),),
    )
    return {
        doc_id: FileLocation(
            os.fsdecode(root), os.fsdecode(raw if raw is not None else inside), bool(detached)
        )
        for doc_id, root, inside, raw, detached in rows
    }


def _as_stored(path: str) -> str | bytes:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path
