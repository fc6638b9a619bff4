"""A small part of the campaign of `python -m tests.server.fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.fuzz import REQUESTS, fuzz, request


def test_mutated_requests_are_answered_or_refused(tmp_path: Path) -> None:
    report = fuzz(tmp_path, count=600, seed=5)
    assert report.faults == []
    assert len(report.statuses) > 8


@pytest.mark.slow
def test_many_mutated_requests_are_answered_or_refused(tmp_path: Path) -> None:
    assert fuzz(tmp_path, count=20_000, seed=6).faults == []


def test_a_request_can_be_sent_once_more() -> None:
    assert request(3, 17) == request(3, 17)
    assert {request(3, index).path for index in range(300)} > {
        each.path for each in REQUESTS if each.weight >= 1
    }
