from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kb.text.timestamps import utc_timestamp

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        NOON.timestamp(),
        NOON.timestamp() + 0.999,
        NOON,
        NOON + timedelta(microseconds=999_999),
        NOON.astimezone(timezone(timedelta(hours=5))),
    ],
)
def test_in_utc_to_the_second(moment: float | datetime) -> None:
    assert utc_timestamp(moment) == "2026-03-01T12:00:00Z"
