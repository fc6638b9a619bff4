from __future__ import annotations

import pytest

from kb.errors import MissingExtra
from kb.ingest.decode import Unreadable
from kb.ingest.report import ReportBuilder, reason_of
from kb.types import ChunkChanges, IngestReport


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreadable("not valid"), "not valid"),
        (PermissionError(13, "Permission denied", "a.md"), "Permission denied"),
        (OSError("odd"), "odd"),
        (MissingExtra("no reader", "pip install x"), "no reader (pip install x)"),
        (MissingExtra("no reader"), "no reader"),
        (ValueError("a bug"), "ValueError: a bug"),
    ],
)  # fmt: skip
def test_reason_of(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_tally_becomes_a_report() -> None:
    tally = ReportBuilder(added=["a.md"], unchanged=2)
    tally.add_chunks(ChunkChanges(1, 2, 3, 4))
    tally.add_chunks(ChunkChanges(2, 1, 1, 1))
    assert tally.build(seconds=1.5, dry_run=False) == IngestReport(
        added=("a.md",), unchanged=2, chunks_added=3, chunks_kept=4, chunks_removed=5, seconds=1.5
    )
