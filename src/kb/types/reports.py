"""What a command that was not a question has done, or found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileNote:
    """One file's line in an ingest report."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A document whose file has moved: its path in the store before and now."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest run did, or, in a dry run, would have done."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    skipped: tuple[FileNote, ...] = ()
    failed: tuple[FileNote, ...] = ()
    warnings: tuple[FileNote, ...] = ()
    missing_roots: tuple[str, ...] = ()
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_removed: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    notes: tuple[str, ...] = ()  # of the store as a whole: what its reader might want to do


@dataclass(frozen=True, slots=True)
class Counts:
    """How many documents and chunks a store holds, and how many documents of each group."""

    documents: int
    chunks: int
    by_root: dict[str, int]  # by the root's name
    by_type: dict[str, int]
    by_kind: dict[str, int]
    by_scope: dict[str, int]


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The size of a store and of its write-ahead log, and of the disk that it is on."""

    size_bytes: int
    log_bytes: int
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What a run that embeds did. `filled` are chunks whose vectors lacked a part and have it now;
    `failed` are chunks whose text the model could not take; `left` are those that are still without
    vectors and will be tried again, of which others are working on `elsewhere`; `lacking` those
    that still lack a part; `given_up` those that have failed so often that they are not tried
    again, in this run or before; `truncated` those of which the model saw no more than the
    beginning. `unfit` says what the model's exam has shown, if it has failed. `held` says why the
    vectors of a reindex do not answer yet, and what to do."""

    model: str
    version: str
    embedded: int = 0
    filled: int = 0
    failed: int = 0
    left: int = 0
    elsewhere: int = 0
    lacking: int = 0
    given_up: int = 0
    last_error: str | None = None
    truncated: int = 0
    seconds: float = 0.0
    unfit: str | None = None
    held: str | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. `kept` are documents of which the store had a newer state."""

    added: int
    replaced: int
    kept: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis. `state` is `ok`, `warning` or `error`: what it was found in, also
    where it was then `fixed`."""

    part: str
    state: str
    what: str
    to_do: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found, in the order it looked."""

    store: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Warnings are allowed, and so is what was fixed."""
        return not any(one.state == "error" and not one.fixed for one in self.findings)
