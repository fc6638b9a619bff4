"""What a retriever is, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kb.errors import DeadlineExceeded, KbError
from kb.search.query.analysis import Analysis
from kb.types import Degraded, Filters, ScoredChunk


@dataclass(frozen=True, slots=True)
class Candidates:
    """A ranked list, where it came from, and what went wrong on the way. `ran` is False where a
    retriever could not do its work at all: an empty list that says nothing about the store.
    `partial`: some chunks are not in its index yet, and could not be found."""

    ranked: tuple[ScoredChunk, ...] = ()
    tiers: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    ran: bool = True
    partial: bool = False
    backend: str | None = None
    model: str | None = None
    encoding_ms: float = 0.0  # of the time it took, what the query's encoding took


def failure(part: str, error: Exception) -> Degraded:
    """What an error of a part is told as."""
    if isinstance(error, TimeoutError | DeadlineExceeded):
        return Degraded(part, "timeout", str(error))
    message = error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
    return Degraded(part, "failed", message)


class Retriever(Protocol):
    """Finds chunks in one way of its own. `name` is a name of a profile's `retrievers`."""

    @property
    def name(self) -> str: ...

    def index_version(self) -> str: ...

    def search(self, analysis: Analysis, filters: Filters, now: str, limit: int) -> Candidates: ...

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        """Its scores of chunks that others found; None where they cannot be had at little cost."""
        ...
