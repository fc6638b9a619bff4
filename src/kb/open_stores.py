"""The stores that this process has open, whose files it must read through SQLite only.

With POSIX locks, closing any descriptor of a file releases all locks of the process on it. Another
process would then assume that it is the last user of the store, and delete the log that this one
writes to. `kb.regular_files` therefore refuses these files.
"""

from __future__ import annotations

import os
from collections import Counter
from threading import Lock

_SUFFIXES = ("", "-wal", "-shm", "-journal")
_stores: Counter[str] = Counter()  # by path
_lock = Lock()


def hold_store(path: str | os.PathLike[str]) -> None:
    """Refuse to read the files of the store at `path` until `release_store` is called equally
    often."""
    with _lock:
        _stores[os.path.abspath(path)] += 1


def release_store(path: str | os.PathLike[str]) -> None:
    """Undo one `hold_store`."""
    with _lock:
        _stores[os.path.abspath(path)] -= 1
        if _stores[os.path.abspath(path)] <= 0:
            del _stores[os.path.abspath(path)]


def is_store_file(info: os.stat_result) -> bool:
    """Whether a file belongs to an open store, whatever name it is reached by."""
    for store in tuple(_stores):
        for suffix in _SUFFIXES:
            try:
                held = os.stat(store + suffix)
            except OSError:
                continue
            if os.path.samestat(held, info):
                return True
    return False
