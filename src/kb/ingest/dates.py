"""Dates as people write them, into the text the store keeps: `2026-03-01`, `2026-03-01T12:00:00Z`.

Pure. A moment without a time zone is taken as UTC, so that the same file gives the same document
on every machine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_WRITTEN = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[Tt\s]\s*(\S.*))?")
_TTL = re.compile(r"(\d{1,9})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, to the second."""
    return moment.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def from_ns(time_ns: int) -> datetime:
    """A file's time. A time that no calendar has, as broken archives bring it, becomes 1970."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


def parse(text: str) -> str | None:
    """A day or a moment in the store's form; None where `text` is neither."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, clock = found.groups()
    date = f"{year}-{int(month):02}-{int(day):02}"
    try:
        if clock is None:
            return datetime.fromisoformat(date).date().isoformat()
        moment = datetime.fromisoformat(f"{date}T{_clock(clock)}")
        return iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _clock(text: str) -> str:
    """`21:59 -5` and `9:30Z`, which YAML allows, as `21:59-05:00` and `09:30+00:00`."""
    text = re.sub(r"\s+(?=[-+Zz])", "", text)
    text = re.sub(r"[Zz]$", "+00:00", text)
    text = re.sub(r"([-+])(\d):?(\d\d)?$", r"\g<1>0\2\3", text)
    return "0" + text if re.match(r"\d:", text) else text


def moment(text: str) -> str:
    """A day or moment in the store's form, as a moment: a day begins at midnight."""
    return text if "T" in text else f"{text}T00:00:00Z"


def expiry(ttl: str, start: datetime) -> str | None:
    """When something that lives for `ttl` (`7d`, `12h`, `30m`, `2w`) ends; None for `never`.

    Raises ValueError for anything else.
    """
    text = ttl.strip().lower()
    if text == "never":
        return None
    found = _TTL.fullmatch(text)
    if found is None:
        raise ValueError(f"ttl cannot be {ttl!r}: one looks like 7d, 12h, 30m, 2w or never")
    try:
        return iso(start + timedelta(**{_UNITS[found[2]]: int(found[1])}))
    except OverflowError:
        raise ValueError(f"ttl {ttl!r} is too long") from None
