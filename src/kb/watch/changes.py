"""Which watched paths have changed, and which folders to read again.

Folders rather than files are read again: a new ignore file affects everything below it, a moved
folder brings all its files, and a renamed file is recognized only together with its new name.

A folder that is deleted and created again, or replaced by another, is a different folder to the
operating system, which stops reporting its changes. So each watched path is recorded with the
identity of the file or folder there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb.ingest.file_names import TOOL_FOLDERS, hidden_name
from kb.ingest.ignore import IGNORE_FILES

# --- watched paths --------------------------------------------------------------------------------

Identity = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A watched path and the identity of the file or folder there; None if it does not exist. The
    identity of a file changes with its content, that of a folder only if it is replaced."""

    path: str
    is_folder: bool
    identity: Identity | None

    @property
    def exists(self) -> bool:
        """Whether there was a file or folder at the path."""
        return self.identity is not None


def inspect(path: str) -> Target:
    """Return the current state of `path`, which is absolute and contains no links."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return Target(path, False, None)
    if stat.S_ISDIR(info.st_mode):
        return Target(path, True, (info.st_dev, info.st_ino))
    return Target(path, False, (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns))


def inspect_all(paths: Iterable[str]) -> dict[str, Target]:
    """Return the current state of `paths`. A path inside a folder that is also in `paths` is left
    out."""
    targets = {path: inspect(path) for path in dict.fromkeys(paths)}
    folders = [target.path for target in targets.values() if target.is_folder]
    return {
        path: target
        for path, target in targets.items()
        if not any(path != folder and _is_inside(path, folder) for folder in folders)
    }


# --- folders to read again ------------------------------------------------------------------------


def is_relevant(path: str, root: str, *, hidden: bool) -> bool:
    """Whether a change at `path` can affect a store that has ingested `root`."""
    *names, name = os.path.relpath(path, root).split(os.sep)
    if name not in IGNORE_FILES and name != ".":
        names.append(name)
    return TOOL_FOLDERS.isdisjoint(names) and (hidden or not hidden_name(names))


def folders_to_read(
    paths: Iterable[str], roots: Sequence[str], *, hidden: bool, store: str
) -> list[str]:
    """Return the folders to read again after changes at `paths`, none inside another. Changes to
    the `store` file are kb's own and are ignored."""
    folders: set[str] = set()
    for path in paths:
        if path.startswith(store):
            continue
        # The innermost: roots may be nested.
        root = max((one for one in roots if _is_inside(path, one)), key=len, default=None)
        if root is not None and is_relevant(path, root, hidden=hidden):
            folders.add(_nearest_folder(path, root))
            # After a folder with a link to a watched folder has been moved, the system reports
            # changes in the latter under the link.
            real = os.path.realpath(os.path.dirname(path))
            if any(_is_inside(real, one) for one in roots) and os.path.isdir(real):
                folders.add(real)
    return outermost(folders)


def outermost(folders: Iterable[str]) -> list[str]:
    """Return `folders` without those inside another one."""
    kept: list[str] = []
    for folder in sorted(folders, key=len):
        if not any(_is_inside(folder, other) for other in kept):
            kept.append(folder)
    return sorted(kept)


def _nearest_folder(path: str, root: str) -> str:
    """Return the folder of `path`, or the nearest parent that still exists and is not a link."""
    folder = os.path.dirname(path) if path != root else root
    while folder != root and not (os.path.isdir(folder) and os.path.realpath(folder) == folder):
        folder = os.path.dirname(folder)
    return folder


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
