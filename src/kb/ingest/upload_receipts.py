"""Receipts: record which files in the upload folder kb has written.

A receipt is an empty file in `.kb-uploads`, whose name consists of a digest of the upload's name
and one of its content. A file without a receipt was not uploaded, or was edited since. The server
writes receipts; ingest uses them to keep documents of uploads that the walk leaves out.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

WORK = ".kb-uploads"
RECEIPT = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")
_PIECE_BYTES = 1024 * 1024


def new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def name_digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def receipt_path(work: Path, name: str, digest: str) -> Path:
    """The path of the receipt for an upload with this name and content digest."""
    return work / f"{name_digest(name)}.{digest}"


def uploaded_names(folder: str) -> frozenset[str]:
    """The digests of the names that were uploaded to `folder`; empty for any other folder."""
    try:
        names = os.listdir(os.path.join(folder, WORK))
    except OSError:
        return frozenset()
    return frozenset(name.partition(".")[0] for name in names if RECEIPT.fullmatch(name))


def drop_receipts(work: Path, name: str, keep: Path | None = None) -> None:
    for each in work.glob(f"{name_digest(name)}.*"):
        if each != keep:
            each.unlink(missing_ok=True)


def is_uploaded(path: Path, name: str, work: Path) -> bool:
    """Whether the file at `path` has the content that was uploaded as `name`."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError:
        return False
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        content = new_hash()
        while piece := stream.read(_PIECE_BYTES):
            content.update(piece)
    return receipt_path(work, name, content.hexdigest()).exists()
