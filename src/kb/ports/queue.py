"""The queue port: which chunks still need vectors, and which jobs work on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import EmbedCounts, Failure, Filters, Job, Outcome, PendingChunk


class Queue(Protocol):
    """Hands out embedding work to jobs. A job is one run of a worker, in any process; it leases
    chunks, so that no two jobs work on the same ones. Leases expire by themselves, and end with the
    process that holds them."""

    def start_job(self, model_id: int) -> int:
        """Register a job, and return its id. Raises `NotFound` if the model's vectors are neither
        used nor being built."""
        ...

    def lease(
        self,
        job_id: int,
        model_id: int,
        *,
        limit: int,
        among: Sequence[int] | None = None,
        after: PendingChunk | None = None,
        doc_id: int | None = None,
        lacking: Set[str] = frozenset(),
        patient: bool = False,
    ) -> list[PendingChunk]:
        """Lease up to `limit` chunks that no other job works on: chunks without vectors, or, with
        `lacking`, chunks whose vectors lack one of these parts.

        `among` limits the lease to these chunks, in this order; otherwise the order is that of
        their ids. `after` is the last chunk of an earlier lease: the next one continues after it,
        so that a run does not lease its own failures again. `doc_id` limits the lease to one
        document. `patient` skips chunks that failed recently.
        """
        ...

    def newest(
        self,
        model_id: int,
        *,
        limit: int,
        doc_id: int | None = None,
        patient: bool = False,
        without: Sequence[int] = (),
    ) -> list[int]:
        """The ids of up to `limit` chunks that `lease` would return, those of the documents that
        changed last first, and no chunk in `without`. None if the model is no longer used."""
        ...

    def has_work(self, model_id: int, lacking: Set[str]) -> bool:
        """Whether a patient job would find chunks to lease: chunks without vectors, or with
        `lacking` parts."""
        ...

    def renew_job(self, job_id: int) -> None:
        """Extend the job's leases."""
        ...

    def finish(self, job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> EmbedCounts:
        """Write the vectors and failures of leased chunks, in one transaction, and end their
        leases. Dense vectors are normalized. A chunk that has vectors already keeps them and gets
        only the parts it lacks; a deleted chunk is skipped. Raises `ModelBroken` for a zero vector
        or one of another dimension."""
        ...

    def listening(self, on_work: Callable[[], None]) -> AbstractContextManager[object] | None:
        """Call `on_work`, in another thread, when there may be new work, as long as the block
        runs. None if the store cannot notify: then workers poll."""
        ...

    def end_job(self, job_id: int) -> None:
        """Remove the job and end its leases."""
        ...

    def jobs(self) -> list[Job]:
        """All registered jobs, including those whose process has died, by id."""
        ...

    def failures(
        self, model_id: int, limit: int = 20, filters: Filters | None = None
    ) -> list[Failure]:
        """The most recent failures of a model in documents that match `filters`, newest first."""
        ...

    def last_error(self, model_id: int) -> str | None:
        """The message of the most recent failure; None if no chunk is failing."""
        ...

    def retry(self, model_id: int, *, doc_id: int | None = None) -> int:
        """Make chunks that failed permanently pending again: those of one document, or all. Returns
        how many."""
        ...
