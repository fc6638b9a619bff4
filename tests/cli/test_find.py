"""`kb find`, as a value and on a real terminal."""

from __future__ import annotations

import curses
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.cli import find
from kb.cli.find_state import MAX_QUERY_CHARS, FindState, screen
from kb.cli.output import display_width
from tests.cli.conftest import Run

PATIENCE_S = 60.0


@pytest.fixture
def found(kb: KnowledgeBase) -> FindState:
    for number in range(8):
        kb.add(f"Heron {number} sleeps in the reeds.\n\n" + "It wakes early. " * 40, title="Heron")
    kb.add("蒼鷺站在水邊。heron \x1b[31m", title="蒼鷺 " * 30)
    state = FindState(types=("note",))
    state.edit("heron")
    response = kb.execute(state.request())
    state.results(response.hits, 3.0, state.serial)
    return state


def text(state: FindState, columns: int = 80, rows: int = 24) -> str:
    lines = screen(state, columns, rows, lambda _: [(0, 5)])
    return "\n".join("".join(part.text for part in line) for line in lines)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (200, 50), (20, 6), (10, 3)])
def test_the_screen_has_its_size(found: FindState, columns: int, rows: int) -> None:
    lines = screen(found, columns, rows, lambda _: [(0, 5), (7, 9)])
    assert len(lines) == rows
    assert all(sum(display_width(part.text) for part in line) <= columns for line in lines)
    assert "\x1b" not in text(found, columns, rows)


@given(st.text(max_size=60), st.integers(1, 150), st.integers(1, 60))
def test_any_query_and_any_size(query: str, columns: int, rows: int) -> None:
    state = FindState()
    state.edit(query)
    lines = screen(state, columns, rows)
    assert len(lines) == rows
    assert all(sum(display_width(part.text) for part in line) <= columns for line in lines)


def test_selecting_and_scrolling(found: FindState) -> None:
    assert "▸ " in text(found)
    first = found.hit
    found.move(1)
    assert found.hit is not first
    found.move(-5)
    assert found.hit is first
    found.move(100)
    assert found.hit is found.hits[-1]
    before = text(found)
    found.move(-1)
    found.scroll_by(3)
    assert text(found) != before
    found.scroll_by(-100)
    assert found.scroll == 0


def test_late_results_are_dropped(found: FindState) -> None:
    hits, serial = found.hits, found.serial
    found.edit("heron sleeps")
    assert "searching" in text(found)
    found.results((), 1.0, serial)
    assert found.hits == hits
    found.results((), 1.0, found.serial)
    assert "nothing found" in text(found)


def test_formats_are_shown_one_at_a_time(found: FindState) -> None:
    found.next_type()
    assert found.request().filters is not None
    assert "only note" in text(found)
    found.next_type()
    assert found.request().filters is None


def test_an_empty_query_searches_nothing(found: FindState) -> None:
    found.edit("")
    assert found.hits == ()
    assert "type to search" in text(found)


def test_a_long_query_is_cut_off() -> None:
    state = FindState()
    state.edit("whale " * 1_000)
    assert len(state.query) == MAX_QUERY_CHARS


class _Window:
    """A window whose user has typed `keys` before the program reads the first one."""

    def __init__(self, keys: str) -> None:
        self._keys = iter(keys)
        self.drawn = 0

    def get_wch(self) -> str:
        try:
            return next(self._keys)
        except StopIteration:
            raise curses.error from None

    def getmaxyx(self) -> tuple[int, int]:
        return 24, 80

    def erase(self) -> None:
        self.drawn += 1

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_text_that_is_pasted_is_drawn_once(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "_styles", lambda _: {})
    kb.add("a whale")
    state, window = FindState(), _Window("whale fish " * 1_000 + "\x1b")
    find._run(window, curses=curses, kb=kb, state=state)
    assert state.query.startswith("whale fish whale")
    assert window.drawn == 1


def test_a_terminal_that_is_not_known() -> None:
    with terminal("find", TERM="no-such-terminal") as shown:
        shown.wait_for("'no-such-terminal' is unknown here")
        assert shown.process.wait(PATIENCE_S) == 2


# --- on a terminal --------------------------------------------------------------------------------


def test_without_a_terminal(run: Run) -> None:
    result = run("find")
    assert result.status == 2
    assert "kb search" in result.err


class Terminal:
    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, wanted: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while wanted not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self._master], [], [], 0.1)[0]:
                self.seen += os.read(self._master, 1 << 16).decode("utf-8", "replace")


@contextmanager
def terminal(*args: str, **variables: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **variables}
    command = [sys.executable, "-m", "kb", *args]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.skipif(not hasattr(termios, "tcsetwinsize"), reason="needs Python 3.11")
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "vt100"}])
def test_typing_selecting_copying_opening(
    here: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    opened = tmp_path / "opened"
    editor = tmp_path / "vi"
    editor.write_text(f'#!/bin/sh\necho "$@" > {opened}\n')
    editor.chmod(0o755)
    store = str(here / ".kb" / "kb.sqlite")
    with terminal("--store", store, "find", VISUAL=str(editor), **variables) as shown:
        shown.wait_for("type to search")
        shown.send("retry storm")
        shown.wait_for(" relevant")
        shown.send("\x19")
        shown.wait_for("\x1b]52;c;")
        shown.send("\r")
        shown.wait_for("opened library/")
        assert "/library/" in opened.read_text()
        shown.send("\x1b")
        assert shown.process.wait(PATIENCE_S) == 0
