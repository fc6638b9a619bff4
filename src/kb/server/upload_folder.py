"""Files uploaded over HTTP, kept in a folder beside the store and ingested from there.

The folder belongs to one store (`upload_owner`). It may hold other files too, so kb replaces and
removes only files that it wrote: each upload leaves a receipt (`upload_receipts`). A file without a
receipt, or one edited since, is left alone.

Its subfolder `.kb-uploads` holds the receipts, and a folder for each upload in progress:

    owner                              the file name of the store
    <name digest>.<content digest>     a receipt
    lock-<name digest>                 the lock of a name in use
    <pid>-<token>/new/<name>           the body, while it arrives and is checked
    <pid>-<token>/old/<name>           the file that it replaces, until it is ingested
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from kb.errors import (
    ClientGone,
    DiskFull,
    FileConflict,
    InvalidRequest,
    KbError,
    StoreReadOnly,
    TooBusy,
    short_repr,
)
from kb.ingest.upload_receipts import WORK, drop_receipts, is_uploaded, new_hash, receipt_path
from kb.library.ingestion import ingest_upload
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.processes import has_exited, pid_namespace
from kb.server.file_lock import name_lock
from kb.server.upload_owner import claim, file_mode, folder_of, is_folder, link_or_replace
from kb.types import Document, IngestReport

_MAX_NAME_BYTES = 200
_REFUSED = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|\ud800-\udfff]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # reserved on Windows
_UPLOAD = re.compile(r"(?P<pid>\d+)-[0-9a-f]{16}")
_ABANDONED_S = 24 * 3600  # for systems that cannot tell whether a process has ended
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_log = logger("kb.serve")


def check_name(given: str) -> str:
    """Return the name in NFC. Raises `InvalidRequest` unless it is a file name on every system."""
    name = unicodedata.normalize("NFC", given)
    is_valid = (
        name.strip(" .") == name.rstrip(" .") == name
        and name != ""
        and not _REFUSED.search(name)
        and not _DEVICES.fullmatch(name)
        and len(name.encode("utf-8", "replace")) <= _MAX_NAME_BYTES
    )
    if not is_valid:
        raise InvalidRequest(
            f"{short_repr(given)} is not a valid file name",
            "use letters, digits, dots and dashes",
        )
    return name


class UploadSlots:
    """Limits the number of uploads in progress, because each takes disk space."""

    def __init__(self, limit: int) -> None:
        self._free = limit

    @contextmanager
    def acquire(self) -> Iterator[None]:
        if self._free == 0:
            raise TooBusy("too many uploads at once", "try again when one of them is done")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class Upload:
    """A file that is being uploaded. The event loop writes it and a thread commits it; whichever
    finishes last removes the temporary files."""

    def __init__(self, kb: KnowledgeBase, given: str) -> None:
        self._kb = kb
        self.name = check_name(given)
        self._hash = new_hash()
        with _disk_errors():
            self._work = claim(kb)
            self.target = self._work.parent / self.name
            self._folder = self._work / f"{os.getpid()}-{secrets.token_hex(8)}"
            self._new = self._folder / "new" / self.name
            self._old = self._folder / "old" / self.name
            for each in (self._folder, self._new.parent, self._old.parent):
                each.mkdir()
            self._stream: BinaryIO = open(  # noqa: SIM115  # `_discard` closes it
                self._new, "xb", opener=lambda path, flags: os.open(path, flags, file_mode(kb))
            )
        self._lock = threading.Lock()
        self._state: Literal["open", "committing", "closed"] = "open"

    def write(self, data: bytes) -> None:
        with _disk_errors():
            self._stream.write(data)
        self._hash.update(data)

    def commit(self) -> IngestReport:
        """Move the file into place and ingest it. If that fails, an earlier file of this name and
        its document are unchanged."""
        with self._lock:
            if self._state != "open":
                raise ClientGone("the upload was canceled")
            self._state = "committing"
        try:
            with _disk_errors(), _name_lock(self._kb, self._work, self.name):
                return self._commit()
        finally:
            self._discard()

    def close(self) -> None:
        """Cancel the upload, unless it is being committed."""
        with self._lock:
            is_open, self._state = self._state == "open", "closed"
        if is_open:
            self._discard()

    def _discard(self) -> None:
        with suppress(OSError):  # a full disk fails again when the buffer is flushed
            self._stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _commit(self) -> IngestReport:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        receipt = receipt_path(self._work, self.name, self._hash.hexdigest())
        if not os.path.lexists(self.target):
            return self._add(receipt)
        return self._replace(receipt)

    def _add(self, receipt: Path) -> IngestReport:
        is_first = not receipt.exists()
        receipt.touch()  # first, so that the file is never without a receipt
        is_in_place = False
        try:
            _move_into_place(self._new, self.target)
            is_in_place = True
            report = _ingest(self._kb, self.target)
        except BaseException:
            if is_in_place and is_uploaded(self.target, self.name, self._work):
                self.target.unlink(missing_ok=True)
            if is_first:
                receipt.unlink(missing_ok=True)
            raise
        drop_receipts(self._work, self.name, keep=receipt)
        return report

    def _replace(self, receipt: Path) -> IngestReport:
        self._check_unchanged(self.target)
        _ingest(self._kb, self._new, dry_run=True)
        self._check_unchanged(self.target)  # someone may have edited the file in the meantime
        receipt.touch()
        _link_or_move(self.target, self._old)
        try:
            os.replace(self._new, self.target)
            self._check_unchanged(self._old)
            report = _ingest(self._kb, self.target)
        except BaseException:
            if is_uploaded(self.target, self.name, self._work):
                os.replace(self._old, self.target)
            raise
        drop_receipts(self._work, self.name, keep=receipt)
        return report

    def _check_unchanged(self, file: Path) -> None:
        if not is_uploaded(file, self.name, self._work):
            raise FileConflict(
                f"the folder {self.target.parent.name} has a file {self.name} that was not "
                "uploaded, or was edited",
                f"upload under another name, or move the file away: {self.target}",
            )


def remove(kb: KnowledgeBase, name: str) -> list[str]:
    """Remove a document, and its file if that was uploaded and is unchanged."""
    document = kb.document(name)
    file = _file_of(kb, document)
    if file is None:
        return kb.remove(document.doc_path)
    with _disk_errors():
        work = claim(kb)  # first, since it checks which files the store has indexed
        with _name_lock(kb, work, file.name):
            removed = kb.remove(document.doc_path)
            if is_uploaded(file, file.name, work):
                file.unlink()
                drop_receipts(work, file.name)
    return removed


def clean_up(kb: KnowledgeBase) -> None:
    """Remove the temporary files of processes that were killed."""
    work = folder_of(kb) / WORK
    if not is_folder(folder_of(kb)) or not is_folder(work):
        return
    for each in sorted(work.iterdir()):
        match = _UPLOAD.fullmatch(each.name)
        if match is None or not _is_abandoned(each, int(match["pid"])):
            continue
        try:
            for old in (each / "old").iterdir():
                if not os.path.lexists(folder_of(kb) / old.name):  # moved by `_link_or_move`
                    os.replace(old, folder_of(kb) / old.name)
            shutil.rmtree(each)
        except OSError as error:
            _log.warning("cannot clean up %s: %s", each, error.strerror)


def _is_abandoned(path: Path, pid: int) -> bool:
    """Whether the uploading process has ended. This process has just started, so a folder with its
    own id is from an earlier process."""
    if pid == os.getpid() or has_exited(pid_namespace(), pid):
        return True
    return time.time() - path.lstat().st_mtime > _ABANDONED_S


def _name_lock(kb: KnowledgeBase, work: Path, name: str) -> AbstractContextManager[None]:
    return name_lock(work, name, kb.config.store.busy_timeout_s)


# --- moving and ingesting -------------------------------------------------------------------------


def _move_into_place(new: Path, target: Path) -> None:
    try:
        link_or_replace(new, target)
    except FileExistsError:
        raise FileConflict(f"another program has just created {target.name}", "try again") from None


def _link_or_move(path: Path, other: Path) -> None:
    """Keep the file at `path` as `other`, so that it survives when `path` is replaced."""
    try:
        os.link(path, other)
    except (OSError, NotImplementedError, AttributeError):  # a file system without hard links
        os.replace(path, other)


def _ingest(kb: KnowledgeBase, path: Path, *, dry_run: bool = False) -> IngestReport:
    report = ingest_upload(kb, path, dry_run=dry_run)
    if refused := report.skipped or report.failed:
        reason = refused[0].reason
        raise InvalidRequest(
            f"{path.name} cannot be ingested: {reason}", "see docs/how-to/papers.md"
        )
    return report


def _file_of(kb: KnowledgeBase, document: Document) -> Path | None:
    """The file of a document in the upload folder; None for other documents."""
    folder = os.path.realpath(folder_of(kb))
    for root in kb.roots():
        file = os.path.join(root.path, document.path)
        is_attached = root.root_id == document.root_id and not root.detached
        if is_attached and os.path.dirname(file) == folder:
            return Path(file)
    return None


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Translate disk errors into errors that a client can act on."""
    try:
        yield
    except KbError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                "the disk is full; nothing was changed", "free some space, then upload again"
            ) from error
        if error.errno in _READ_ONLY:
            raise StoreReadOnly(
                f"cannot write to the upload folder beside the store: {error.strerror}",
                "check its permissions",
            ) from error
        raise
