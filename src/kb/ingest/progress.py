"""What a run tells while it goes on: which file it is at, and how far it is inside of it.

Beside the indexer. Events are counted, not timed: a long file gives a few of them a second, a
short one none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kb.types import ChunkDraft

EVERY_CHUNKS = 256  # of one document, between two events
_STEPS = 100  # of one file, however often its parser tells


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, for a progress bar. `stage` is `walk`, `read` or `remove`; `total` is 0
    while it is not known.

    Of the file being read: `part` of `parts` is how far its parser is (in bytes or pages; 0 of 0
    where it does not say), `chunks` how many passages are written so far."""

    stage: str
    done: int
    total: int
    path: str = ""
    part: int = 0
    parts: int = 0
    chunks: int = 0


OnEvent = Callable[[Progress], None]


class Meter:
    """Tells a listener, if there is one, where a run stands."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._now = Progress("", 0, 0)

    def at(self, stage: str, done: int, total: int, path: str = "") -> None:
        """The run is at this file, or at this stage."""
        self._tell(Progress(stage, done, total, path))

    def within(self, part: int, parts: int) -> None:
        """The parser is this far. It may be code of others: what makes no sense is not passed on,
        and what says nothing new neither."""
        if not 0 <= part <= parts or parts == 0:
            return
        before = self._now.part * _STEPS // (self._now.parts or 1)
        if parts != self._now.parts or part * _STEPS // parts != before:
            self._tell(replace(self._now, part=part, parts=parts))

    def wait(self) -> None:
        """Tell the same once more while a file is being parsed: the listener may end the run."""
        self._tell(self._now)

    def counted(self, chunks: Iterable[ChunkDraft]) -> Iterator[ChunkDraft]:
        """`chunks` as they are, counted while they are written."""
        for number, chunk in enumerate(chunks, start=1):
            yield chunk
            if number % EVERY_CHUNKS == 0:
                self._tell(replace(self._now, chunks=number))

    def _tell(self, now: Progress) -> None:
        self._now = now
        if self._on_event is not None:
            self._on_event(now)
