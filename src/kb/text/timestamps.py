"""Timestamps in the form that the store and the JSON shapes use: `2026-03-01T12:00:00Z`."""

from __future__ import annotations

import time

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def utc_timestamp(moment: float | datetime) -> str:
    """Format `moment`, in seconds since 1970 or with a time zone, in UTC to the second."""
    if isinstance(moment, int | float):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    from datetime import UTC

    return moment.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"
