"""Which folder holds the uploads of a store. No two stores share an upload folder.

The store `kb.sqlite` uses `uploads`, any other store `<file name>-uploads`. The file
`.kb-uploads/owner` in that folder contains the file name of its store, so that no other store
writes there. It is the file name, not an id in the store: a copied store has the same id, and a
store that is created again keeps its uploads.

In earlier versions, all stores used `uploads`, and there was no such file. A store that has uploads
there keeps that folder, unless another store has taken it.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from kb.errors import FileConflict
from kb.ingest.upload_receipts import RECEIPT, WORK, name_digest
from kb.library.ingestion import ensure_store, unchanged_files
from kb.library.knowledge_base import KnowledgeBase
from kb.paths import STORE_FILE

_SHARED = "uploads"
_OWNER = "owner"
_MAX_OWNER_BYTES = 4096


def folder_of(kb: KnowledgeBase) -> Path:
    """The folder for the uploads of this store. It may not exist yet."""
    shared = kb.path.parent / _SHARED
    owner = _owner(shared)
    if owner == _name(kb) or (owner is None and _may_take(kb, shared)):
        return shared
    return kb.path.parent / f"{kb.path.name}-uploads"


def file_mode(kb: KnowledgeBase) -> int:
    """The permissions of uploaded files: those of the store. The umask may restrict them. A store
    that is not a file has private uploads."""
    try:
        return stat.S_IMODE(kb.path.stat().st_mode) & 0o666
    except FileNotFoundError:
        return 0o600


def claim(kb: KnowledgeBase) -> Path:
    """Create the folder for uploads if it is missing, and record that it belongs to this store.
    Returns the folder for receipts and temporary files in it. Links are not followed: they could
    lead anywhere."""
    ensure_store(kb)
    folder = folder_of(kb)
    work = folder / WORK
    readable = file_mode(kb) & 0o444
    for each, mode in ((folder, file_mode(kb) | readable >> 2), (work, 0o700)):
        with suppress(FileExistsError):
            each.mkdir(mode, parents=True)
        if not is_folder(each):
            raise FileConflict(
                f"{each} is a link or a file, not a folder",
                "move it away; kb keeps uploads in a folder of this name",
            )
    owner = _owner(folder)
    if owner is None:
        _take(kb, folder)
        owner = _owner(folder)
    if owner != _name(kb):
        raise FileConflict(
            f"{folder} has just been taken by another store, or {work / _OWNER} is unreadable",
            "try again",
        )
    return work


def is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def link_or_replace(new: Path, target: Path) -> None:
    """Move a file to a path that must be free. Raises `FileExistsError`."""
    try:
        os.link(new, target)  # unlike a rename, never replaces a new file
    except FileExistsError:
        raise
    except (OSError, NotImplementedError, AttributeError):  # a file system without hard links
        os.replace(new, target)
    else:
        new.unlink()


def _name(kb: KnowledgeBase) -> bytes:
    return os.fsencode(kb.path.name)


def _owner(folder: Path) -> bytes | None:
    """The file name of the store that the folder belongs to; None if it has no owner. Anything but
    a regular file is an unknown owner."""
    path = folder / WORK / _OWNER
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return b""
    with open(handle, "rb") as stream:
        return stream.read(_MAX_OWNER_BYTES)


def _may_take(kb: KnowledgeBase, shared: Path) -> bool:
    """Whether this store may take over a folder `uploads` that has no owner. `kb.sqlite` may;
    another store may if it has uploads there from before owners were recorded."""
    if kb.path.name == STORE_FILE:
        return True
    if not is_folder(shared) or not is_folder(shared / WORK):
        return False
    if os.path.lexists(kb.path.with_name(STORE_FILE)):
        return False
    folder = os.path.realpath(shared)
    return any(root.path == folder and not root.whole and not root.detached for root in kb.roots())


def _take(kb: KnowledgeBase, folder: Path) -> None:
    """Record this store as the owner. Another store may have used the folder before, so only
    receipts for files that this store has indexed, and that are unchanged since, stay valid."""
    work = folder / WORK
    receipts = [each for each in work.iterdir() if RECEIPT.fullmatch(each.name)]
    own = {name_digest(name) for name in unchanged_files(kb, folder)} if receipts else set()
    new = work / f"{_OWNER}-{secrets.token_hex(8)}"
    try:
        with new.open("xb") as stream:
            stream.write(_name(kb))
            stream.flush()
            os.fsync(stream.fileno())
        link_or_replace(new, work / _OWNER)
    except FileExistsError:  # another process was faster; `claim` reads which store it acted for
        return
    finally:
        new.unlink(missing_ok=True)
    for each in receipts:
        if each.name.partition(".")[0] not in own:
            each.unlink(missing_ok=True)
