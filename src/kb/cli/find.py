"""`kb find`: search as you type, on the whole terminal."""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.find_state import DIM, MATCH, SELECTED, TITLE, FindState, screen
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, utf8_text
from kb.errors import ConfigError, KbError

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase

_POLL_MS = 40
_ESCAPE_DELAY_MS = 25  # after Esc, which also starts the codes of other keys
_PAUSE_S = 0.08  # in typing, before a search starts
_KEYS = {"\x0e": "down", "\x10": "up", "\x15": "clear", "\x19": "copy", "\x14": "type",
         "\x1b": "quit", "\x03": "quit", "\x04": "quit", "\n": "open", "\r": "open",
         "\x7f": "erase", "\x08": "erase", "\x17": "erase word"}  # fmt: skip


@click.command("find", cls=Command)
@click.argument("query", type=utf8_text, nargs=-1)
@common_options()
@pass_invocation
def find_command(invocation: Invocation, *, query: tuple[str, ...]) -> None:
    """Search as you type, on the whole terminal.

    The list shows the best hits, and the selected passage is below or beside it. Enter opens it in
    your editor or PDF viewer, Ctrl-Y copies its citation, Ctrl-T shows one format at a time, and
    Esc quits. Works over SSH.

    \b
    Examples:
      kb find
      kb find retry storm
    """
    stream = output.stdout()
    if not output.is_terminal(stream):
        raise click.UsageError("kb find needs a terminal; in scripts, use kb search")
    try:
        import curses
    except ImportError as error:  # Windows
        raise ConfigError(
            "kb find needs curses, which this Python does not have",
            "install it with: pip install windows-curses; or use kb search",
        ) from error
    try:
        curses.setupterm()
    except curses.error as error:
        name = os.environ.get("TERM", "")
        raise ConfigError(
            f"the terminal type {name!r} is unknown here", "try: TERM=xterm kb find"
        ) from error
    with invocation.open() as kb:
        state = FindState(types=sorted(kb.status()["by_type"]))
        state.edit(" ".join(query))
        curses.set_escdelay(_ESCAPE_DELAY_MS)
        with suppress(KeyboardInterrupt):
            curses.wrapper(partial(_run, curses=curses, kb=kb, state=state))


class _Searches:
    """Runs the latest search in a thread; results of earlier ones are dropped."""

    def __init__(self, kb: KnowledgeBase, state: FindState) -> None:
        self._kb = kb
        self._state = state
        self._changed = threading.Condition()
        self._serial = -1
        self._stopped = False
        self._results: list[tuple[Any, ...]] = []
        self._thread = threading.Thread(target=self._work, name="kb-find", daemon=True)
        self._thread.start()

    def update(self) -> bool:
        """Start a search if the query has changed, and show the results that have arrived. Returns
        whether anything is new."""
        with self._changed:
            if self._serial != self._state.serial:
                self._serial = self._state.serial
                self._changed.notify()
            arrived, self._results = self._results, []
        for hits, took_ms, serial, message in arrived:
            self._state.results(hits, took_ms, serial)
            self._state.message = message or self._state.message
        return bool(arrived)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        done = -1
        while True:
            with self._changed:
                while self._serial == done and not self._stopped:
                    self._changed.wait()
                while not self._stopped and self._changed.wait(_PAUSE_S):
                    pass  # the user is still typing
                if self._stopped:
                    return
                done, request = self._serial, self._state.request()
            result: tuple[Any, ...] = ((), None, done, "")
            if request.query.strip():
                try:
                    response = self._kb.execute(request)
                    result = (response.hits, response.timing_ms["total"], done, "")
                except KbError as error:
                    result = ((), None, done, error.message)
            with self._changed:
                self._results.append(result)


def _run(window: Any, *, curses: Any, kb: KnowledgeBase, state: FindState) -> None:
    styles = _styles(curses)
    searches = _Searches(kb, state)
    window.timeout(_POLL_MS)
    window.keypad(True)
    is_new = True
    try:
        while True:
            is_new = searches.update() or is_new
            if is_new:
                _draw(window, curses, kb, state, styles)
                is_new = False
            for key in _keys(window, curses):
                is_new = True
                action = _action(key, curses)
                if action == "quit":
                    return
                if action in ("open", "copy") and state.hit is not None:
                    uri = state.hit.citation.uri
                    state.message = _open(curses, kb, uri) if action == "open" else _copy(uri)
                    window.clear()
                else:
                    _edit(state, action, key)
    finally:
        searches.stop()


def _keys(window: Any, curses: Any) -> Iterator[str | int]:
    """Wait briefly for a key, and yield it with all keys that have already arrived, so that pasted
    text is drawn and searched for once, not once for each character."""
    try:
        with suppress(curses.error):  # no key
            yield window.get_wch()
            window.timeout(0)
            while True:
                yield window.get_wch()
    finally:
        window.timeout(_POLL_MS)


def _styles(curses: Any) -> dict[str, int]:
    styles = {
        TITLE: curses.A_BOLD, DIM: curses.A_DIM, MATCH: curses.A_BOLD | curses.A_UNDERLINE,
        SELECTED: curses.A_REVERSE,
    }  # fmt: skip
    if curses.has_colors():
        curses.use_default_colors()  # `wrapper` has set white on black
    if output.has_color(output.stdout()) and curses.has_colors():
        curses.init_pair(1, curses.COLOR_YELLOW, -1)
        curses.init_pair(2, curses.COLOR_CYAN, -1)
        styles[MATCH] = curses.color_pair(1) | curses.A_BOLD
        styles[TITLE] = curses.color_pair(2) | curses.A_BOLD
    return styles


def _draw(
    window: Any, curses: Any, kb: KnowledgeBase, state: FindState, styles: dict[str, int]
) -> None:
    rows, columns = window.getmaxyx()
    window.erase()
    lines = screen(state, columns, rows, partial(kb.highlights, state.query))
    for row, line in enumerate(lines):
        window.move(row, 0)
        for part in line:
            with suppress(curses.error):  # the last column of the last row
                window.addstr(part.text, styles.get(part.style, 0))
    typed = sum(output.display_width(part.text) for part in lines[0]) if lines else 0
    with suppress(curses.error):
        window.move(0, min(columns - 1, typed))
    window.refresh()


def _action(key: str | int, curses: Any) -> str:
    if isinstance(key, str):
        return _KEYS.get(key, "type text" if key.isprintable() else "")
    named = {curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_PPAGE: "page up",
             curses.KEY_NPAGE: "page down", curses.KEY_BACKSPACE: "erase",
             curses.KEY_ENTER: "open"}  # fmt: skip
    return named.get(key, "")


def _edit(state: FindState, action: str, key: str | int) -> None:
    if action == "type text":
        state.edit(state.query + str(key))
    elif action == "erase":
        state.edit(state.query[:-1])
    elif action == "erase word":
        state.edit(state.query.rstrip().rpartition(" ")[0])
    elif action == "clear":
        state.edit("")
    elif action == "type":
        state.next_type()
    elif action in ("up", "down"):
        state.move(1 if action == "down" else -1)
    elif action in ("page up", "page down"):
        state.scroll_by(5 if action == "page down" else -5)


def _open(curses: Any, kb: KnowledgeBase, uri: str) -> str:
    """Leave the screen to open the citation, and return a message for the screen."""
    from kb.cli.open import open_passage

    curses.endwin()
    try:
        open_passage(kb.get(uri), kb.config.open)
    except KbError as error:
        return f"{error.message}; {error.hint}"
    return f"opened {uri}"


def _copy(uri: str) -> str:
    """Copy the citation through the terminal (OSC 52), which works over SSH too."""
    output.write_raw(f"\x1b]52;c;{b64encode(uri.encode()).decode()}\x07")
    return f"copied {output.escape(uri)}"
