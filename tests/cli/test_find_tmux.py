"""`kb find` in a real terminal: 80 columns and 24 rows, with and without colors, and resized."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux"),
    pytest.mark.skipif(sys.platform == "win32", reason="no tmux"),
]
PATIENCE_S = 30.0
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|38|48)[;m]")


class Terminal:
    """A window of tmux, with a server of its own."""

    def __init__(self, socket: Path, command: str) -> None:
        self._socket = socket
        self._run("new-session", "-d", "-x", "80", "-y", "24", command)

    def _run(self, *args: str) -> str:
        environment = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", "/dev/null", *args],
            check=True, capture_output=True, text=True, env=environment,
        ).stdout  # fmt: skip

    def type(self, keys: str) -> None:
        self._run("send-keys", "-l", keys)

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *, escapes: bool = False) -> str:
        return self._run("capture-pane", "-p", *(["-e"] if escapes else []))

    def until(self, holds: Callable[[str], bool]) -> str:
        end = time.monotonic() + PATIENCE_S
        while not holds(screen := self.screen()):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture
def find(tmp_path: Path) -> Iterator[Callable[[str], Terminal]]:
    store = tmp_path / "kb.sqlite"
    with KnowledgeBase(store, encoder="none") as kb:
        for number in range(9):
            kb.add(
                f"Heron {number} sleeps in the reeds beside the old mill.", title=f"Heron {number}"
            )
    terminals: list[Terminal] = []

    def opened(environment: str) -> Terminal:
        variables = f"-u LINES -u COLUMNS KB_MODELS_ENCODER=none {environment}"
        command = f"env {variables} {sys.executable} -m kb --store {store} find"
        terminals.append(Terminal(tmp_path / f"tmux-{len(terminals)}", command))
        return terminals[-1]

    yield opened
    for terminal in terminals:
        terminal.close()


@pytest.mark.parametrize(("environment", "is_colored"), [("A=B", True), ("NO_COLOR=1", False)])
def test_find_on_a_small_terminal(
    find: Callable[[str], Terminal], environment: str, is_colored: bool
) -> None:
    terminal = find(environment)
    terminal.until(lambda screen: screen.startswith(">"))
    terminal.type("heron reeds")
    screen = terminal.until(lambda screen: "sleeps in the reeds" in screen and "▸" in screen)
    lines = screen.rstrip("\n").split("\n")
    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert "Enter open" in lines[-1]
    assert bool(COLOR.search(terminal.screen(escapes=True))) is is_colored
    terminal.resize(50, 15)
    screen = terminal.until(lambda screen: len(screen.rstrip("\n").split("\n")) == 15)
    terminal.until(lambda screen: "↑↓ select" in screen.rstrip("\n").split("\n")[-1])
    assert "> heron reeds" in terminal.screen()
    terminal.resize(120, 40)
    terminal.until(lambda screen: "PgUp/PgDn" in screen.rstrip("\n").split("\n")[-1])
