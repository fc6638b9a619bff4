"""Checks the values of filters, and normalizes them like those of stored documents. Pure; shared by
all stores."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

from kb.errors import InvalidRequest, check_text, short_repr
from kb.text.normalize import nfc
from kb.text.timestamps import utc_timestamp
from kb.types import Filters
from kb.values import fields


def date_bound(name: str, value: str) -> str:
    """A date or time in the form that documents store, which sorts by time. Midnight becomes the
    date alone, so that documents with only a date match."""
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{name} cannot be {value!r}", "dates look like 2026-01-31 or 2026-01-31T12:00:00"
        ) from None
    if moment.time() == time():
        return moment.date().isoformat()
    return utc_timestamp(moment.replace(tzinfo=UTC))


def normalize_filters(filters: Filters) -> Filters:
    """Normalize the filters to NFC, like stored text. Raises `InvalidRequest` for values that are
    empty or not strings."""
    if not isinstance(filters, Filters):
        raise InvalidRequest(f"filters cannot be {short_repr(filters)}", "give Filters(...)")
    values: dict[str, Any] = {}
    for item in fields(filters):
        value = getattr(filters, item.name)
        if item.name == "limits":
            values[item.name] = value
        elif item.name in _LISTS:
            if isinstance(value, str):
                raise InvalidRequest(f"{item.name} is a string", f"give a tuple: ({value!r},)")
            if not isinstance(value, tuple | list | set | frozenset):
                kind = type(value).__name__
                raise InvalidRequest(f"{item.name} has type {kind}", "give a tuple of strings")
            if len(value) > MAX_VALUES:
                raise InvalidRequest(
                    f"{item.name} has {len(value):,} values", f"give at most {MAX_VALUES}"
                )
            values[item.name] = tuple(_value(item.name, each) for each in value)
        elif value is not None:
            values[item.name] = _value(item.name, value)
    return Filters(**values)


_LISTS = ("tags", "tags_any", "type", "kind")
MAX_VALUES = 256  # in a list
MAX_VALUE_CHARS = 1000  # in a value, including a glob


def _value(name: str, value: object) -> str:
    text = nfc(check_text(name, value))
    if name in ("tags", "tags_any"):
        text = text.lstrip("#")
    if not text:
        raise InvalidRequest(f"{name} is empty", f"omit {name} to match everything")
    if len(text) > MAX_VALUE_CHARS:
        most = f"{MAX_VALUE_CHARS:,} characters"
        raise InvalidRequest(f"{name} is longer than {most}", f"give a shorter {name}")
    return text
