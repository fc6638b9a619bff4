"""The only way to read a user's file: regular files, of bounded size, without unexpected links.

Between choosing a path and opening it, a file may be replaced by a link, a named pipe, a device or
a huge file, and a folder above it by a link. `open_file` and `read_file` therefore never block on a
pipe, never open a device, check the open file with `fstat`, and stop at a size limit. Given a
`root`, they open folder by folder and follow no link, neither inside the root nor on the way to it.
Systems without `O_NOFOLLOW` and `openat` (Windows) check each step inside the root before opening
the file, and the file again afterwards, which leaves a short moment for replacing it with a link.

They also refuse the files of every store that this process has open (`kb.open_stores`).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from kb.open_stores import is_store_file

__all__ = [
    "FileChanged",
    "FileIdentity",
    "FileTooLarge",
    "IsLink",
    "Links",
    "NotRegular",
    "OpenFile",
    "OutsideRoot",
    "ReadRefused",
    "StoreFile",
    "is_link",
    "names_inside",
    "open_file",
    "open_folder",
    "read_file",
]

Links = Literal["refuse", "inside", "follow"]
"""Which links are followed: none, those with a target inside the root, or all."""

_READ_BYTES = 1 << 20
_PATH_BYTES = 4096  # the longest path that Linux opens
_HAS_OPENAT = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_FOLLOW_ANY = getattr(os, "O_NOFOLLOW_ANY", 0)  # macOS: no link anywhere in the path
_FILE_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    _FILE_FLAGS |= getattr(os, _name, 0)
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
# A folder on the way is traversed, not listed.
_TRAVERSE_FLAGS = _FOLDER_FLAGS | getattr(os, "O_PATH", 0)
_F_GETPATH = 50 if sys.platform == "darwin" else None  # `fcntl.F_GETPATH`, without its import
_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)  # Windows


class ReadRefused(OSError):
    """A file that must not be read. `strerror` and `reason` explain why, for reports."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(errno.EACCES, reason, path)
        self.reason = reason


class NotRegular(ReadRefused):
    """A folder, named pipe, socket or device."""

    def __init__(self, path: str) -> None:
        super().__init__("not a regular file", path)


class IsLink(ReadRefused):
    """A link, or a path that leads through one."""

    def __init__(self, path: str) -> None:
        super().__init__("is a link", path)


class OutsideRoot(ReadRefused):
    """A path, or a link, that leads out of the folder it must stay in."""

    def __init__(self, path: str) -> None:
        super().__init__("leads out of its folder", path)


class FileChanged(ReadRefused):
    """A file other than the expected one."""

    def __init__(self, path: str) -> None:
        super().__init__("changed while it was read", path)


class FileTooLarge(ReadRefused):
    """A file above the size limit."""

    def __init__(self, limit_bytes: int, path: str) -> None:
        super().__init__(f"larger than {limit_bytes:,} bytes", path)


class StoreFile(ReadRefused):
    """A file of a store that this process has open."""

    def __init__(self, path: str) -> None:
        super().__init__("belongs to an open store", path)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a file, independent of its name. `size_bytes` and `mtime_ns` are compared
    only if they are set."""

    device: int
    inode: int
    size_bytes: int | None = None
    mtime_ns: int | None = None

    @classmethod
    def of(cls, info: os.stat_result, *, content: bool = False) -> FileIdentity | None:
        """The identity in a `stat` result; with `content`, it includes size and time. None if the
        system does not report it (a listing on Windows, some network file systems)."""
        if not info.st_ino:
            return None
        if content:
            return cls(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        return cls(info.st_dev, info.st_ino)

    def matches(self, info: os.stat_result) -> bool:
        return (
            (self.device, self.inode) == (info.st_dev, info.st_ino)
            and self.size_bytes in (None, info.st_size)
            and self.mtime_ns in (None, info.st_mtime_ns)
        )


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file, open for reading. `info` is its `stat` result at opening; `linked` is whether
    it was reached through a link."""

    descriptor: int
    path: str
    info: os.stat_result
    linked: bool

    def head(self, count: int) -> bytes:
        """Return the first `count` bytes, or all if the file is shorter."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        return self._read_up_to(count)

    def read(self, limit_bytes: int) -> bytes:
        """Return all bytes. Raises `FileTooLarge` above `limit_bytes`, even if the file grows."""
        if self.info.st_size > limit_bytes:
            raise FileTooLarge(limit_bytes, self.path)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        data = self._read_up_to(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise FileTooLarge(limit_bytes, self.path)
        return data

    def real_path(self) -> str:
        """The path of the file with all links resolved. Raises `FileChanged` if it was moved."""
        real = _path_of_descriptor(self.descriptor) or os.path.realpath(self.path)
        try:
            current = os.stat(real, follow_symlinks=False)
        except OSError:
            raise FileChanged(self.path) from None
        if not os.path.samestat(current, self.info):
            raise FileChanged(self.path)
        return real

    def _read_up_to(self, count: int) -> bytes:
        """Read at most `count` bytes; allocates memory for the file's size, not for `count`."""
        pieces: list[bytes] = []
        expected = self.info.st_size + 1  # one byte more detects the end, or growth
        while count > 0:
            piece = os.read(self.descriptor, min(count, expected if expected > 0 else _READ_BYTES))
            if not piece:
                break
            pieces.append(piece)
            count -= len(piece)
            expected -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_file(
    path: str | os.PathLike[str],
    limit_bytes: int,
    *,
    root: str | os.PathLike[str] | None = None,
    links: Links = "refuse",
    expected: FileIdentity | None = None,
) -> bytes:
    """Return the bytes of the regular file at `path`; see `open_file`.

    Raises `FileTooLarge` for a file with more than `limit_bytes`, without reading more than that.
    """
    with open_file(path, root=root, links=links, expected=expected) as file:
        return file.read(limit_bytes)


@contextmanager
def open_file(
    path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    links: Links = "refuse",
    expected: FileIdentity | None = None,
) -> Iterator[OpenFile]:
    """Open the regular file at `path` for reading.

    Without `root`, only the last name of `path` must not be a link. With `root`, a path as returned
    by `os.path.realpath`, `path` is relative to it, and no name of either may be a link. `links`
    set to `inside` allows links with a target inside `root`, `follow` allows all. With `expected`,
    the file must have that identity.

    Raises `ReadRefused` (an `OSError`) for a file that must not be read, and the `OSError` of the
    system for one that cannot be read.
    """
    place = os.fspath(path)
    base = None if root is None else os.fspath(root)
    steps = None if base is None else names_inside(place)
    full = place if base is None else os.path.join(base, place)
    try:
        descriptor, linked = _open_checked(full, base, steps, links)
    except ValueError:  # a NUL in the path
        raise NotRegular(full) from None
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise NotRegular(full)
        if expected is not None and not expected.matches(info):
            raise FileChanged(full)
        file = OpenFile(descriptor, full, info, linked)
        if base is not None and linked and links == "inside":
            _check_inside(base, file)
        yield file
    finally:
        os.close(descriptor)


@contextmanager
def open_folder(root: str, inside: str = "", *, follow_links: bool = False) -> Iterator[int | str]:
    """Open the folder `inside` below `root` for `os.scandir`.

    Yields a descriptor or, where the system cannot list one, the checked path. No name of either
    may be a link, unless `follow_links` is set.
    """
    full = os.path.join(root, inside) if inside else root
    steps = names_inside(inside) if inside else []
    if os.scandir not in os.supports_fd or not _HAS_OPENAT:
        if not follow_links:
            _check_steps(root, steps)
        yield full
        return
    if follow_links:
        descriptor = os.open(full, _FOLDER_FLAGS)
    else:
        descriptor = _open_folder_below(root, steps, _FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_link(info: os.stat_result) -> bool:
    """Whether an `lstat` result is that of a symbolic link or a Windows junction."""
    if stat.S_ISLNK(info.st_mode):
        return True
    return _JUNCTION is not None and getattr(info, "st_reparse_tag", 0) == _JUNCTION


# --- opening ----------------------------------------------------------------------------------


def _open_checked(
    full: str, base: str | None, steps: list[str] | None, links: Links
) -> tuple[int, bool]:
    """Open `full` after checking that it is a regular file; also return whether it was a link."""
    try:
        return _open_unlinked(full, base, steps), False
    except IsLink:
        if links == "refuse":
            raise
    info = os.stat(full)
    _check_regular(info, full)
    _check_no_store(info, full)
    return _open_at(full, None, full, _FILE_FLAGS), True


def _open_unlinked(full: str, base: str | None, steps: list[str] | None) -> int:
    if base is None or steps is None:
        return _open_last(full, None, full)
    if not _HAS_OPENAT:
        _check_steps(base, steps[:-1])
        return _open_last(full, None, full)
    parent = _open_folder_below(base, steps[:-1], _TRAVERSE_FLAGS)
    try:
        return _open_last(steps[-1], parent, full)
    finally:
        os.close(parent)


def _open_last(name: str, parent: int | None, full: str) -> int:
    """Open a file after checking its type, since opening a device can have side effects."""
    before = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if is_link(before):
        raise IsLink(full)
    _check_regular(before, full)
    _check_no_store(before, full)
    descriptor = _open_at(name, parent, full, _FILE_FLAGS | _NO_FOLLOW)
    if not _NO_FOLLOW and not os.path.samestat(before, os.fstat(descriptor)):
        os.close(descriptor)
        raise FileChanged(full)
    return descriptor


def _open_at(name: str, parent: int | None, full: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if flags & (_NO_FOLLOW | _NO_FOLLOW_ANY) and error.errno in (errno.ELOOP, errno.EMLINK):
            raise IsLink(full) from None
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV):  # a socket, or a device
            raise NotRegular(full) from None
        raise


def _open_folder_below(root: str, steps: list[str], flags: int) -> int:
    """Open the folder at `steps` below `root` without following a link."""
    full = os.path.join(os.path.abspath(root), *steps)
    if _NO_FOLLOW_ANY:
        return _open_at(full, None, full, flags | _NO_FOLLOW_ANY)
    if len(os.fsencode(full)) >= _PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), full)
    names = [name for name in full.split(os.sep) if name]
    descriptor = os.open(os.sep, _TRAVERSE_FLAGS if names else flags)
    try:
        for number, name in enumerate(names, start=1):
            above = descriptor
            descriptor = _open_folder_at(
                name, above, _TRAVERSE_FLAGS if number < len(names) else flags, full
            )
            os.close(above)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_folder_at(name: str, parent: int, flags: int, full: str) -> int:
    try:
        return os.open(name, flags | _NO_FOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and _is_link_at(name, parent):
            raise IsLink(full) from None
        raise


def _is_link_at(name: str, parent: int) -> bool:
    try:
        return is_link(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except OSError:
        return False


# --- checks -----------------------------------------------------------------------------------


def names_inside(path: str) -> list[str]:
    """Split a path inside a root into its names. Raises `OutsideRoot` for one that could lead out
    of it: an absolute path, or one that contains `..`."""
    names = path.replace(os.altsep, os.sep).split(os.sep) if os.altsep else path.split(os.sep)
    # On Windows, `C:x` is a path on another drive, and `a:b` an alternate stream of the file `a`.
    colon = sys.platform == "win32" and any(":" in name for name in names)
    if colon or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise OutsideRoot(path)
    return names


def _check_steps(root: str, steps: list[str]) -> None:
    """Raise `IsLink` if one of the folders is a link, where they cannot be opened one by one."""
    descriptor = root
    for step in steps:
        descriptor = os.path.join(descriptor, step)
        if is_link(os.stat(descriptor, follow_symlinks=False)):
            raise IsLink(descriptor)


def _check_regular(info: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise NotRegular(path)


def _check_no_store(info: os.stat_result, path: str) -> None:
    if is_store_file(info):
        raise StoreFile(path)


def _check_inside(root: str, file: OpenFile) -> None:
    with open_folder(root) as folder:
        real_root = _path_of_descriptor(folder) if isinstance(folder, int) else None
    inside = (real_root or os.path.realpath(root)).rstrip(os.sep) + os.sep
    if not file.real_path().startswith(inside):
        raise OutsideRoot(file.path)


def _path_of_descriptor(descriptor: int) -> str | None:
    """The path of an open file, or None if the system does not report it."""
    if os.path.isdir("/proc/self/fd"):  # Linux
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return None
    if _F_GETPATH is not None:
        from fcntl import fcntl

        return os.fsdecode(fcntl(descriptor, _F_GETPATH, bytes(1024)).split(b"\0", 1)[0])
    return None
