"""The store as a whole, out and in: backup, export, import. Here stand the transactions."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path

from kb import atomic
from kb.errors import DiskFull, InvalidRequest
from kb.store.sqlite import backup as pages
from kb.store.sqlite import export_format, export_rows, import_rows, schema
from kb.store.sqlite.connection import Database
from kb.types import ImportReport, JsonDict


def backup(database: Database, target: Path, *, overwrite: bool, on_step: pages.OnStep) -> None:
    """Copy the store to one file that opens as a store; verified before it takes its place."""
    with suppress(OSError):  # a target that cannot be looked at is refused below
        if target.samefile(database.path):
            raise InvalidRequest(f"{target} is the store itself", "choose another name")
    with atomic.atomic_path(target, overwrite=overwrite) as part:
        with database.reading() as connection:
            pages.copy(connection, part, on_step)
        pages.verify(part)
        shutil.copymode(database.path, part)  # who may not read the one may not read the other


def export(database: Database, *, vectors: bool) -> Generator[bytes]:
    with database.reading() as connection:
        yield export_format.line(export_rows.header(connection, vectors=vectors))
        yield from export_rows.lines(connection, vectors=vectors)


def load(
    database: Database, lines: Iterable[bytes], *, merge: bool, on_line: import_rows.OnLine
) -> ImportReport:
    following = iter(lines)
    header = export_format.header(next(following, b""), schema.VERSION)
    if database.read_only or database.path.exists():
        return _load(database, header, following, merge, on_line)
    with atomic.atomic_path(database.path) as part:  # a store that is not there comes whole
        fresh = Database(part, read_only=False, busy_timeout_s=0)
        try:
            report = _load(fresh, header, following, merge, on_line)
        finally:
            fresh.close()
        if part.with_name(part.name + "-wal").exists():  # its last step found no room
            raise _no_room(database)
        return report


def _load(
    database: Database,
    header: JsonDict,
    lines: Iterable[bytes],
    merge: bool,
    on_line: import_rows.OnLine,
) -> ImportReport:
    try:
        with database.writing() as connection:
            return import_rows.load(connection, header, lines, merge=merge, on_line=on_line)
    except DiskFull as error:
        raise _no_room(database) from error


def _no_room(database: Database) -> DiskFull:
    return DiskFull(
        f"the disk of {database.path.parent} is full: nothing was imported",
        "free some space and import again",
    )
