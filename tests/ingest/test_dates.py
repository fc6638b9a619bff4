from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest import dates
from kb.text.timestamps import utc_timestamp

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2026-03-01", "2026-03-01"),
        (" 2026-3-1 ", "2026-03-01"),
        ("2026/03/01", "2026-03-01"),
        ("2026-03-01T12:30:00Z", "2026-03-01T12:30:00Z"),
        ("2026-03-01 12:30", "2026-03-01T12:30:00Z"),
        ("2026-03-01T12:30:00+02:00", "2026-03-01T10:30:00Z"),
        ("2001-12-14 21:59:43.10 -5", "2001-12-15T02:59:43Z"),
        ("2001-12-14t9:59:43-05:00", "2001-12-14T14:59:43Z"),
        ("2026-02-31", None),
        ("0000-01-01", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        ("", None),
        ("2026-03-01 noon", None),
    ],
)
def test_parse(written: str, stored: str | None) -> None:
    assert dates.parse(written) == stored


@given(st.text(max_size=40) | st.from_regex(r"\d{4}-\d{1,2}-\d{1,2}[ T].{0,20}", fullmatch=True))
def test_parse_never_raises(text: str) -> None:
    dates.parse(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_parse_reads_what_utc_timestamp_writes(moment: datetime) -> None:
    assert dates.parse(utc_timestamp(moment)) == utc_timestamp(moment)


def test_utc_timestamp_converts_to_utc() -> None:
    assert utc_timestamp(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-03-01T12:00:00Z"


@pytest.mark.parametrize("time_ns", [10**30, -(10**30)])
def test_from_ns_accepts_times_outside_the_calendar(time_ns: int) -> None:
    assert utc_timestamp(dates.from_ns(time_ns)) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("ttl", "end"),
    [
        ("7d", "2026-03-08T12:00:00Z"),
        ("12h", "2026-03-02T00:00:00Z"),
        ("30m", "2026-03-01T12:30:00Z"),
        (" 2 W ", "2026-03-15T12:00:00Z"),
        ("never", None),
    ],
)
def test_expiry(ttl: str, end: str | None) -> None:
    assert dates.expiry(ttl, NOON) == end


@pytest.mark.parametrize("ttl", ["", "7", "d", "-1d", "1y", "soon", "999999999w"])
def test_expiry_refuses(ttl: str) -> None:
    with pytest.raises(ValueError, match="ttl"):
        dates.expiry(ttl, NOON)
