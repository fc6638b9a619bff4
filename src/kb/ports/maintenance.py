"""The maintenance port: checks, repairs, backups, exports and imports."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import DiskUsage, Finding, ImportReport

OnProgress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `kb doctor`. `repair` fixes what the check found, and returns what is left for
    the user to do, if anything; None means that the check has no repair."""

    part: str
    run: Callable[[], Finding]
    repair: Callable[[], str | None] | None = None


class Maintenance(Protocol):
    """Checks and repairs a store, and backs up, exports and imports its content."""

    def versions(self) -> dict[str, str]:
        """The versions of the database engine and of the schema, by name. Raises `StoreUnusable`
        or `StoreTooNew` if the store cannot be opened."""
        ...

    def size_bytes(self) -> int:
        """How large the store is, without its log."""
        ...

    def disk_usage(self) -> DiskUsage:
        """How large the store and its log are, and how much space is left for them, if that is
        known."""
        ...

    def checks(self, rechunk_note: Callable[[int], None]) -> Iterable[Check]:
        """The checks of this kind of store, in an order in which no repair undoes an earlier one.
        Repairs call `rechunk_note` with the id of a note whose chunks were lost."""
        ...

    def checkpoint(self) -> None:
        """Move recent writes from a large log to the main file, where the store has such a log."""
        ...

    def compact(self) -> int:
        """Free the disk space of removed documents, and return the number of bytes. Blocks other
        writers, and needs as much free space as the store takes."""
        ...

    def backup(self, target: Path, *, overwrite: bool, on_progress: OnProgress) -> None:
        """Write a copy of the store's current state to one file, and verify it. Other processes may
        write to the store at the same time."""
        ...

    def export(self, *, vectors: bool = False) -> Generator[bytes]:
        """The lines of an `export.v1` of the store's current state; the header comes first."""
        ...

    def load_in_steps(self, lines: Iterable[bytes], *, on_progress: OnProgress) -> ImportReport:
        """Import all lines into an empty store, in several transactions. If the import was
        interrupted, a call with the same lines continues it; until then, the store is
        incomplete."""
        ...

    def load(self, lines: Iterable[bytes], *, merge: bool, on_progress: OnProgress) -> ImportReport:
        """Import the lines of an `export.v1`, all of them or, after an error, none. Raises
        `BrokenImport` for lines that cannot be read, and `InvalidRequest` if the store has
        documents and `merge` is False."""
        ...
