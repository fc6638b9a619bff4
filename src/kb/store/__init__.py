"""Stores: where documents, chunks, vectors and their indexes are kept. Only stores run SQL.

    sqlite/          the store in one SQLite file
    postgres/        the store in a PostgreSQL database
    lexical_terms    the terms of a lexical query, and which of them a search uses
    filter_values    checks and normalizes the values of filters
    document_rows    documents and chunks as the values of columns
    model_rows       models and the texts to embed as the values of columns
    root_names       names of roots
    export_format    lines of an export, and their validation
    import_rows      what an import does with each line
    encoding_cache   a cache of encoded texts, for evaluations
    limited          a view of a store for a token that may see some of its documents

`open_store` opens a store by its URL. Both kinds of store share the modules here; the folder
`migrations` of each has the numbered SQL files that create and upgrade its schema. To add a kind of
store, add a package beside `sqlite` with the same three functions, `open_store`, `local_path` and
`has_password`, and a line to `_PACKAGES`; its tests run the suite in `tests/conformance/store`.
"""

from __future__ import annotations

import os
import time
from importlib import import_module

from kb.errors import InvalidRequest
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ports import Clock, Store

_PACKAGES = {  # by the scheme of the URL
    "sqlite": "kb.store.sqlite",
    "postgresql": "kb.store.postgres",
}

__all__ = ["has_password", "local_file", "local_path", "open_store"]


def open_store(
    url: str | os.PathLike[str],
    *,
    read_only: bool = False,
    busy_timeout_s: float = 60.0,
    clock: Clock = time.time,
    vector_backend: str = "auto",
    token_format: str = "none",
) -> Store:
    """Open the store at `url`: the path of a file, `sqlite:///` and a path, or
    `postgresql://USER@HOST/DATABASE?schema=NAME`.

    The store need not exist: the first write creates it. `busy_timeout_s` is how long a write waits
    for other writers; `clock` returns the current time in seconds since the epoch. `vector_backend`
    and `token_format` are the settings `store.vector_backend` and `models.tokens`. Raises
    `InvalidRequest` for an unknown scheme.
    """
    store: Store = _package(url).open_store(
        os.fspath(url),
        read_only=read_only,
        busy_timeout_s=busy_timeout_s,
        clock=clock,
        vector_backend=vector_backend,
        token_format=token_format,
    )
    return store


def local_path(url: str | os.PathLike[str]) -> Path:
    """The `Store.path` of the store at `url`, without opening it: settings are found beside it."""
    path: Path = _package(url).local_path(os.fspath(url))
    return path


def has_password(url: str | os.PathLike[str]) -> bool:
    """Whether the URL contains a password, which must not be written anywhere."""
    return bool(_package(url).has_password(os.fspath(url)))


def local_file(url: str | os.PathLike[str]) -> str:
    """`local_path` as text. Does not load `pathlib` for a path."""
    text = os.fspath(url)
    return str(local_path(text)) if "://" in text else text


def _package(url: str | os.PathLike[str]) -> Any:
    scheme, separator, _ = os.fspath(url).partition("://")
    if not separator:
        scheme = "sqlite"
    if scheme not in _PACKAGES:
        supported = "sqlite:///PATH, or postgresql://USER@HOST/DATABASE"
        raise InvalidRequest(
            f"a store's URL cannot begin with {scheme}://", f"supported: a path, {supported}"
        )
    return import_module(_PACKAGES[scheme])
