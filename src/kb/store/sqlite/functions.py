"""SQL functions that kb's own queries use. The stored file needs none of them. And the one that
reads a single value."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import apsw

from kb.text import globs
from kb.text.normalize import widen_katakana
from kb.text.timestamps import utc_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable


def scalar(connection: apsw.Connection, sql: str, params: tuple[Any, ...] = ()) -> Any:
    """The first column of the first row; None where there is no row."""
    row = connection.execute(sql, params).fetchone()
    return row[0] if row else None


def register(connection: apsw.Connection, clock: Callable[[], float] = time.time) -> None:
    """Add kb's functions to a connection. `kb_now()` is the time that `clock` shows."""
    connection.create_scalar_function("kb_now", cast(Any, lambda: utc_timestamp(clock())), 0)
    for name, function in (("kb_glob", glob_matches), ("kb_substrings", count_substrings)):
        connection.create_scalar_function(name, cast(Any, function), 2, deterministic=True)


def glob_matches(pattern: Any, path: Any) -> bool:
    return globs.matches(pattern, path)


def count_substrings(text: Any, terms_json: Any) -> int:
    """How many of the terms stand in `text`, whatever their case. By `lower`, as the trigram index
    folds it: `casefold` would make two letters of the ß that the index keeps."""
    folded = widen_katakana(text).lower()
    return sum(term in folded for term in _terms(terms_json))


@lru_cache(maxsize=64)
def _terms(terms_json: str) -> tuple[str, ...]:
    return tuple(term.lower() for term in json.loads(terms_json))
