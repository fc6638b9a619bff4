"""The store in a schema of a PostgreSQL database, with pgvector. Only `kb.store` imports it.

store         PostgresStore: the ports below over one database
location      the URL of a store: how to connect, its schema, and what to show
connection    Database: transactions, and translated errors
standbys      reads on a standby: how far it is behind
watchdog      ends the wait for a server that does not respond
pool          a bounded number of connections that threads take and give back
texts         texts as PostgreSQL stores them
session       one transaction: statements, cached reads, and counted changes
schema        the schema's version, and migrations to the newest one
partitions    hash partitions of the large tables
shard_ids     distinct ids for the shards of a store
shards        several stores on several servers, searched as one

catalog       the catalog port
documents     documents, tags and chunks as rows
files         roots, and the recorded states of their files
removed_documents  tags and counts of documents whose files were removed
filters       filters as SQL conditions

fulltext      the full-text port
expressions   raw FTS5 expressions, evaluated over candidates
words         ranking by words and n-grams over segments
segments      inverted indexes in segments: reading, writing and merging
block_cache   blocks of postings that recent searches have read

vectors       the vectors port
embeddings    models and embeddings as rows
model_switch  replacing the vectors of one model with those of another
dense         dense retrieval: exact, or by an HNSW index
sparse        sparse retrieval over segments

queue         the queue port: jobs and leases
listener      wakes workers by notifications
maintenance   the maintenance port: backup, export and import
export_rows   exports rows as lines
import_rows   the rows that an import writes
checks        the checks of `kb doctor` that are specific to PostgreSQL
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.ports import Clock, Store


def local_path(url: str) -> Path:
    """A path in the user's data folder, derived from the server, the database and the schema."""
    from kb.store.postgres.location import parse_all, path_of

    return path_of(parse_all(url))


def has_password(url: str) -> bool:
    """Whether the URL contains a password."""
    from kb.store.postgres.location import parse_all

    return any(each.secrets for each in parse_all(url))


def open_store(
    url: str,
    *,
    read_only: bool,
    busy_timeout_s: float,
    clock: Clock,
    vector_backend: str,  # noqa: ARG001  # the backends are those of SQLite
    token_format: str,
) -> Store:
    """See `kb.store.open_store`. Several URLs, separated by spaces, are the shards of one store.
    Raises `MissingExtra` without the extra `postgres`."""
    from kb.store.postgres.location import parse_all, require_driver

    require_driver()
    from kb.store.postgres.connection import Database
    from kb.store.postgres.shards import ShardedDatabase
    from kb.store.postgres.store import PostgresStore

    locations = parse_all(url)
    if len(locations) > 1:
        database: Database = ShardedDatabase(locations, busy_timeout_s=busy_timeout_s, clock=clock)
    else:
        database = Database(
            locations[0], read_only=read_only, busy_timeout_s=busy_timeout_s, clock=clock
        )
    return PostgresStore(database, clock=clock, token_format=token_format)
