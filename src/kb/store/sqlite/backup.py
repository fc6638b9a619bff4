"""A copy of the store's file, page by page, by SQLite's own hand while others write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from kb.errors import DiskFull, StoreUnusable
from kb.store.sqlite.functions import scalar

_STEP_PAGES = 1024

OnStep = Callable[[int, int], None]  # pages done, pages in all


def copy(source: apsw.Connection, path: Path, on_step: OnStep) -> None:
    """Write what `source` sees to the new file `path`. The caller holds a transaction.

    Inside of it the copy is of one state, and is never begun anew because somebody wrote."""
    scalar(source, "SELECT changes FROM state")  # a transaction begins with its first look
    target = apsw.Connection(str(path))
    try:
        # The file is thrown away if anything goes wrong, and synced when it is complete.
        target.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                on_step(backup.page_count - backup.remaining, backup.page_count)
    except apsw.FullError as error:
        raise DiskFull(
            f"the disk of {path.parent} is full: no backup was made",
            "free some space, or choose another disk",
        ) from error
    finally:
        target.close()


def verify(path: Path) -> None:
    """Refuse a copy that SQLite finds anything wrong with."""
    connection = apsw.Connection(str(path))
    try:
        problem = str(scalar(connection, "PRAGMA quick_check(1)"))
    except apsw.Error as error:
        problem = str(error)
    finally:
        connection.close()  # folds its log in: the copy is one file
    if problem != "ok":
        raise StoreUnusable(
            f"the copy is damaged, as the store is: {problem}", "see what is wrong with: kb doctor"
        )
