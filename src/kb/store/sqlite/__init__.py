"""The store over one SQLite file, and over index files beside it. Only `kb.store` imports it.

store              SqliteStore: the ports below over one database
connection         Database: connections and transactions
error_translation  errors of SQLite as errors of kb
snapshot_cache     values that a snapshot reads only once
schema             the schema's version, and migrations to the newest one
functions          SQL functions, and helpers for queries

catalog            the catalog port
documents          documents, tags and chunks as rows
files              roots, and the recorded states of their files
removed_documents  tags and counts of documents whose files were removed
filters            filters as SQL conditions

fulltext           the full-text port, over FTS5 and the word index
words              the word index: BM25 over arrays in files beside the store
word_files         the files of the word index, and when they are merged

vectors            the vectors port
embeddings         models and embeddings as rows
vector_pieces      sparse and token vectors in pieces
model_switch       replacing the vectors of one model with those of another
visibility         which chunks a search over arrays may return
dense              the dense index: chooses among the backends
matrix             the numpy backend
matrix_file        the matrix in a file beside the store
array_file         arrays in a file beside the store, mapped into memory
python_scan        the backend in pure Python
vec0               the sqlite-vec backend
sparse             the sparse index: search over segments
segments           the inverted index over sparse vectors, in segments

queue              the queue port: jobs and leases

maintenance        the maintenance port: backup, export and import
export_rows        exports rows as lines
import_rows        the rows that an import writes
checks             the checks of `kb doctor` that are specific to SQLite
integrity          the SQL behind these checks, and repairs of derived data
schema_check       missing tables, indexes and triggers
column_checks      cells with values that kb cannot have written
repair             repairs of such cells
vector_integrity   checks and repairs of vectors
posting_integrity  checks of the inverted index
"""

from __future__ import annotations

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ports import Clock, Store


def local_path(url: str) -> Path:
    """The file that a path or a `sqlite:///` URL names."""
    from pathlib import Path

    return Path(_file(url))


def has_password(url: str) -> bool:
    """Whether the URL contains a password, which a path never does."""
    del url
    return False


def _file(url: str) -> str:
    """`local_path` as text, without loading `pathlib`."""
    if "://" not in url:
        return url
    from urllib.parse import unquote

    return unquote(url.removeprefix("sqlite://"))


def open_store(
    url: str,
    *,
    read_only: bool,
    busy_timeout_s: float,
    clock: Clock,
    vector_backend: str,
    token_format: str,
) -> Store:
    """See `kb.store.open_store`."""
    from kb.store.sqlite.store import SqliteStore

    return SqliteStore(
        _file(url),
        read_only=read_only,
        busy_timeout_s=busy_timeout_s,
        clock=clock,
        vector_backend=vector_backend,
        token_format=token_format,
    )
