"""A file that appears whole or not at all: written beside its place, then renamed into it.

Used where the store writes another file: backups, exports, a store that an import makes. A process
that is killed leaves what it had written so far, under a name that tells the process; the next one
that writes to the same place removes it. The same holds for folders in the system's temporary one.
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

_NAMED = re.compile(r"([0-9a-f]{8})-([0-9]{1,10})-\w+")  # the reach, the process, something random
_ABANDONED_S = 24 * 3600
_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps next to a file


@contextmanager
def placed(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A path to write to. It becomes `target` when the block ends well; else nothing is left."""
    if not target.name:
        raise InvalidRequest(f"{target} is a folder", "name a file")
    part = target.with_name(f".{target.name}.{_process()}-{secrets.token_hex(4)}.part")
    try:
        check(target, overwrite=overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent, f".{target.name}.", ".part")
        yield part
        _sync(part)
        _rename(part, target, overwrite=overwrite)
        _sync(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        for path in (part, *_neighbours(part)):
            with suppress(OSError):
                path.unlink()


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder of one's own in the system's temporary one, removed at the end; before, those of
    processes that were killed are removed."""
    import tempfile

    _sweep(Path(tempfile.gettempdir()), f"kb-{name}-", "")
    with tempfile.TemporaryDirectory(prefix=f"kb-{name}-{_process()}-") as folder:
        yield Path(folder)


def _process() -> str:
    """This process, and how far its number reaches, for the name of a file."""
    from kb.processes import here

    return f"{crc32(here().encode()):08x}-{os.getpid()}"


def _sweep(folder: Path, start: str, end: str) -> None:
    """Remove what processes have left that are no more."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            for beside in ("", *_BESIDE):
                if name.startswith(start) and name.endswith(end + beside):
                    left = name[len(start) : len(name) - len(end + beside)]
                    if _is_abandoned(entry, left):
                        _remove(entry)
                    break


def _is_abandoned(entry: os.DirEntry[str], name: str) -> bool:
    """By the process in the `name`; where that cannot be told, by a day without a change."""
    from kb.processes import here, is_gone

    with suppress(OSError):
        about = entry.stat(follow_symlinks=False)
        if hasattr(os, "getuid") and about.st_uid != os.getuid():
            return False
        told = _NAMED.fullmatch(name)
        if told and _process().startswith(f"{told[1]}-") and is_gone(here(), int(told[2])):
            return True
        return time.time() - about.st_mtime > _ABANDONED_S
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
            f"the disk of {target.parent} is full: {target.name} was not written",
            "free some space, or choose another disk",
        )
    return InvalidRequest(f"cannot write {target}: {error.strerror}", "choose another place")


def check(target: Path, *, overwrite: bool) -> None:
    """Refuse before any work is done what would be refused after it."""
    if target.is_dir():
        raise InvalidRequest(f"{target} is a folder", "name a file in it")
    if target.parent.exists() and not target.parent.is_dir():
        raise InvalidRequest(f"{target.parent} is not a folder", "name a file in a folder")
    if target.exists() and not overwrite:
        raise _taken(target)
    for path in _neighbours(target):
        # SQLite would take a log that lies there for the new file's own, and play it back.
        if path.exists() and not path.name.endswith("-shm"):
            raise InvalidRequest(
                f"{path} belongs to a store that is in use, or was not closed",
                "choose another name, or open and close that store first, as by: kb status",
            )


def _neighbours(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in _BESIDE]


def _rename(part: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, never replaces what came to be there meanwhile
    except FileExistsError:
        raise _taken(target) from None
    except (OSError, NotImplementedError, AttributeError):  # a file system without hard links
        if target.exists():
            raise _taken(target) from None
        os.replace(part, target)


def _taken(target: Path) -> InvalidRequest:
    return InvalidRequest(f"{target} is there already", "choose another name, or use --force")


def _sync(path: Path) -> None:
    """On the disk, not only on its way there. Folders cannot be synced everywhere."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
