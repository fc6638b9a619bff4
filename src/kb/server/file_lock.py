"""A lock for each name of a file, shared by all threads and processes that write it: uploads,
tokens, and the user's settings.

Between processes, it is a lock on a file `lock-<name digest>` in a given folder. Where the file
system does not support such locks, only the threads of one server share it.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from kb.errors import StoreBusy
from kb.ingest.upload_receipts import name_digest

_RETRY_S = 0.02
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class _ThreadLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()


_thread_locks: WeakValueDictionary[str, _ThreadLock] = WeakValueDictionary()
_thread_locks_lock = threading.Lock()


@contextmanager
def name_lock(work: Path, name: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock of this name in the folder `work`. Raises `StoreBusy` if another process
    holds it for longer than `timeout_s`."""
    key = name.casefold()  # names that differ in case are one file on some systems
    with _thread_locks_lock:
        thread_lock = _thread_locks.setdefault(key, _ThreadLock())
    with thread_lock.lock, _file_lock(work / f"lock-{name_digest(key)}", name, timeout_s):
        yield


@contextmanager
def _file_lock(path: Path, name: str, timeout_s: float) -> Iterator[None]:
    until = time.monotonic() + timeout_s
    while (handle := _lock(path)) is None:
        if time.monotonic() >= until:
            raise StoreBusy(f"another process is writing {name}", "try again later")
        time.sleep(_RETRY_S)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not remove open files
            path.unlink()
        os.close(handle)


def _lock(path: Path) -> int | None:
    """Open and lock the file. Returns None if another process has it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags, 0o600)
    try:
        _lock_handle(handle)
        if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
            return handle
    except (BlockingIOError, PermissionError, FileNotFoundError):  # taken, or removed by its owner
        pass
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return handle
        os.close(handle)
        raise
    os.close(handle)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock_handle(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock_handle(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
