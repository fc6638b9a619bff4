"""Progress of long commands, on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kb.cli import output
from kb.cli.invocation import Invocation

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressReporter(Protocol):
    """A function that displays the progress of a stage."""

    def __call__(self, stage: str, done: float, total: int, item: str, detail: str = "") -> None:
        """`total` is 0 while unknown; `detail` is the progress within `item`."""


_INTERVAL_S = 5.0  # between two lines
_PATH_COLUMNS = 40


@contextmanager
def reporter(invocation: Invocation) -> Iterator[ProgressReporter]:
    """Yield the function to report to. With -v it prints lines, since a bar would garble the
    log."""
    if output.has_color(sys.stderr) and output.is_terminal(sys.stderr) and not invocation.verbose:
        with _bar() as bar:
            yield _bar_reporter(bar)
    else:
        yield _line_reporter(time.monotonic)


def _line_reporter(clock: Callable[[], float]) -> ProgressReporter:
    """Return a function that prints at most one line per interval, the first after one interval:
    short runs print nothing."""
    last = clock()

    def show(stage: str, done: float, total: int, item: str, detail: str = "") -> None:
        nonlocal last
        if clock() - last >= _INTERVAL_S:
            last = clock()
            line = f"{stage}: {int(done)} of {total}" if total else f"{stage}: {int(done)}"
            output.note(f"{line}, {output.escape(item)}: {detail}" if detail else line)

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


def _bar_reporter(bar: Progress) -> ProgressReporter:
    task = bar.add_task("", total=None, what="")

    def show(stage: str, done: float, total: int, item: str, detail: str = "") -> None:
        text = f"{_shorten(item)}  {detail}".rstrip()
        bar.update(task, description=stage, completed=done, total=total or None, what=text)

    return show


def _shorten(path: str) -> str:
    """Keep the end of a path, which distinguishes files."""
    path = output.escape(path)
    return path if len(path) <= _PATH_COLUMNS else "…" + path[-_PATH_COLUMNS + 1 :]
