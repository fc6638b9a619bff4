"""Keeps the data of a removed file's document that is only in the store: the user's tags and the
access count. A document that is later written at the same path of the same root gets them back.
Each function runs in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable

import apsw

from kb.types import JsonDict

_INSERT = "INSERT INTO removed_documents (root_path, path, access_count, user_tags) "
_UNITE = """
ON CONFLICT (root_path, path) DO UPDATE SET
  access_count = max(access_count, excluded.access_count),
  user_tags = (SELECT json_group_array(value) FROM (
    SELECT value FROM json_each(user_tags) UNION SELECT value FROM json_each(excluded.user_tags)))
"""
_SAVE = f"""
{_INSERT}
SELECT r.path, d.path, d.access_count, (SELECT json_group_array(tag) FROM (
  SELECT tag FROM document_tags t WHERE t.doc_id = d.doc_id AND source = 'user' ORDER BY tag))
FROM documents d JOIN roots r USING (root_id)
WHERE d.doc_id = ? AND (d.access_count > 0 OR EXISTS (
  SELECT 1 FROM document_tags t WHERE t.doc_id = d.doc_id AND source = 'user'))
{_UNITE}
"""
_RETURNED = """
SELECT removed_id, doc_id, x.access_count, user_tags
FROM documents d JOIN roots r USING (root_id)
JOIN removed_documents x ON x.root_path = r.path AND x.path = d.path
"""


def save(connection: apsw.Connection, doc_ids: Iterable[int]) -> None:
    """Save the tags and access counts of documents that are about to be deleted. Notes are not
    saved: they never return."""
    connection.executemany(_SAVE, [(doc_id,) for doc_id in doc_ids])


def add(connection: apsw.Connection, row: JsonDict) -> None:
    """Add an imported row, or merge it into the row that exists for its path."""
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    connection.execute(
        f"INSERT INTO removed_documents ({names}) VALUES ({values}) {_UNITE}",
        row,
    )


def restore(connection: apsw.Connection, doc_id: int | None = None) -> None:
    """Restore the tags and access count saved for the path of a document that was just written; for
    None, those of all documents."""
    rows = (
        connection.execute(_RETURNED).fetchall()
        if doc_id is None
        else connection.execute(_RETURNED + "WHERE d.doc_id = ?", (doc_id,)).fetchall()
    )
    for removed_id, returned, access_count, user_tags in rows:
        connection.execute(
            "INSERT INTO document_tags (doc_id, tag, source) SELECT ?, value, 'user' "
            "FROM json_each(?) WHERE true ON CONFLICT DO NOTHING",
            (returned, user_tags),
        )
        connection.execute(
            "UPDATE documents SET access_count = max(access_count, ?) WHERE doc_id = ?",
            (access_count, returned),
        )
        connection.execute("DELETE FROM removed_documents WHERE removed_id = ?", (removed_id,))


def move(connection: apsw.Connection, old: str | bytes, new: str | bytes) -> None:
    """Reassign the rows of the folder `old` to the folder `new`."""
    if old == new:
        return
    connection.execute(
        f"{_INSERT} SELECT ?, path, access_count, user_tags FROM removed_documents "
        f"WHERE root_path = ? {_UNITE}",
        (new, old),
    )
    connection.execute("DELETE FROM removed_documents WHERE root_path = ?", (old,))


def delete(connection: apsw.Connection, names: Iterable[str]) -> None:
    """Delete the rows of these paths in the store, and of all paths below them."""
    connection.execute(
        "DELETE FROM removed_documents WHERE removed_id IN (SELECT removed_id "
        "FROM json_each(?) n, removed_documents x JOIN roots r ON r.path = x.root_path "
        "WHERE substr(r.name || '/' || x.path || '/', 1, length(n.value) + 1) = n.value || '/')",
        (json.dumps(list(names)),),
    )
