"""A file below a root, as the walk lists it, and how to find it again by its path."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from kb.ingest import file_names
from kb.regular_files import FileIdentity

_MAX_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file and its `stat` data.

    `path` is its path inside the root as portable text; `os_path` is the path on disk, set only
    where `path` does not lead back to the file.
    """

    path: str
    os_path: bytes | None
    size: int
    mtime_ns: int
    ctime_ns: int = 0
    device: int | None = None
    inode: int | None = None

    @classmethod
    def from_stat(cls, path: str, disk_path: str, info: os.stat_result) -> FileEntry:
        """Build the entry of the file at `disk_path`, whose portable path is `path`."""
        os_path = None if disk_path == path else os.fsencode(disk_path)
        device, inode = info.st_dev or None, info.st_ino or None  # 0 in a listing on Windows
        mtime_ns, ctime_ns = _bound_ns(info.st_mtime_ns), _bound_ns(info.st_ctime_ns)
        return cls(path, os_path, info.st_size, mtime_ns, ctime_ns, device, inode)

    @property
    def identity(self) -> FileIdentity | None:
        """The file's identity, or None where the system does not report one."""
        if self.device is None or self.inode is None:
            return None
        return FileIdentity(self.device, self.inode)

    @property
    def disk_path(self) -> str:
        """The path inside the root, as the operating system spells it."""
        return self.path if self.os_path is None else os.fsdecode(self.os_path)


def _bound_ns(time_ns: int) -> int:
    """The nearest time that the store can hold: file systems also allow years after 2262."""
    return max(-_MAX_NS, min(time_ns, _MAX_NS))


def is_within(path: str, part: str) -> bool:
    """Whether `path` is `part` or lies below it; every path lies below `""`."""
    return not part or path == part or path.startswith(part + "/")


def find_file(root: str, path: str, *, follow_links: bool = False) -> FileEntry | None:
    """Find the regular file that the walk lists as `path`, even if an ignore file excludes it."""
    disk_path = path
    if "\\x" in path or not os.path.lexists(os.path.join(root, path)):
        if (spelling := _spelling_on_disk(root, path)) is None:
            return None
        disk_path = spelling
    info = os.stat(os.path.join(root, disk_path), follow_symlinks=follow_links)
    return FileEntry.from_stat(path, disk_path, info) if stat.S_ISREG(info.st_mode) else None


def _spelling_on_disk(root: str, path: str) -> str | None:
    """How the operating system spells the path that the walk lists as `path`."""
    disk_path = ""
    for step in path.split("/"):
        try:
            names = sorted(os.listdir(os.path.join(root, disk_path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        by_text = dict(zip(file_names.portable(names), names, strict=True))
        if step not in by_text:
            return None
        disk_path = f"{disk_path}/{by_text[step]}" if disk_path else by_text[step]
    return disk_path
