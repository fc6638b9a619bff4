"""SQL functions for kb's queries, and a helper that reads one value. The stored schema uses none of
these functions."""

from __future__ import annotations

import time

import apsw

from kb.text.normalize import count_substrings, subwords, unspaced_ngrams
from kb.text.plain_words import has_plain_form
from kb.text.timestamps import utc_timestamp
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def scalar(connection: apsw.Connection, sql: str, params: tuple[Any, ...] = ()) -> Any:
    """The first column of the first row; None if there is no row."""
    row = connection.execute(sql, params).fetchone()
    return row[0] if row else None


def register(connection: apsw.Connection, clock: Callable[[], float] = time.time) -> None:
    """Add kb's functions to a connection. `kb_now()` returns the time of `clock`."""
    create: Any = connection.create_scalar_function  # apsw declares a narrower type
    create("kb_now", lambda: utc_timestamp(clock()), 0)
    for name, function in (("kb_glob", glob_matches), ("kb_substrings", count_substrings)):
        create(name, function, 2, deterministic=True)


def register_derived(connection: apsw.Connection) -> None:
    """Add the functions that derive the columns `parts` and `cjk`, for migrations. Their arguments
    are blobs, so that damaged text does not stop a migration."""
    create: Any = connection.create_scalar_function
    for name, function, count in (
        ("kb_has_plain_form", has_plain_form, 1),
        ("kb_parts", subwords, 2),
        ("kb_cjk", unspaced_ngrams, 1),
    ):
        create(name, _of_blobs(function), count, deterministic=True)


def _of_blobs(function: Callable[..., Any]) -> Callable[..., Any]:
    def decoded(*blobs: bytes | None) -> Any:
        return function(*((blob or b"").decode("utf-8", "replace") for blob in blobs))

    return decoded


def glob_matches(pattern: Any, path: Any) -> bool:
    from kb.text import globs  # few searches filter by path

    return globs.matches(pattern, path)


def substring_terms(terms: Iterable[str]) -> Any:
    """The parameter of `kb_substrings`: a Python object, because SQLite would copy a text for each
    row, and a query may have 100,000 characters."""
    return apsw.pyobject(tuple(term.lower() for term in terms))
