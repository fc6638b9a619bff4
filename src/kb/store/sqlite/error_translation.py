"""Translates errors of SQLite into errors of kb."""

from __future__ import annotations

import apsw

from kb.errors import DiskFull, KbError, StoreBusy, StoreError, StoreReadOnly, StoreUnusable

# Result codes if a full disk, a quota or a file size limit keeps the log or its shared memory from
# growing.
_NO_SPACE = frozenset(
    {
        apsw.SQLITE_IOERR_WRITE,
        apsw.SQLITE_IOERR_SHMSIZE,
        apsw.SQLITE_IOERR_SHMMAP,
        apsw.SQLITE_IOERR_SHMOPEN,
    }
)


def lacks_space(error: apsw.Error) -> bool:
    """Whether the disk has no space, or a quota or a file size limit is reached."""
    return getattr(error, "extendedresult", 0) in _NO_SPACE


def translate(error: apsw.Error, path: str) -> KbError:
    """The error of kb for an error of SQLite about the store at `path`."""
    text = str(error)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(
            f"{path} is being written by another process",
            "try again, or raise store.busy_timeout_s",
        )
    if isinstance(error, apsw.FullError):
        return DiskFull(
            f"the disk that holds {path} is full: the last change was not written",
            "free some space (removing documents from the store needs space too), and run "
            "the command again; everything before it is kept",
        )
    if lacks_space(error):
        return DiskFull(
            f"{path} cannot grow ({text}): the disk is full or failing, or a quota is reached",
            "free some space and run the command again; what was already written is kept",
        )
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(f"{path} cannot be written ({text})", "check the file's permissions")
    if isinstance(error, apsw.NotADBError):
        return StoreUnusable(f"{path} is not an SQLite file", "choose another file with --store")
    if isinstance(error, apsw.CorruptError):
        return StoreUnusable(
            f"{path} is damaged ({text})",
            "kb doctor --fix repairs indexes; otherwise restore a backup, or remove the store and "
            "ingest again",
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnusable(f"cannot open {path} ({text})", "check the folder and its permissions")
    return StoreError(f"{path}: {type(error).__name__}: {text}", "run the command again")
