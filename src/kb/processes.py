"""Which process is at work, and whether another one still is. Used for leases, which also expire:
where nothing can be told, a process counts as alive."""

from __future__ import annotations

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def here() -> str:
    """As far as process ids reach: the machine and, on Linux, the namespace of its ids."""
    import platform

    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{platform.node()} {space}".rstrip()


def is_gone(place: str, pid: int) -> bool:
    """Whether that process has ended, even if its parent has not asked how. On Windows a process
    cannot be asked without harm."""
    if place != here() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """On Linux; elsewhere nobody knows."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state = stat.read().rpartition(b") ")[2][:1]  # the name before it may hold anything
    except OSError:
        return False
    return state in (b"Z", b"X")
