"""Progress of an ingest run: which file it is reading, and how far into that file it is.

The number of events depends on the work, not on time: a long file produces a few per second, a
short one a single event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kb.types import ChunkDraft

EVERY_CHUNKS = 256  # chunks of one document between two events
_STEPS = 100  # progress messages for one file, at most


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run, for a progress bar.

    `stage` is `walk`, `read` or `remove`; `total` is 0 until it is known. For the file being read,
    `part` of `parts` is the parser's progress (in bytes or pages; 0 of 0 if it reports none), and
    `chunks` counts the passages written so far.
    """

    stage: str
    done: int
    total: int
    path: str = ""
    part: int = 0
    parts: int = 0
    chunks: int = 0


OnEvent = Callable[[Progress], None]


class ProgressReporter:
    """Passes the state of a run to a callback, if there is one."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._current = Progress("", 0, 0)

    def start(self, stage: str, done: int, total: int, path: str = "") -> None:
        """Report that the run begins with a stage, or with the file `path`."""
        self._emit(Progress(stage, done, total, path))

    def parse_progress(self, part: int, parts: int) -> None:
        """Report the parser's progress. Invalid and repeated values are ignored, since the parser
        may be a plug-in."""
        if not 0 <= part <= parts or parts == 0:
            return
        before = self._current.part * _STEPS // (self._current.parts or 1)
        if parts != self._current.parts or part * _STEPS // parts != before:
            self._emit(replace(self._current, part=part, parts=parts))

    def repeat(self) -> None:
        """Report the same state again while a file is parsed: the callback may stop the run."""
        self._emit(self._current)

    def count(self, chunks: Iterable[ChunkDraft]) -> Iterator[ChunkDraft]:
        """Yield `chunks` unchanged and report how many have been written."""
        for number, chunk in enumerate(chunks, start=1):
            yield chunk
            if number % EVERY_CHUNKS == 0:
                self._emit(replace(self._current, chunks=number))

    def _emit(self, progress: Progress) -> None:
        self._current = progress
        if self._on_event is not None:
            self._on_event(progress)
