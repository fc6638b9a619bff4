"""The state of other processes: whether one is still running, for leases and abandoned files, and
whether all cores are busy.

Leases also expire: a process whose state is unknown counts as running.
"""

from __future__ import annotations

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def pid_namespace() -> str:
    """The scope in which a process id is unique: the machine and, on Linux, its PID namespace."""
    import platform

    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{platform.node()} {space}".rstrip()


@lru_cache(maxsize=1)
def machine_name() -> str:
    """A name that no other machine has: the id of the installation or of a network card and, on
    Linux, where containers can share that id, the host name."""
    import hashlib
    import platform
    import uuid

    known = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                known = known or file.read(100).strip()
        except (OSError, ValueError):
            continue
    if not known and not uuid.getnode() >> 40 & 1:  # otherwise it is a random number
        known = f"{uuid.getnode():x}"
    host = platform.node() if not known or os.path.exists("/etc/machine-id") else ""
    digest = hashlib.blake2b(known.encode(), digest_size=6).hexdigest() if known else ""
    return f"{host} {digest}".strip()


def has_exited(namespace: str, pid: int) -> bool:
    """Whether the process has ended, zombies included. Always false on Windows, which offers no
    harmless way to check."""
    if namespace != pid_namespace() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it belongs to another user
        return False
    return _is_zombie(pid)


def machine_is_busy() -> bool:
    """Whether all cores were busy during the last minute; false where that is unknown, as on
    Windows."""
    try:
        return os.getloadavg()[0] >= (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return False


def _is_zombie(pid: int) -> bool:
    """Whether the process is a zombie; known only on Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state = stat.read().rpartition(b") ")[2][
                :1
            ]  # the command name before it may contain anything
    except OSError:
        return False
    return state in (b"Z", b"X")
