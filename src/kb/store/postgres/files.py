"""Roots, and the recorded states of their files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kb.store.postgres import filters as where
from kb.store.postgres import removed_documents
from kb.store.postgres.documents import summed
from kb.store.root_names import free_name
from kb.text.timestamps import utc_timestamp
from kb.types import FileLocation, FileState, Filters, Root

if TYPE_CHECKING:
    from kb.store.postgres.session import Session

_STATE = (
    "doc_id, path, size_bytes, mtime_ns, ctime_ns, device, os_path, content_hash, indexed_ns, "
    "chunker_version, detached"
)
# A folder of another machine is not read, even if this one has a folder with its path.
_DETACHED = "(r.detached OR coalesce(r.machine <> %s, false))"


def roots(session: Session, filters: Filters | None = None) -> list[Root]:
    """The roots; with `filters`, only those with a document that matches."""
    only = "true"
    params: tuple[Any, ...] = ()
    if filters:
        sql, params = where.condition(session, filters, None)
        only = f"root_id IN (SELECT d.root_id FROM documents d WHERE {sql})"
    rows = session.execute(
        f"SELECT root_id, name, path, whole, {_DETACHED}, nullif(r.machine, %s) FROM roots r "
        f"WHERE {only}",
        (session.machine, session.machine, *params),
    ).fetchall()
    rows.sort(key=itemgetter(2))  # the path, which is a `bytes`
    return [
        Root(root_id, name, os.fsdecode(path), whole, detached, machine)
        for root_id, name, path, whole, detached, machine in rows
    ]


def ensure_root(session: Session, path: str, *, whole: bool, detached: bool = False) -> Root:
    """Return the root at `path`, and create it if needed. A root that is marked as `whole` stays
    so. A detached root is attached and gets the new `whole`, unless the caller wants it `detached`;
    its documents stay detached until an ingest finds their files."""
    known = {root.path: root for root in roots(session)}
    if (root := known.get(path)) is None:
        name = free_name(path, {root.name for root in known.values()})
        session.execute(
            "INSERT INTO roots (name, path, whole, detached, machine) VALUES (%s, %s, %s, %s, %s)",
            (name, os.fsencode(path), whole, detached, session.machine),
        )
    elif root.detached and not detached:
        session.execute(
            "UPDATE roots SET detached = false, whole = %s, machine = %s WHERE root_id = %s",
            (whole, session.machine, root.root_id),
        )
        session.execute("UPDATE documents SET detached = true WHERE root_id = %s", (root.root_id,))
    elif whole and not root.whole:
        session.execute("UPDATE roots SET whole = true WHERE root_id = %s", (root.root_id,))
    return next(root for root in roots(session) if root.path == path)


def attach_root(session: Session, root_id: int, path: str) -> None:
    """Set the folder of a root. Its documents stay detached until an ingest finds their files."""
    before = session.value("SELECT path FROM roots WHERE root_id = %s", (root_id,))
    session.execute(
        "UPDATE roots SET path = %s, detached = false, machine = %s WHERE root_id = %s",
        (os.fsencode(path), session.machine, root_id),
    )
    removed_documents.move(session, before, os.fsencode(path))
    session.execute("UPDATE documents SET detached = true WHERE root_id = %s", (root_id,))


def drop_empty_roots(session: Session, names: Iterable[str] = ()) -> None:
    """Delete the roots without documents that have one of these names or are not whole."""
    session.execute(
        "DELETE FROM roots r WHERE (NOT whole OR name = ANY (%s)) "
        "AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.root_id = r.root_id)",
        (list(names),),
    )


def file_states(session: Session, root_id: int) -> dict[str, FileState]:
    rows = session.execute(f"SELECT {_STATE} FROM documents WHERE root_id = %s", (root_id,))
    return {row[1]: FileState(*row) for row in rows}


def sample(session: Session, limit: int) -> list[tuple[int, FileLocation]]:
    """A random sample of the documents whose files may be read: their ids and files."""
    rows = session.execute(
        "SELECT d.doc_id FROM documents d JOIN roots r USING (root_id) "
        f"WHERE NOT {_DETACHED} AND NOT d.detached ORDER BY random() LIMIT %s",
        (session.machine, limit),
    ).fetchall()
    return sorted(locations(session, [doc_id for (doc_id,) in rows]).items())


def per_root(session: Session, filters: Filters | None = None) -> dict[str, int]:
    only, params = "true", None
    if filters:
        only, params = where.condition(session, filters, None)
    rows = session.execute(
        "SELECT r.name, count(d.doc_id) FROM roots r LEFT JOIN documents d USING (root_id) "
        f"WHERE {only} GROUP BY r.root_id",
        params,
    )
    return dict(sorted(summed(rows).items()))


def touch_file(session: Session, state: FileState, now_ns: int) -> None:
    """Record new times and a new location of a file whose content is unchanged. Dates that come
    from the old modification time are updated."""
    row = session.execute(
        "SELECT mtime_ns, date, created_at, updated_at FROM documents WHERE doc_id = %s",
        (state.doc_id,),
    ).fetchone()
    if row is None:
        return
    before, after = (_moment(mtime_ns) for mtime_ns in (row[0], state.mtime_ns))
    dates = [after if date == before else date for date in row[1:]]
    session.execute(
        "UPDATE documents SET size_bytes = %s, mtime_ns = %s, ctime_ns = %s, device = %s, "
        "os_path = %s, indexed_ns = %s, date = %s, created_at = %s, updated_at = %s, "
        "detached = false WHERE doc_id = %s",
        (state.size_bytes, state.mtime_ns, state.ctime_ns, state.device, state.os_path,
         now_ns, *dates, state.doc_id),
    )  # fmt: skip
    if dates != list(row[1:]):  # filters use these dates
        session.changes.changes += 1


def _moment(time_ns: int) -> str:
    return utc_timestamp(time_ns // 1_000_000_000)


def locations(session: Session, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
    """The locations of documents' files, by document id. Notes have no file."""
    rows = session.execute(
        f"SELECT d.doc_id, r.path, d.path, d.os_path, {_DETACHED} OR d.detached "
        "FROM documents d JOIN roots r USING (root_id) WHERE d.doc_id = ANY (%s)",
        (session.machine, list(doc_ids)),
    )
    return {
        doc_id: FileLocation(
            os.fsdecode(root), os.fsdecode(raw if raw is not None else inside), detached
        )
        for doc_id, root, inside, raw, detached in rows
    }
