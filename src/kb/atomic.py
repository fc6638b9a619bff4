"""A file that appears whole or not at all: written beside its place, then renamed into it.

Used where the store writes another file: backups, exports, a store that an import makes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kb.errors import InvalidRequest

_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps next to a file


@contextmanager
def placed(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A path to write to. It becomes `target` when the block ends well; else nothing is left."""
    check(target, overwrite=overwrite)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        _sync(part)
        _rename(part, target, overwrite=overwrite)
        _sync(target.parent)
    finally:
        for path in (part, *_neighbours(part)):
            path.unlink(missing_ok=True)


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
