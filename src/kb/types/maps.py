"""A map of the library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A document on the map. `x` and `y` are from 0 to 1, and `topic` is the number of its topic,
    from 0."""

    doc_path: str
    title: str
    kind: str | None
    type: str
    date: str
    x: float
    y: float
    topic: int


@dataclass(frozen=True, slots=True)
class LibraryMap:
    """The documents as points, the names of the topics, and how many documents were left out."""

    points: tuple[MapPoint, ...]
    topics: tuple[str, ...]
    left_out: int = 0
