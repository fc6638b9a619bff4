"""Limits a file's attributes to what a document may hold. Pure.

Never fails: values that do not fit are dropped, and a warning names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kb.errors import short_repr
from kb.metadata import LANG_CHARS, MAX_TAGS, METADATA_BYTES, TAG_CHARS, TITLE_CHARS, size_of
from kb.types import Attributes

_MOST_NAMES = 3  # of dropped values in a warning


def bound_attributes(attributes: Attributes) -> tuple[Attributes, tuple[str, ...]]:
    """Return `attributes` within the bounds, and a warning for each bound that was exceeded."""
    tags, tag_warnings = bound_tags(attributes.tags)
    lang, lang_warnings = bound_lang(attributes.lang)
    metadata, metadata_warnings = _bound_metadata(dict(attributes.metadata))
    warnings = (*tag_warnings, *lang_warnings, *metadata_warnings)
    return replace(
        attributes, tags=tags, lang=lang, metadata=metadata
    ) if warnings else attributes, warnings


def bound_title(title: str) -> tuple[str, tuple[str, ...]]:
    """Return the beginning of `title` that fits, and a warning if it was cut."""
    if len(title) <= TITLE_CHARS:
        return title, ()
    return title[:TITLE_CHARS].rstrip(), (f"the title is cut after {TITLE_CHARS} characters",)


def bound_tags(tags: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the first tags that fit, and warnings about the others."""
    every = tuple(tags)
    short = tuple(tag for tag in every if len(tag) <= TAG_CHARS)
    warnings = []
    if long := [tag for tag in every if len(tag) > TAG_CHARS]:
        warnings.append(f"tags longer than {TAG_CHARS} characters are ignored: {_names(long)}")
    if more := short[MAX_TAGS:]:
        warnings.append(f"tags after the first {MAX_TAGS:,} are ignored: {_names(more)}")
    return short[:MAX_TAGS], tuple(warnings)


def bound_lang(lang: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return `lang`, or None and a warning if it is too long to name a language."""
    if lang is None or len(lang) <= LANG_CHARS:
        return lang, ()
    return None, (f"lang is ignored: {short_repr(lang)} is longer than {LANG_CHARS} characters",)


def _bound_metadata(metadata: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the first entries that fit, and a warning about the others."""
    if size_of(metadata) <= METADATA_BYTES:
        return metadata, ()
    kept: dict[str, Any] = {}
    dropped = []
    size_bytes = len("{}")
    for key, value in metadata.items():
        entry_bytes = size_of({key: value})  # its braces count for the comma and the space
        if size_bytes + entry_bytes > METADATA_BYTES:
            dropped.append(key)
        else:
            kept[key] = value
            size_bytes += entry_bytes
    return kept, (f"metadata beyond {METADATA_BYTES:,} bytes is ignored: {_names(dropped)}",)


def _names(dropped: Sequence[str]) -> str:
    more = len(dropped) - _MOST_NAMES
    names = ", ".join(short_repr(each) for each in dropped[:_MOST_NAMES])
    return f"{names} and {more:,} more" if more > 0 else names
