"""Giving vectors to passages: who does it, how far it is, what came of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from kb.types.models import Encoding, StoredModel


class Outcome(NamedTuple):
    """What came of encoding a chunk: its vectors, or why there are none. With both, `error` says
    why parts of those that were wanted are missing."""

    chunk_id: int
    encoding: Encoding | None
    error: str | None = None
    want: Set[str] = frozenset()


class Embedded(NamedTuple):
    """How many chunks got vectors by a write, and how many the parts that theirs lacked."""

    embedded: int = 0
    filled: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A worker that gives chunks their vectors: where it runs, since when (in seconds since the
    epoch) and for how many seconds, how many chunks it has done, and how many it is at work on. One
    that is `lost` has ended without saying so; what it was at work on is taken up by others."""

    job_id: int
    model_id: int
    place: str
    pid: int
    started: float
    seconds: float
    done: int
    leased: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk whose last attempt to be embedded went wrong. One that is `searchable` has a dense
    vector and lacks another part. What is `given_up` waits to be told: `kb jobs retry`."""

    chunk_id: int
    doc_path: str
    searchable: bool
    attempts: int
    error: str
    at: str
    given_up: bool


@dataclass(frozen=True, slots=True)
class Work:
    """How far the vectors of one model are. `lacking` are passages whose vectors lack a part that
    is wanted; `per_second` is what the workers of now have done together."""

    model: StoredModel
    lacking: int
    workers: int
    per_second: float

    @property
    def seconds_left(self) -> float | None:
        left = self.model.pending + self.lacking
        return left / self.per_second if self.per_second and left else None


@dataclass(frozen=True, slots=True)
class Jobs:
    """What `kb jobs` shows: what there is to do for each model, who is at it, what went wrong."""

    work: tuple[Work, ...]
    jobs: tuple[Job, ...]
    failures: tuple[Failure, ...]
