"""Files that appear complete or not at all: written beside their target, then renamed.

Used for backups, exports and imported stores. A killed process leaves its unfinished file under a
name that contains its process id; the next process that writes to the same target removes it. The
same holds for scratch folders in the system's temporary folder.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from kb.errors import DiskFull, InvalidRequest, KbError

_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]{1,10})-\w+")  # namespace, process id, random part
_ABANDONED_S = 24 * 3600
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")  # of the files that SQLite keeps beside a database


@contextmanager
def atomic_path(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a path to write to; it becomes `target` if the block succeeds, or is removed."""
    if not target.name:
        raise InvalidRequest(f"{target} is a folder", "name a file")
    part = target.with_name(f".{target.name}.{_owner()}-{secrets.token_hex(4)}.part")
    try:
        check_target(target, overwrite=overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target.parent, f".{target.name}.", ".part")
        yield part
        _sync(part)
        _rename(part, target, overwrite=overwrite)
        _sync(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        for path in (part, *_sqlite_siblings(part)):
            with suppress(OSError):
                path.unlink()


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """Yield a temporary folder that is removed at the end. First removes the folders that killed
    processes have left."""
    import tempfile

    _remove_abandoned(Path(tempfile.gettempdir()), f"kb-{name}-", "")
    with tempfile.TemporaryDirectory(prefix=f"kb-{name}-{_owner()}-") as folder:
        yield Path(folder)


def _owner() -> str:
    """An identifier of this process for file names: a hash of its namespace, and its id."""
    from kb.processes import pid_namespace

    return f"{crc32(pid_namespace().encode()):08x}-{os.getpid()}"


def _remove_abandoned(folder: Path, start: str, end: str) -> None:
    """Remove the files and folders left by processes that have ended."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            for suffix in ("", *_SQLITE_SUFFIXES):
                if name.startswith(start) and name.endswith(end + suffix):
                    owner = name[len(start) : len(name) - len(end + suffix)]
                    if _is_abandoned(entry, owner):
                        _remove(entry)
                    break


def _is_abandoned(entry: os.DirEntry[str], owner: str) -> bool:
    """Whether the owning process has ended or, if that is unknown, nothing has changed for a
    day."""
    from kb.processes import has_exited, pid_namespace

    with suppress(OSError):
        info = entry.stat(follow_symlinks=False)
        if hasattr(os, "getuid") and info.st_uid != os.getuid():
            return False
        match = _OWNER.fullmatch(owner)
        if (
            match
            and _owner().startswith(f"{match[1]}-")
            and has_exited(pid_namespace(), int(match[2]))
        ):
            return True
        return time.time() - info.st_mtime > _ABANDONED_S
    return False


def _remove(entry: os.DirEntry[str]) -> None:
    import shutil

    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _unwritable(target: Path, error: OSError) -> KbError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"the disk that holds {target.parent} is full, so {target.name} was not written",
            "free some space, or choose another disk",
        )
    return InvalidRequest(f"cannot write {target}: {error.strerror}", "choose another location")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise `InvalidRequest` before any work is done if `target` cannot be written."""
    if target.is_dir():
        raise InvalidRequest(f"{target} is a folder", "name a file in it")
    if target.parent.exists() and not target.parent.is_dir():
        raise InvalidRequest(f"{target.parent} is not a folder", "name a file in a folder")
    if target.exists() and not overwrite:
        raise _exists(target)
    for path in _sqlite_siblings(target):
        # SQLite would treat an existing log as that of the new file, and replay it.
        if path.exists() and not path.name.endswith("-shm"):
            raise InvalidRequest(
                f"{path} belongs to a store that is open or was not closed",
                "choose another name, or run kb status on that store, which closes it",
            )


def _sqlite_siblings(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in _SQLITE_SUFFIXES]


def _rename(part: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, never replaces a file that was created meanwhile
    except FileExistsError:
        raise _exists(target) from None
    except (OSError, NotImplementedError, AttributeError):  # a file system without hard links
        if target.exists():
            raise _exists(target) from None
        os.replace(part, target)


def _exists(target: Path) -> InvalidRequest:
    return InvalidRequest(f"{target} already exists", "choose another name, or use --force")


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk. Not every system can sync a folder."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
