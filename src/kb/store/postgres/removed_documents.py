"""Keeps the data of a removed file's document that is only in the store: the user's tags and the
access count. A document that is later written at the same path of the same root gets them back.
Each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.store.postgres.session import Session
    from kb.types import JsonDict

_INSERT = "INSERT INTO removed_documents AS x (root_path, path, access_count, user_tags) "
_UNITE = """
ON CONFLICT (sha256(root_path), md5(path)) DO UPDATE SET
  access_count = greatest(x.access_count, excluded.access_count),
  user_tags = ARRAY(SELECT DISTINCT unnest(x.user_tags || excluded.user_tags) ORDER BY 1)
"""
_USER_TAGS = "FROM document_tags t WHERE t.doc_id = d.doc_id AND source = 'user'"
_SAVE = f"""
{_INSERT}
SELECT r.path, d.path, d.access_count,
  ARRAY(SELECT tag {_USER_TAGS} ORDER BY tag)
FROM documents d JOIN roots r USING (root_id)
WHERE d.doc_id = ANY (%s) AND (d.access_count > 0 OR EXISTS (SELECT 1 {_USER_TAGS}))
{_UNITE}
"""
_RETURNED = """
FROM documents d JOIN roots r USING (root_id)
JOIN removed_documents x ON sha256(x.root_path) = sha256(r.path) AND md5(x.path) = md5(d.path)
"""


def save(session: Session, doc_ids: Iterable[int]) -> None:
    """Save the tags and access counts of documents that are about to be deleted. Notes are not
    saved: they never return."""
    session.execute(_SAVE, (list(doc_ids),))


def add(session: Session, row: JsonDict) -> None:
    """Add an imported row, or merge it into the row that exists for its path."""
    names = ", ".join(row)
    values = ", ".join(f"%({name})s" for name in row)
    session.execute(f"INSERT INTO removed_documents AS x ({names}) VALUES ({values}) {_UNITE}", row)


def restore(session: Session, doc_id: int | None = None) -> None:
    """Restore the tags and access count saved for the path of a document that was just written; for
    None, those of all documents."""
    sql = f"SELECT removed_id, doc_id, x.access_count, user_tags {_RETURNED}"
    rows = (
        session.execute(sql).fetchall()
        if doc_id is None
        else session.execute(f"{sql} WHERE d.doc_id = %s", (doc_id,)).fetchall()
    )
    for removed_id, returned, access_count, user_tags in rows:
        session.execute(
            "INSERT INTO document_tags (doc_id, tag, source) SELECT %s, tag, 'user' "
            "FROM unnest(%s::text[]) AS tag ON CONFLICT (doc_id, md5(tag)) DO NOTHING",
            (returned, user_tags),
        )
        session.execute(
            "UPDATE documents SET access_count = greatest(access_count, %s) WHERE doc_id = %s",
            (access_count, returned),
        )
        session.execute("DELETE FROM removed_documents WHERE removed_id = %s", (removed_id,))


def move(session: Session, old: bytes, new: bytes) -> None:
    """Reassign the rows of the folder `old` to the folder `new`."""
    if old == new:
        return
    session.execute(
        f"{_INSERT} SELECT %s, path, access_count, user_tags FROM removed_documents "
        f"WHERE sha256(root_path) = sha256(%s) {_UNITE}",
        (new, old),
    )
    session.execute("DELETE FROM removed_documents WHERE sha256(root_path) = sha256(%s)", (old,))


def delete(session: Session, names: Iterable[str]) -> None:
    """Delete the rows of these paths in the store, and of all paths below them."""
    session.execute(
        "DELETE FROM removed_documents x USING roots r, unnest(%s::text[]) AS given "
        "WHERE r.path = x.root_path "
        "AND starts_with(r.name || '/' || x.path || '/', given || '/')",
        (list(names),),
    )
