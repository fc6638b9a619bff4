"""Which settings files may be used, and which folders the user has trusted.

The `config.toml` of a folder comes with the folder: from a clone, an archive, a shared disk.
`kb.config` declares which keys it may set without trust. Trust applies to the content of a file at
a path, as in direnv: it is recorded as a file in the user's configuration folder whose name is the
SHA-256 of both. A settings file that is changed or copied is no longer trusted.

Owners and permissions are checked on POSIX only; trust works the same on Windows.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kb.values import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from pathlib import Path

MAX_SETTINGS_BYTES = 256 * 1024  # of a settings file


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file. If `exposure` is set, others could have written it, and it was not read."""

    path: Path
    content: bytes = b""
    exposure: str | None = None


def read_settings(path: str | os.PathLike[str]) -> SettingsFile | None:
    """Read the settings file at `path`; None if it does not exist.

    Raises `OSError` if it is not a regular file, is too large or cannot be read. Never blocks.
    """
    try:
        os.lstat(path)
        from pathlib import Path  # most folders have no settings

        from kb.regular_files import open_file

        with open_file(path, links="follow") as file:
            if problem := exposure(file.info, os.stat(Path(path).parent)):
                return SettingsFile(Path(path), exposure=problem)
            return SettingsFile(Path(path), file.read(MAX_SETTINGS_BYTES))
    # The latter: the store's path leads through a file.
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- owners ---------------------------------------------------------------------------------------


def exposure(file: os.stat_result, folder: os.stat_result) -> str | None:
    """Describe who besides this user and root could have written the file; None if nobody."""
    if os.name != "posix":
        return None
    if not is_own(file):
        return "it belongs to another user"
    if _others_can_write(file):
        return "other users can write to it"
    if not is_own(folder):
        return "its folder belongs to another user"
    if _others_can_write(folder) and not folder.st_mode & stat.S_ISVTX:
        return "other users can write to its folder"
    return None


def is_own(info: os.stat_result) -> bool:
    """Whether the file belongs to this user, to root, or to the user who called sudo."""
    if os.name != "posix" or info.st_uid in (os.geteuid(), 0):
        return True
    return os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(info.st_uid)


def _others_can_write(info: os.stat_result) -> bool:
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(info.st_gid, info.st_uid)


def _is_private_group(gid: int, uid: int) -> bool:
    """Whether the group is root's, or has no member other than the user: many systems give each
    user a private group that can write to new files."""
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


# --- trust ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The contents and paths that the user has trusted, one file for each in `folder`."""

    folder: Path

    def is_trusted(self, path: Path, content: bytes) -> bool:
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
            file.write(os.fsencode(_resolve(path)) + b"\n")

    def remove(self, path: Path) -> int:
        """Revoke the trust in all contents at this path; return how many there were."""
        subject = os.fsencode(_resolve(path)) + b"\n"
        removed = 0
        for entry in self._entries():
            with suppress(FileNotFoundError):
                if entry.read_bytes() == subject:
                    entry.unlink()
                    removed += 1
        return removed

    @contextmanager
    def preserve(self, path: Path) -> Iterator[None]:
        """Keep trusting the file after the block has changed it, if it was trusted before: the user
        requested the change."""
        before = read_settings(path)
        trusted = before is not None and self.is_trusted(path, before.content)
        yield
        if trusted and (after := read_settings(path)) is not None:
            self.remove(path)
            self.add(path, after.content)

    def _entries(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from sorted(each for each in self.folder.iterdir() if each.is_file())

    def _entry(self, path: Path, content: bytes) -> Path:
        from hashlib import sha256

        return self.folder / sha256(os.fsencode(_resolve(path)) + b"\0" + content).hexdigest()


def _resolve(path: Path) -> str:
    """Resolve links except in the last name: a link to a trusted file is not trusted."""
    return os.path.join(os.path.realpath(path.parent), path.name)
