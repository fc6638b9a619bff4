from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.store import SqliteStore
from tests.conftest import Clock


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "kb.sqlite", clock=clock)
    yield opened
    opened.close()
