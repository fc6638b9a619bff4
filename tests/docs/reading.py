"""A reader who follows a page, with a home folder, `kb` on the path, and two terminals.

The examples are in /home/ada. Paths are translated to the reader's home folder and back. Ports are
translated too, since the ones in the examples may be in use.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import HOME, REPOSITORY, Block

PATIENCE_S = 300
INTERRUPTED = 130  # the exit code after Ctrl-C
_PORTS = {"kb serve": "8765", "kb mcp": "8766"}
_OURS = ("KB_", "XDG_")  # set by the test suite or its environment


@dataclass(frozen=True, slots=True)
class Reader:
    home: Path
    environment: Mapping[str, str]
    ports: Mapping[str, str]  # from the ports on the pages to the ones in use

    @property
    def folder(self) -> Path:
        return self.home / "tidepool"

    def here(self, text: str) -> str:
        """Text of a page, with the reader's paths and ports."""
        text = text.replace(HOME, str(self.home))
        for said, port in self.ports.items():
            text = text.replace(f":{said}", f":{port}")
        return text

    def there(self, text: str) -> str:
        """Output, with the paths and ports of the page."""
        text = text.replace(str(self.home), HOME)
        for said, port in self.ports.items():
            text = text.replace(f":{port}", f":{said}")
        return text

    def save(self, block: Block) -> None:
        """Write the file that a block shows."""
        path = self.folder / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def run(self, command: str, **variables: str) -> tuple[int, str]:
        """Run a command; return its exit code and output."""
        done = subprocess.run(
            ["sh", "-c", self.here(command)],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        return done.returncode, self.there(done.stdout.decode("utf-8", "backslashreplace"))

    def start(self, command: str, **variables: str) -> Service:
        """Start a command that runs until it is stopped."""
        return Service(self, command, variables)


def reader(tmp_path: Path) -> Reader:
    """A reader with a copy of the examples, no settings, and the `kb` and `python3` under test."""
    home = tmp_path / "ada"
    shutil.copytree(REPOSITORY / "examples", home / "tidepool" / "examples")
    tools = home / ".local" / "bin"
    tools.mkdir(parents=True)
    for name, call in (("kb", "-m kb"), ("python3", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    ports = {said: str(_free_port()) for said in _PORTS.values()}
    environment = inherited | {
        "HOME": str(home),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "KB_SERVE_PORT": ports[_PORTS["kb serve"]],
    }
    return Reader(home, environment, ports)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Service:
    """A process in the other terminal, and its output."""

    def __init__(self, reader: Reader, command: str, variables: Mapping[str, str]) -> None:
        self._reader = reader
        self._process = subprocess.Popen(
            ["sh", "-c", "exec " + reader.here(command)],
            cwd=reader.folder,
            env={**reader.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._impatience = threading.Timer(PATIENCE_S, self._process.kill)
        self._impatience.start()

    def until(self, enough: Callable[[str], bool]) -> str:
        """Its output until `enough` is true or it ends."""
        assert self._process.stdout is not None
        printed = ""
        while not enough(printed) and (line := self._process.stdout.readline()):
            printed += self._reader.there(line)
        return printed

    def end(self, how: int = signal.SIGINT) -> tuple[int, str]:
        """Stop it; return its exit code and the rest of its output."""
        self._process.send_signal(how)
        try:
            printed, _ = self._process.communicate(timeout=PATIENCE_S)
        finally:
            self._process.kill()
            self._impatience.cancel()
        return self._process.returncode, self._reader.there(printed)
