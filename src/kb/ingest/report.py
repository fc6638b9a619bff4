"""Builds the report of an ingest run."""

from __future__ import annotations

from dataclasses import dataclass, field

from kb.errors import KbError
from kb.ingest.decode import Unreadable
from kb.types import ChunkChanges, FileNote, IngestReport, Renamed


@dataclass(slots=True)
class ReportBuilder:
    """Collects the entries of an `IngestReport` during a run."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileNote] = field(default_factory=list)
    failed: list[FileNote] = field(default_factory=list)
    warnings: list[FileNote] = field(default_factory=list)
    missing_roots: list[str] = field(default_factory=list)
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_removed: int = 0

    def add_chunks(self, written: ChunkChanges) -> None:
        self.chunks_added += written.chunks_added
        self.chunks_kept += written.chunks_kept
        self.chunks_removed += written.chunks_removed

    def build(self, *, seconds: float, dry_run: bool) -> IngestReport:
        return IngestReport(
            added=tuple(self.added),
            changed=tuple(self.changed),
            renamed=tuple(self.renamed),
            removed=tuple(self.removed),
            unchanged=self.unchanged,
            skipped=tuple(self.skipped),
            failed=tuple(self.failed),
            warnings=tuple(self.warnings),
            missing_roots=tuple(self.missing_roots),
            chunks_added=self.chunks_added,
            chunks_kept=self.chunks_kept,
            chunks_removed=self.chunks_removed,
            seconds=seconds,
            dry_run=dry_run,
        )


def reason_of(error: Exception) -> str:
    """Describe why a file failed."""
    match error:
        case Unreadable():
            return error.reason
        case OSError():
            return error.strerror or str(error)
        case KbError():
            return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"{type(error).__name__}: {error}"
