"""The store's schema: numbered migrations, and errors for files that kb cannot read."""

from __future__ import annotations

import apsw

from kb.errors import StoreTooNew, StoreUnusable
from kb.store.sqlite.functions import register_derived

APPLICATION_ID = 0x6B622E31  # "kb.1", in the header of every store
VERSION = 15  # the newest migration


def version(connection: apsw.Connection, path: str) -> int:
    """The store's schema version; 0 for an empty file. Raises `StoreUnusable` for a file of another
    application, and `StoreTooNew` for a newer schema."""
    number = int(connection.pragma("user_version"))
    owner = int(connection.pragma("application_id"))
    if owner != APPLICATION_ID and (number or _has_tables(connection)):
        raise StoreUnusable(
            f"{path} is an SQLite file, but not a kb store", "choose another file with --store"
        )
    if number > VERSION:
        raise StoreTooNew(
            f"{path} was written by a newer kb (schema {number}; this version supports {VERSION})",
            "upgrade with: pip install -U kb-search",
        )
    return number


def migrate(connection: apsw.Connection, path: str) -> None:
    """Migrate the store to `VERSION`, with all steps in one transaction. If several processes start
    at once, one of them migrates."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        register_derived(connection)
        for number in range(version(connection, path) + 1, VERSION + 1):
            connection.execute(_script(number))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():  # Ctrl-C may arrive just after the commit
            connection.execute("ROLLBACK")
        raise


def add_newer_tables(connection: apsw.Connection) -> None:
    """Add the newer tables, empty and temporary, to a connection that reads an older store."""
    there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_schema")}
    connection.execute("PRAGMA query_only = OFF; PRAGMA temp_store = MEMORY")
    for table, columns in _COLUMNS.items():
        if table not in there:
            connection.execute(f"CREATE TEMP TABLE {table} ({columns})")
    if "sparse_pending" not in there:
        connection.execute(_ALL_PENDING)
    if "models" in there:
        known = {row[1] for row in connection.execute("PRAGMA main.table_info(models)")}
        newer = [f"{value} AS {name}" for name, value in _NEWER.items() if name not in known]
        if newer:
            connection.execute(
                f"CREATE TEMP VIEW models AS SELECT *, {', '.join(newer)} FROM main.models m"
            )
    connection.execute("PRAGMA query_only = ON")


_COLUMNS = {  # tables that are read even if the store has no model and no import
    "models": "model_id, name, version, dimension, token_dimension, role, ready, failed, sparse, "
    "tokens, source, marks",
    "embeddings": "embedding_id INTEGER PRIMARY KEY, model_id, chunk_id, state, embedded_at, "
    "error, dense, sparse, tokens",
    "vector_pieces": "piece INTEGER PRIMARY KEY, data",
    "vector_changes": "change INTEGER PRIMARY KEY, model_id, chunk_id, stamp",
    "vector_indexes": "name, model_id, change, stamp",
    "text_changes": "change INTEGER PRIMARY KEY, chunk_id, stamp",
    "sparse_terms": "term_id, term",
    "sparse_segments": "segment, model_id, stamp, chunks, chunk_ids",
    "sparse_postings": "posting, block",
    "sparse_gone": "segment, chunk_id",
    "detached_roots": "root_id INTEGER PRIMARY KEY",
    "detached_documents": "doc_id INTEGER PRIMARY KEY",
    "removed_documents": "removed_id INTEGER PRIMARY KEY, root_path, path, access_count, user_tags",
    "jobs": "job_id, model_id, place, pid, started, lease_until, done, chunk_ids",
}
_ALL_PENDING = """
CREATE TEMP VIEW sparse_pending AS
  SELECT model_id, chunk_id FROM embeddings WHERE sparse IS NOT NULL AND state = 'ready'
"""
_COUNTED = """
(SELECT count(*) FROM main.embeddings e
 WHERE e.model_id = m.model_id AND state = 'ready' AND e.{part} IS NOT NULL)
"""
_NEWER = {  # columns of `models` that newer schemas added
    "sparse": _COUNTED.format(part="sparse"),
    "tokens": _COUNTED.format(part="tokens"),
    "source": "NULL",
    "marks": "NULL",
}


def _has_tables(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def _script(number: int) -> str:
    from importlib import resources  # a search never migrates

    folder = resources.files("kb.store.sqlite") / "migrations"
    (script,) = (item for item in folder.iterdir() if item.name.startswith(f"{number:04d}_"))
    return script.read_text(encoding="utf-8")
