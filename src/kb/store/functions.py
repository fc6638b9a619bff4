"""SQL functions that kb's own queries use. The stored file needs none of them. And the one that
reads a single value."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, cast

import apsw


def scalar(connection: apsw.Connection, sql: str, params: tuple[Any, ...] = ()) -> Any:
    """The first column of the first row; None where there is no row."""
    row = connection.execute(sql, params).fetchone()
    return row[0] if row else None


def register(connection: apsw.Connection) -> None:
    for name, function in (("kb_glob", glob_matches), ("kb_substrings", count_substrings)):
        connection.create_scalar_function(name, cast(Any, function), 2, deterministic=True)


def glob_matches(pattern: Any, path: Any) -> bool:
    return glob_regex(pattern).fullmatch(path) is not None


def count_substrings(text: Any, terms_json: Any) -> int:
    """How many of the terms stand in `text`, whatever their case. By `lower`, as the trigram index
    folds it: `casefold` would make two letters of the ß that the index keeps."""
    folded = text.lower()
    return sum(term in folded for term in _terms(terms_json))


@lru_cache(maxsize=64)
def _terms(terms_json: str) -> tuple[str, ...]:
    return tuple(term.lower() for term in json.loads(terms_json))


@lru_cache(maxsize=64)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stop at `/`, `**` does not, `**/` is also nothing at all, `[a-z]` is a set."""
    if pattern.endswith("/"):
        pattern += "**"
    out, at = [], 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            out.append(".*")
            at += 2
        elif pattern[at] == "[" and (close := pattern.find("]", at + 2)) > 0:
            out.append(_set(pattern[at + 1 : close]))
            at = close + 1
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[at]) or re.escape(pattern[at]))
            at += 1
    return re.compile("".join(out), re.DOTALL)


def _set(inside: str) -> str:
    """A character set that never matches `/`; an impossible range (`z-a`) matches nothing."""
    negated = inside[0] in "!^"
    body = (inside[1:] if negated else inside).replace("\\", "\\\\")
    body = body.replace("[", "\\[").replace("&", "\\&").replace("~", "\\~").replace("|", "\\|")
    text = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(text)
    except re.error:
        return "(?!)"
    return text
