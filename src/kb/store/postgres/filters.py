"""Filters as SQL conditions on documents, and the chunks that a search may return.

Retrievers restrict themselves to the chunks of the allowed documents before they rank, so that a
filtered search is exact: it equals brute force over that set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import check_choice
from kb.store.filter_values import date_bound, normalize_filters
from kb.text import globs
from kb.text.wikilinks import keys_of, longer_keys_end
from kb.types import KINDS, SCOPES, TRUSTS, TYPES, Filters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.store.postgres.session import Session
    from kb.types import Limits

CHUNKS_OF = "SELECT c.chunk_id FROM documents d JOIN chunks c ON c.doc_id = d.doc_id WHERE "
_LIVE = "(d.expires_at IS NULL OR d.expires_at > %s)"
# A value of this name in front matter need not be a list.
_LINKS = (
    "EXISTS (SELECT 1 FROM json_array_elements_text("
    "CASE json_typeof(d.metadata::json -> 'links_to') WHEN 'array' "
    "THEN d.metadata::json -> 'links_to' ELSE '[]'::json END) AS l "
    "WHERE l = ANY (%s) OR right(l, %s) = %s)"
)
_ANY_TAG = (
    "d.doc_id IN (SELECT doc_id FROM document_tags WHERE md5(tag) = ANY "
    "(SELECT md5(each) FROM unnest(%s::text[]) AS each))"
)
_MAX_FILTERS = 8


class Condition(NamedTuple):
    sql: str
    params: tuple[Any, ...]


def condition(session: Session, filters: Filters, now: str | None) -> Condition:
    """The condition on `documents d` for these filters; with `now`, it excludes expired
    documents."""
    filters = normalize_filters(filters)
    parts: list[tuple[str, list[Any]]] = []
    if now is not None:
        parts.append((_LIVE, [now]))
    tagged = "d.doc_id IN (SELECT doc_id FROM document_tags WHERE md5(tag) = md5(%s))"
    parts += [(tagged, [tag]) for tag in dict.fromkeys(filters.tags)]
    if filters.tags_any:
        parts.append((_ANY_TAG, [list(filters.tags_any)]))
    for column, values, valid in (
        ("type", filters.type, _types(session, filters)),
        ("kind", filters.kind, KINDS),
        ("scope", (filters.scope,) if filters.scope is not None else (), SCOPES),
    ):
        if values:
            choices = [check_choice(column, value, valid) for value in dict.fromkeys(values)]
            parts.append((f"d.{column} = ANY (%s)", [choices]))
    if filters.lang is not None:
        parts.append(("d.lang = %s", [filters.lang]))
    if filters.trust_min is not None:
        least = TRUSTS.index(check_choice("trust_min", filters.trust_min, TRUSTS))
        parts.append(("d.trust = ANY (%s)", [list(TRUSTS[least:])]))
    if filters.path_glob is not None:
        parts.append(("d.doc_id = ANY (%s)", [_matching(session, filters.path_glob)]))
    if filters.links_to is not None:
        end = longer_keys_end(filters.links_to)
        parts.append((_LINKS, [list(keys_of(filters.links_to)), len(end), end]))
    if filters.after is not None:
        parts.append(("d.date >= %s", [date_bound("after", filters.after)]))
    if filters.before is not None:
        parts.append(("d.date < %s", [date_bound("before", filters.before)]))
    if filters.limits is not None:
        parts += _limits(filters.limits)
    sql = " AND ".join(part for part, _ in parts) or "true"
    return Condition(sql, tuple(value for _, values in parts for value in values))


def among(session: Session, filters: Filters | None) -> Condition:
    """A condition to append to others on a `doc_id`; empty without filters."""
    if not filters:
        return Condition("", ())
    sql, params = condition(session, filters, None)
    return Condition(f" AND doc_id IN (SELECT d.doc_id FROM documents d WHERE {sql})", params)


def _limits(limits: Limits) -> list[tuple[str, list[Any]]]:
    """The condition on what the caller may see. Notes belong to no root."""
    from kb.types import NOTES_ROOT

    parts: list[tuple[str, list[Any]]] = []
    if limits.scopes:
        parts.append(("d.scope = ANY (%s)", [list(limits.scopes)]))
    if limits.roots:
        notes = " OR d.root_id IS NULL" if NOTES_ROOT in limits.roots else ""
        named = "d.root_id IN (SELECT root_id FROM roots WHERE name = ANY (%s))"
        parts.append((f"({named}{notes})", [list(limits.roots)]))
    if limits.tags:
        parts.append((_ANY_TAG, [list(limits.tags)]))
    return parts


def _types(session: Session, filters: Filters) -> tuple[str, ...]:
    """The built-in types, and, if the filter has others, the types that plug-ins have added."""
    if not set(filters.type) - set(TYPES):
        return TYPES
    stored = session.execute("SELECT DISTINCT type FROM documents ORDER BY type")
    return tuple(dict.fromkeys((*TYPES, *(kind for (kind,) in stored))))


def _matching(session: Session, glob: str) -> list[int]:
    """The documents whose path matches. The server selects by the literal prefix; then each path is
    matched against the pattern."""
    literal = re.split(r"[*?\[]", glob)[0]
    rows = session.execute(
        "SELECT doc_id, doc_path FROM documents WHERE left(doc_path, 600) >= %s "
        "AND left(doc_path, 600) <= %s",
        (literal[:600], literal[:600] + "\U0010ffff"),
    )
    return [doc_id for doc_id, path in rows if globs.matches(glob, path)]


class Visible(NamedTuple):
    """The chunks that a search may return: those in `allowed` (None: all), except the `hidden`
    ones, which have expired."""

    allowed: NDArray[np.int64] | None
    hidden: list[int]


def visible_condition(session: Session, filters: Filters, now: str) -> Condition | None:
    """The condition on documents whose chunks a search may return; None for all chunks."""
    if filters:
        return condition(session, filters, now)
    return Condition(_LIVE, (now,)) if has_expired(session, now) else None


def has_expired(session: Session, now: str) -> bool:
    first = session.once("expiry", _first_expiry)
    return first is not None and first <= now


def _first_expiry(session: Session) -> str | None:
    rows = session.execute("SELECT min(expires_at) FROM documents")
    return min((first for (first,) in rows if first is not None), default=None)


class FilterCache:
    """Caches the chunks of the latest filters until a document changes. Threads may share it."""

    def __init__(self) -> None:
        self._filtered: dict[tuple[Any, ...], NDArray[np.int64]] = {}

    def forget(self) -> None:
        """Clear the cache."""
        self._filtered = {}

    def visible(self, session: Session, filters: Filters, now: str) -> Visible:
        hidden: list[int] = []
        if has_expired(session, now):
            rows = session.execute(CHUNKS_OF + "d.expires_at <= %s", (now,))
            hidden = [chunk_id for (chunk_id,) in rows]
        return Visible(self._chunk_ids(session, filters) if filters else None, hidden)

    def _chunk_ids(self, session: Session, filters: Filters) -> NDArray[np.int64]:
        import numpy as np

        version = (session.state.store_id, session.state.changes)
        key = (version, normalize_filters(filters))
        if (known := self._filtered.get(key)) is None:
            sql, params = condition(session, filters, None)
            rows = session.execute(CHUNKS_OF + sql, params)
            known = np.sort(np.array([chunk_id for (chunk_id,) in rows], np.int64))
            kept = [item for item in self._filtered.items() if item[0][0] == version]
            self._filtered = {**dict(kept[1 - _MAX_FILTERS :]), key: known}
        return known
