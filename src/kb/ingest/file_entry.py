"""A file as the walk tells it, and how to find it again by what the walk called it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from kb.ingest import file_names
from kb.regular_files import FileIdentity


@dataclass(frozen=True, slots=True)
class Found:
    """A file. `path` is inside the root, as text; `os_path` is its name on disk where `path` would
    not lead back to it."""

    path: str
    os_path: bytes | None
    size: int
    mtime_ns: int
    ctime_ns: int = 0
    device: int | None = None
    inode: int | None = None

    @property
    def identity(self) -> FileIdentity | None:
        """Which file it is, where the system tells."""
        if self.device is None or self.inode is None:
            return None
        return FileIdentity(self.device, self.inode)

    @property
    def inside(self) -> str:
        """The path inside the root as the system takes it."""
        return self.path if self.os_path is None else os.fsdecode(self.os_path)


def found_at(path: str, inside: str, info: os.stat_result) -> Found:
    """`path` is the text, `inside` what the system calls it."""
    os_path = None if inside == path else os.fsencode(inside)
    device, inode = info.st_dev or None, info.st_ino or None  # Windows does not tell them cheaply
    return Found(path, os_path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, device, inode)


def within(path: str, part: str) -> bool:
    """Whether `path` is `part` or lies below it; everything lies below `""`."""
    return not part or path == part or path.startswith(part + "/")


def find(root: str, path: str, *, follow_links: bool = False) -> Found | None:
    """The single file that a walk would call `path`, whatever the ignore files say of it."""
    inside = path
    if "\\x" in path or not os.path.lexists(os.path.join(root, path)):
        if (named := _on_disk(root, path)) is None:
            return None
        inside = named
    info = os.stat(os.path.join(root, inside), follow_symlinks=follow_links)
    return found_at(path, inside, info) if stat.S_ISREG(info.st_mode) else None


def _on_disk(root: str, path: str) -> str | None:
    """The system's name of what a walk calls `path`."""
    inside = ""
    for step in path.split("/"):
        try:
            present = sorted(os.listdir(os.path.join(root, inside)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        by_text = dict(zip(file_names.portable(present), present, strict=True))
        if step not in by_text:
            return None
        inside = f"{inside}/{by_text[step]}" if inside else by_text[step]
    return inside
