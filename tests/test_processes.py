"""Whether other processes leave a core idle."""

from __future__ import annotations

import os

import pytest

from kb.processes import machine_is_busy


@pytest.mark.parametrize(("load", "busy"), [(0.0, False), (1.9, False), (2.0, True), (30.0, True)])
def test_as_many_processes_as_cores(
    monkeypatch: pytest.MonkeyPatch, load: float, busy: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    assert machine_is_busy() is busy


def test_an_unknown_load_counts_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    assert machine_is_busy() is False
