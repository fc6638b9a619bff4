"""What is watched: folders, which the system tells about, and single files, which are looked at.

A folder that is removed and made again, or replaced by another of its name, is another one to the
system, and tells nothing any more. So what stands at each path is remembered by its identity.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A path, and what stood there at one moment. `mark` is None where nothing did; it changes with
    a folder's identity, and with every change to a file."""

    path: str
    folder: bool
    mark: Mark | None

    @property
    def is_there(self) -> bool:
        return self.mark is not None


def look(path: str) -> Place:
    """What stands at `path`, an absolute path without links, now."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return Place(path, False, None)
    if stat.S_ISDIR(info.st_mode):
        return Place(path, True, (info.st_dev, info.st_ino))
    return Place(path, False, (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns))


def look_at(paths: Iterable[str]) -> dict[str, Place]:
    """What stands at each of `paths`, without those that lie in another that is a folder."""
    found = {path: look(path) for path in dict.fromkeys(paths)}
    return {
        path: place
        for path, place in found.items()
        if not any(other.folder and path != root and path.startswith(root.rstrip(os.sep) + os.sep)
                   for root, other in found.items())
    }  # fmt: skip
