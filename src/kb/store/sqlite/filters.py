"""Filters as SQL conditions on documents.

Retrievers restrict themselves to the chunks of the allowed documents before they rank, so that a
filtered search is exact: it equals brute force over that set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import apsw

from kb.errors import check_choice
from kb.types import KINDS, SCOPES, TRUSTS, TYPES, Filters
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kb.types import Limits

# The chunks of the documents that match a condition.
CHUNKS_OF = "SELECT c.chunk_id FROM documents d JOIN chunks c ON c.doc_id = d.doc_id WHERE "


class Condition(NamedTuple):
    sql: str
    params: list[Any]


def condition(connection: apsw.Connection, filters: Filters, now: str | None) -> Condition:
    """The condition on `documents d` for these filters; with `now`, it excludes expired
    documents."""
    from kb.store.filter_values import (
        date_bound,
        normalize_filters,
    )  # most searches have no filters

    filters = normalize_filters(filters)
    parts: list[tuple[str, list[Any]]] = []
    if now is not None:
        parts.append(("(d.expires_at IS NULL OR d.expires_at > ?)", [now]))
    if filters.tags:
        parts += _every_tag(filters.tags)
    if filters.tags_any:
        some = f"d.doc_id IN (SELECT doc_id FROM document_tags WHERE tag {_IN})"
        parts.append((some, [_json_list(filters.tags_any)]))
    for column, values, valid in (
        ("type", filters.type, _types(connection, filters)),
        ("kind", filters.kind, KINDS),
        ("scope", (filters.scope,) if filters.scope is not None else (), SCOPES),
    ):
        if values:
            choices = [check_choice(column, value, valid) for value in dict.fromkeys(values)]
            parts.append((f"d.{column} {_IN}", [_json_list(choices)]))
    if filters.lang is not None:
        parts.append(("d.lang = ?", [filters.lang]))
    if filters.trust_min is not None:
        least = TRUSTS.index(check_choice("trust_min", filters.trust_min, TRUSTS))
        parts.append((f"d.trust {_IN}", [_json_list(TRUSTS[least:])]))
    if filters.path_glob is not None:
        parts.append(_path(filters.path_glob))
    if filters.links_to is not None:
        from kb.text.wikilinks import keys_of, longer_keys_end

        end = longer_keys_end(filters.links_to)
        parts.append((
            f"EXISTS (SELECT 1 FROM json_each(d.metadata, '$.links_to') AS l WHERE l.value {_IN} "
            "OR substr(l.value, ?) = ?)",
            [_json_list(keys_of(filters.links_to)), -len(end), end],
        ))  # fmt: skip
    if filters.after is not None:
        parts.append(("d.date >= ?", [date_bound("after", filters.after)]))
    if filters.before is not None:
        parts.append(("d.date < ?", [date_bound("before", filters.before)]))
    if filters.limits is not None:
        parts += _limits(filters.limits)
    sql = " AND ".join(part for part, _ in parts) or "1"
    return Condition(sql, [value for _, values in parts for value in values])


def among(connection: apsw.Connection, filters: Filters | None) -> Condition:
    """A condition to append to others on a `doc_id`; empty without filters."""
    if not filters:
        return Condition("", [])
    sql, params = condition(connection, filters, None)
    return Condition(f" AND doc_id IN (SELECT d.doc_id FROM documents d WHERE {sql})", params)


def _limits(limits: Limits) -> list[tuple[str, list[Any]]]:
    """The condition on what the caller may see. Notes belong to no root."""
    from kb.types import NOTES_ROOT

    parts: list[tuple[str, list[Any]]] = []
    if limits.scopes:
        parts.append((f"d.scope {_IN}", [_json_list(limits.scopes)]))
    if limits.roots:
        notes = " OR d.root_id IS NULL" if NOTES_ROOT in limits.roots else ""
        named = f"d.root_id IN (SELECT root_id FROM roots WHERE name {_IN})"
        parts.append((f"({named}{notes})", [_json_list(limits.roots)]))
    if limits.tags:
        some = f"d.doc_id IN (SELECT doc_id FROM document_tags WHERE tag {_IN})"
        parts.append((some, [_json_list(limits.tags)]))
    return parts


def _types(connection: apsw.Connection, filters: Filters) -> tuple[str, ...]:
    """The built-in types, and, if the filter has others, the types that plug-ins have added."""
    if not set(filters.type) - set(TYPES):
        return TYPES
    stored = connection.execute("SELECT DISTINCT type FROM documents ORDER BY type")
    return tuple(dict.fromkeys((*TYPES, *(kind for (kind,) in stored))))


# A list is passed as one parameter: SQLite limits parameters and the depth of conditions.
_IN = "IN (SELECT value FROM json_each(?))"


def _json_list(values: Iterable[str]) -> str:
    return json.dumps(list(dict.fromkeys(values)))


def _every_tag(tags: tuple[str, ...]) -> list[tuple[str, list[Any]]]:
    """The conditions for documents with every tag. The first tag uses the index; the others are
    checked for the documents that it selects."""
    first, *others = dict.fromkeys(tags)
    parts: list[tuple[str, list[Any]]] = [
        ("d.doc_id IN (SELECT doc_id FROM document_tags WHERE tag = ?)", [first])
    ]
    if others:
        parts.append((
            "NOT EXISTS (SELECT 1 FROM json_each(?) WHERE NOT EXISTS "
            "(SELECT 1 FROM document_tags t WHERE t.doc_id = d.doc_id AND t.tag = value))",
            [_json_list(others)],
        ))  # fmt: skip
    return parts


def _path(glob: str) -> tuple[str, list[Any]]:
    """The condition on the path. The literal prefix uses the index; the whole pattern decides."""
    literal = re.split(r"[*?\[]", glob)[0]
    if not literal:
        return "kb_glob(?, d.doc_path)", [glob]
    return (
        "d.doc_path >= ? AND d.doc_path < ? AND kb_glob(?, d.doc_path)",
        [literal, literal + "\U0010ffff", glob],
    )
