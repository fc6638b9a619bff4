"""Which files of settings may be obeyed, and which folders the user has trusted.

A folder's own `config.toml` comes with the folder: from a clone, an archive, a shared disk. What it
may set without being trusted is declared in `kb.config`. Trust is given to a content at a path, as
direnv does it: a file in the user's configuration folder whose name is the SHA-256 of both. A file
that changes, or is copied elsewhere, is not trusted any more.

Owners and permissions are those of POSIX. On Windows they are not checked; trust works the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kb.regular_files import open_file

MOST_BYTES = 256 * 1024  # of a file of settings


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of settings as it was read. Where `exposure` says who else could have written it,
    nothing was read."""

    path: Path
    content: bytes = b""
    exposure: str | None = None


def read_settings(path: Path) -> SettingsFile | None:
    """The file at `path`, or None where there is none. Raises `OSError` for what is no regular
    file, is too large or cannot be read; waits for nothing."""
    try:
        with open_file(path, links="follow") as file:
            if problem := exposure(file.info, os.stat(path.parent)):
                return SettingsFile(path, exposure=problem)
            return SettingsFile(path, file.read(MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError):  # the latter: a store named below a file
        return None


# --- owners ---------------------------------------------------------------------------------------


def exposure(file: os.stat_result, folder: os.stat_result) -> str | None:
    """Who besides this user and root could have written the file; None: nobody."""
    if os.name != "posix":
        return None
    if not is_own(file):
        return "it belongs to another user"
    if _others_write(file):
        return "others may write to it"
    if not is_own(folder):
        return "its folder belongs to another user"
    if _others_write(folder) and not folder.st_mode & stat.S_ISVTX:
        return "others may write to its folder"
    return None


def is_own(info: os.stat_result) -> bool:
    """Whether it belongs to this user, to root, or to the user who called sudo."""
    if os.name != "posix" or info.st_uid in (os.geteuid(), 0):
        return True
    return os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(info.st_uid)


def _others_write(info: os.stat_result) -> bool:
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(info.st_gid, info.st_uid)


def _is_private_group(gid: int, uid: int) -> bool:
    """Whether the group is root's, or one that only its user is in: many systems give everyone a
    group of their own, and let new files be writable by it."""
    import grp
    import pwd

    if gid == 0:
        return True
    with suppress(KeyError):
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
        return user.pw_gid == gid and user.pw_name == group.gr_name and not (
            set(group.gr_mem) - {user.pw_name}
        )  # fmt: skip
    return False


# --- what the user has trusted --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """What the user has trusted, in a folder of its own: contents at paths."""

    folder: Path

    def holds(self, path: Path, content: bytes) -> bool:
        entry = self._entry(path, content)
        try:
            return exposure(os.lstat(entry), os.stat(self.folder)) is None
        except OSError:
            return False

    def add(self, path: Path, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = self._entry(path, content)
        descriptor = os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(os.fsencode(_resolved(path)) + b"\n")

    def remove(self, path: Path) -> int:
        """Trust nothing at this path any more; how many contents were."""
        subject = os.fsencode(_resolved(path)) + b"\n"
        removed = 0
        for entry in self._entries():
            with suppress(FileNotFoundError):
                if entry.read_bytes() == subject:
                    entry.unlink()
                    removed += 1
        return removed

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        """Trust the file after the block if it was trusted before: the block makes a change that
        the user has asked for."""
        before = read_settings(path)
        trusted = before is not None and self.holds(path, before.content)
        yield
        if trusted and (after := read_settings(path)) is not None:
            self.remove(path)
            self.add(path, after.content)

    def _entries(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from sorted(each for each in self.folder.iterdir() if each.is_file())

    def _entry(self, path: Path, content: bytes) -> Path:
        from hashlib import sha256

        return self.folder / sha256(os.fsencode(_resolved(path)) + b"\0" + content).hexdigest()


def _resolved(path: Path) -> str:
    """The path without links, but for the last name: a link to a trusted file is not trusted."""
    return os.path.join(os.path.realpath(path.parent), path.name)
