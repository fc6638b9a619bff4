"""The results of ingest, embed, import, status and doctor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file in an ingest report, and why it is listed."""

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
    notes: tuple[str, ...] = ()  # about the whole store, such as a useful command


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of documents and chunks in a store, and of documents in each group."""

    documents: int
    chunks: int
    by_root: dict[str, int]  # by the root's name
    by_type: dict[str, int]
    by_kind: dict[str, int]
    by_scope: dict[str, int]


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The size of a store and of its write-ahead log, and of the disk that it is on; None if that
    is another machine's."""

    size_bytes: int
    log_bytes: int
    free_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """The result of an embedding run.

    `embedded` counts chunks that got vectors, and `filled` those that got a missing part. `failed`
    counts chunks that the model could not encode. `left` counts chunks that have no vectors yet and
    will be retried; other jobs are working on `elsewhere` of them. `lacking` counts chunks that
    still lack a part. `given_up` counts chunks that failed too often, in this run or before, to be
    retried. `truncated` counts chunks of which the model read only the beginning.

    `unfit` describes the failed exam of the model. `held` explains why searches do not use the
    vectors of a reindex yet, and what to do.
    """

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
    """The result of an import. `kept` counts documents that were the same or newer in the store."""

    added: int
    replaced: int
    kept: int
    chunks: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy: both stores, how much was copied, and how many searches returned the
    same hits in both. `detached` are the folders whose files the copy does not read yet."""

    store: str
    copy: str
    documents: int
    chunks: int
    searches: int
    detached: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis. `state` is `ok`, `warning` or `error`, as it was before the finding
    was `fixed`."""

    part: str
    state: str
    what: str
    to_do: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of `doctor`, in the order of its checks."""

    store: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether there are no errors, except fixed ones."""
        return not any(one.state == "error" and not one.fixed for one in self.findings)
