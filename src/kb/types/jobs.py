"""Embedding work: jobs, outcomes, failures and progress."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from kb.types.models import Encoding, StoredModel


class Outcome(NamedTuple):
    """The result of encoding a chunk: its vectors, or an error. With both, the error explains why
    parts of `want` are missing."""

    chunk_id: int
    encoding: Encoding | None
    error: str | None = None
    want: Set[str] = frozenset()


class EmbedCounts(NamedTuple):
    """How many chunks a write embedded, and to how many existing embeddings it added missing
    parts."""

    embedded: int = 0
    filled: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A run of a worker that embeds chunks: the host and process it runs in, when it started (in
    seconds since the epoch), for how many seconds it has run, how many chunks are done, and how
    many it has leased. A `lost` job's process has died; other jobs take over its chunks."""

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
    """A chunk that could not be embedded in the last attempt. A `searchable` chunk has a dense
    vector and lacks another part. A chunk that was `given_up` is tried again only after
    `kb jobs retry`."""

    chunk_id: int
    doc_path: str
    searchable: bool
    attempts: int
    error: str
    at: str
    given_up: bool


@dataclass(frozen=True, slots=True)
class Work:
    """The embedding progress of one model. `lacking` counts passages whose vectors lack a wanted
    part; `per_second` is the combined rate of the running workers."""

    model: StoredModel
    lacking: int
    workers: int
    per_second: float

    @property
    def seconds_left(self) -> float | None:
        """The estimated time to finish; None if nothing is left or no worker runs."""
        left = self.model.pending + self.lacking
        return left / self.per_second if self.per_second and left else None


@dataclass(frozen=True, slots=True)
class Jobs:
    """The content of `kb jobs`: the work for each model, the running jobs and the failures."""

    work: tuple[Work, ...]
    jobs: tuple[Job, ...]
    failures: tuple[Failure, ...]
