"""Files that appear complete or not at all: written beside their target, then renamed.

Used for backups, exports and imported stores. A killed process leaves its unfinished file under a
name that contains its process id; the next process that writes to the same target removes it. The
same applies to scratch folders in the system's temporary folder.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from zlib import crc32

from kb import paths
from kb.errors import DiskFull, InvalidRequest, KbError

_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]{1,10})-\w+")  # namespace, process id, random part
_ABANDONED_S = 24 * 3600
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")  # of the files that SQLite keeps beside a database
_WORD_FILES = ("-words", *(f"-words-{n}" for n in range(1, 8)))  # see `store.sqlite.word_files`
_STORE_SUFFIXES = (*_SQLITE_SUFFIXES, "-vectors", *_WORD_FILES, ".sock")
_UPLOADS_MARK = ".kb-uploads"  # see `kb.server.upload_folder`
_TRUSTED = "trusted"  # see `kb.config.trust_store`
_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/self/fd/\d+")


@contextmanager
def atomic_path(
    target: Path, *, overwrite: bool = False, mode: int | None = None, follow_links: bool = False
) -> Iterator[Path]:
    """Yield a path to write to; it becomes `target` if the block succeeds, and is removed
    otherwise.

    With `mode`, the file has these permissions, and while it is written nobody else can read it. A
    file that replaces another one never has more permissions than that one. A link is refused; with
    `follow_links`, the file that it leads to is replaced.
    """
    if not target.name:
        raise InvalidRequest(f"{target} is a folder", "give a file")
    if follow_links and os.path.islink(target):  # false for a name that is too long
        target = _link_target(target)
    part = target.with_name(f".{target.name}.{_owner()}-{secrets.token_hex(4)}.part")
    try:
        check_target(target, overwrite=overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target.parent, f".{target.name}.", ".part")
        permissions = _permissions(target, mode)
        if permissions is not None:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield part
        if permissions is not None:
            os.chmod(part, permissions)
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
def open_stream(target: Path) -> Iterator[IO[bytes] | None]:
    """Open a pipe, a character device or one of the process's own descriptors (`/dev/stdout`) for
    writing. Yields None for any other target, which `atomic_path` writes."""
    try:
        info = os.stat(target)
    except OSError:  # `atomic_path` creates it, or reports the problem
        info = None
    if info is None or not _is_stream(target, info):
        yield None
        return
    try:
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOCTTY", 0)
        with open(os.open(target, flags), "wb") as stream:
            if not _is_stream(target, os.fstat(stream.fileno())):
                raise InvalidRequest(f"{target} was replaced by a file", "try again")
            yield stream
    except OSError as error:
        raise _unwritable(target, error) from error


def check_not_store(target: Path, store: Path) -> None:
    """Raise `InvalidRequest` if `target` is one of kb's own files, under any name: the store, a
    file that belongs to it or to another store, a settings file, or an uploaded file."""
    wanted = Path(os.path.realpath(target))
    for path in {store, Path(os.path.realpath(store))}:
        for end in ("", *_STORE_SUFFIXES):
            if _is_at(wanted, path.with_name(path.name + end)):
                what = f"belongs to the store {store}" if end else "is the store itself"
                raise InvalidRequest(f"{target} {what}", "choose another name")
        if _is_at(wanted, path.with_name(paths.SETTINGS_FILE)):
            raise InvalidRequest(f"{target} holds the store's settings", "choose another name")
    for end in _STORE_SUFFIXES:
        other = wanted.name.removesuffix(end)
        if other not in ("", wanted.name) and wanted.with_name(other).is_file():
            raise InvalidRequest(
                f"{target} belongs to the store {other} beside it", "choose another name"
            )
    if _is_at(wanted, Path(paths.user_settings())) or wanted.is_relative_to(
        os.path.realpath(os.path.join(paths.user_folder("config"), _TRUSTED))
    ):
        raise InvalidRequest(f"{target} belongs to your kb settings", "choose another name")
    if any((folder / _UPLOADS_MARK).is_dir() for folder in wanted.parents):
        raise InvalidRequest(f"{target} is in the store's uploads", "choose another folder")


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """Yield a temporary folder that is removed at the end. First removes the folders that killed
    processes left behind."""
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
    if target.is_symlink():
        raise InvalidRequest(f"{target} is a link", "give the file itself, or remove the link")
    if target.is_dir():
        raise InvalidRequest(f"{target} is a folder", "give the path of a file in it")
    if target.parent.exists() and not target.parent.is_dir():
        raise InvalidRequest(
            f"{target.parent} is not a folder", "give the path of a file in an existing folder"
        )
    if target.exists() and not target.is_file():
        raise InvalidRequest(f"{target} is not a regular file", "choose another file")
    if target.exists() and not overwrite:
        raise _exists(target)
    for path in _sqlite_siblings(target):
        # SQLite would treat an existing log as that of the new file, and replay it.
        if path.exists() and not path.name.endswith("-shm"):
            raise InvalidRequest(
                f"{path} belongs to a store that is open or was not closed",
                "choose another name, or run kb status on that store, which closes it",
            )


def _link_target(link: Path) -> Path:
    """The file that a link leads to."""
    target = Path(os.path.realpath(link))
    if not target.exists():
        raise InvalidRequest(
            f"{link} is a link to {target}, which does not exist",
            "give the file itself, or remove the link",
        )
    return target


def _permissions(target: Path, mode: int | None) -> int | None:
    """The permissions of a new file; None means the system's default."""
    try:
        replaced = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return mode
    return replaced if mode is None else mode & replaced


def _is_stream(target: Path, info: os.stat_result) -> bool:
    return (
        stat.S_ISFIFO(info.st_mode)
        or stat.S_ISCHR(info.st_mode)
        or _DESCRIPTOR.fullmatch(str(target)) is not None
    )


def _is_at(path: Path, other: Path) -> bool:
    """Whether both are the same file, or would be if they existed. `path` has no links."""
    if path == Path(os.path.realpath(other.parent)) / other.name:
        return True
    return _is_same_file(path, other)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _sqlite_siblings(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in _SQLITE_SUFFIXES]


def _rename(part: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, never replaces a new file
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
