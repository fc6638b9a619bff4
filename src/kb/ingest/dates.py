"""Parses dates into the form of the store: `2026-03-01` or `2026-03-01T12:00:00Z`.

Pure. A time without a time zone is UTC, so that a file becomes the same document on every machine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kb.text.timestamps import utc_timestamp

_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[Tt\s]\s*(\S.*))?")
_TTL = re.compile(r"(\d{1,9})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def from_ns(time_ns: int) -> datetime:
    """Convert a file time. A time outside the calendar, as in broken archives, becomes 1970."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


def parse(text: str) -> str | None:
    """Return the date or time in `text` in the store's form; None if it is neither."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, clock = match.groups()
    date = f"{year}-{int(month):02}-{int(day):02}"
    try:
        if clock is None:
            return datetime.fromisoformat(date).date().isoformat()
        moment = datetime.fromisoformat(f"{date}T{_clock(clock)}")
        return utc_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _clock(text: str) -> str:
    """Complete a time as YAML allows it: `21:59 -5` to `21:59-05:00`, `9:30Z` to `09:30+00:00`."""
    text = re.sub(r"\s+(?=[-+Zz])", "", text)
    text = re.sub(r"[Zz]$", "+00:00", text)
    text = re.sub(r"([-+])(\d):?(\d\d)?$", r"\g<1>0\2\3", text)
    return "0" + text if re.match(r"\d:", text) else text


def moment(text: str) -> str:
    """Convert a date in the store's form to the time at which it begins; keep a time."""
    return text if "T" in text else f"{text}T00:00:00Z"


def expiry(ttl: str, start: datetime) -> str | None:
    """The time at which a `ttl` (`7d`, `12h`, `30m`, `2w`) from `start` ends; None for `never`.

    Raises ValueError for any other text.
    """
    text = ttl.strip().lower()
    if text == "never":
        return None
    match = _TTL.fullmatch(text)
    if match is None:
        raise ValueError(f"ttl {ttl!r} is not valid: use a form such as 7d, 12h, 30m, 2w or never")
    try:
        return utc_timestamp(start + timedelta(**{_UNITS[match[2]]: int(match[1])}))
    except OverflowError:
        raise ValueError(f"ttl {ttl!r} is too long") from None
