"""How far a long command is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kb.cli import output
from kb.cli.invocation import Session

if TYPE_CHECKING:
    from rich.progress import Progress


class Show(Protocol):
    def __call__(self, stage: str, done: float, total: int, what: str, within: str = "") -> None:
        """`total` is 0 while it is not known; `within` says how far `what` itself is."""


_EVERY_S = 5.0  # between two lines
_PATH_COLUMNS = 40


@contextmanager
def shown(session: Session) -> Iterator[Show]:
    """Gives the function to report to. With -v there are lines too: a bar and a log do not mix."""
    if output.has_colour(sys.stderr) and output.is_terminal(sys.stderr) and not session.verbose:
        with _bar() as bar:
            yield _on(bar)
    else:
        yield _lines(time.monotonic)


def _lines(clock: Callable[[], float]) -> Show:
    """The first line comes after a while: a short run needs none."""
    last = clock()

    def show(stage: str, done: float, total: int, what: str, within: str = "") -> None:
        nonlocal last
        if clock() - last >= _EVERY_S:
            last = clock()
            line = f"{stage}: {int(done)} of {total}" if total else f"{stage}: {int(done)}"
            output.note(f"{line}, {output.visible(what)}: {within}" if within else line)

    return show


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}", style="dim", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


def _on(bar: Progress) -> Show:
    task = bar.add_task("", total=None, what="")

    def show(stage: str, done: float, total: int, what: str, within: str = "") -> None:
        shown = f"{_shortened(what)}  {within}".rstrip()
        bar.update(task, description=stage, completed=done, total=total or None, what=shown)

    return show


def _shortened(path: str) -> str:
    """Its end, which tells one file from another."""
    path = output.visible(path)
    return path if len(path) <= _PATH_COLUMNS else "…" + path[-_PATH_COLUMNS + 1 :]
