"""What a file says about itself, cut to what one document may hold. Pure.

Never a failure: what does not fit is left out of the attributes, and a warning names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kb.errors import short_repr
from kb.metadata import BYTES, LANG_CHARS, MOST_TAGS, TAG_CHARS, size_of
from kb.types import Attributes

_MOST_NAMES = 3  # of those left out, in a warning


def bound_attributes(said: Attributes) -> tuple[Attributes, tuple[str, ...]]:
    """`said` within the bounds, and a warning for each of them that it went beyond."""
    tags, tag_warnings = bound_tags(said.tags)
    lang, lang_warnings = bound_lang(said.lang)
    metadata, metadata_warnings = _bound_metadata(dict(said.metadata))
    warnings = (*tag_warnings, *lang_warnings, *metadata_warnings)
    return replace(said, tags=tags, lang=lang, metadata=metadata) if warnings else said, warnings


def bound_tags(tags: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first tags that fit, and warnings about the others."""
    every = tuple(tags)
    short = tuple(tag for tag in every if len(tag) <= TAG_CHARS)
    warnings = []
    if long := [tag for tag in every if len(tag) > TAG_CHARS]:
        warnings.append(f"tags longer than {TAG_CHARS} characters are ignored: {_names(long)}")
    if more := short[MOST_TAGS:]:
        warnings.append(f"tags after the first {MOST_TAGS:,} are ignored: {_names(more)}")
    return short[:MOST_TAGS], tuple(warnings)


def bound_lang(lang: str | None) -> tuple[str | None, tuple[str, ...]]:
    """`lang`, unless it is too long to name a language."""
    if lang is None or len(lang) <= LANG_CHARS:
        return lang, ()
    return None, (f"lang is ignored: {short_repr(lang)} is longer than {LANG_CHARS} characters",)


def _bound_metadata(said: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The entries that fit, in the order in which they stand, and a warning about the others."""
    if size_of(said) <= BYTES:
        return said, ()
    kept: dict[str, Any] = {}
    left_out = []
    size_bytes = len("{}")
    for key, value in said.items():
        entry_bytes = size_of({key: value})  # its braces are as long as the comma and the space
        if size_bytes + entry_bytes > BYTES:
            left_out.append(key)
        else:
            kept[key] = value
            size_bytes += entry_bytes
    return kept, (f"metadata beyond {BYTES:,} bytes is ignored: {_names(left_out)}",)


def _names(left_out: Sequence[str]) -> str:
    more = len(left_out) - _MOST_NAMES
    named = ", ".join(short_repr(one) for one in left_out[:_MOST_NAMES])
    return f"{named} and {more:,} more" if more > 0 else named
