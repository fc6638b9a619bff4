"""The queue port: jobs, and the chunks that they have leased.

A lease is a row, and its primary key keeps two jobs from leasing the same chunk; `SKIP LOCKED` lets
jobs lease at the same time without waiting for each other. Leases expire; they only avoid duplicate
work. A write adds only the vectors that a chunk lacks at that moment, so that the work of two jobs
on one chunk is stored once.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kb import processes
from kb.errors import NotFound
from kb.index import cosine
from kb.store.model_rows import due_at, pack_parts
from kb.store.postgres import embeddings, segments
from kb.store.postgres.embeddings import NewVectors
from kb.text.timestamps import utc_timestamp
from kb.types import EmbedCounts, Encoding, Failure, Filters, Job, Outcome, PendingChunk

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.postgres.connection import Database
    from kb.store.postgres.session import Session

LEASE_S = 120.0  # workers renew their leases; a killed one is usually noticed earlier


class PostgresQueue:
    """See `kb.ports.Queue`."""

    def __init__(self, database: Database, clock: Clock, token_format: str) -> None:
        self._database = database
        self._clock = clock
        self._token_format = token_format

    def start_job(self, model_id: int) -> int:
        now = self._clock()

        def insert(session: Session) -> int:
            if not _is_wanted(session, model_id):
                raise NotFound(
                    "the model of these vectors is no longer used",
                    "kb status shows the active model",
                )
            return int(session.value(
                "INSERT INTO jobs (model_id, place, pid, started, lease_until) "
                "VALUES (%s, %s, %s, %s, %s) RETURNING job_id",
                (model_id, processes.pid_namespace(), os.getpid(), now, now + LEASE_S),
            ))  # fmt: skip

        return self._database.repeat(insert, exclusive=False)

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
        now = self._clock()

        def take(session: Session) -> list[PendingChunk]:
            if not _resume(session, job_id, model_id, now):
                return []
            _end(session, _over(session, now))
            while found := embeddings.waiting(
                session,
                model_id,
                limit,
                among=among,
                after=after,
                doc_id=doc_id,
                lacking=lacking,
                due=due_at(now) if patient else None,
                lock=True,
            ):
                leased = _insert_leases(session, job_id, model_id, found, lacking)
                if leased:
                    return [one for one in found if one.chunk_id in leased]
            return []

        return self._database.repeat(take, exclusive=False)

    def newest(
        self,
        model_id: int,
        *,
        limit: int,
        doc_id: int | None = None,
        patient: bool = False,
        without: Sequence[int] = (),
    ) -> list[int]:
        now = self._clock()
        with self._database.reading() as session:
            if not _is_wanted(session, model_id, lock=False):
                return []
            return embeddings.newest(
                session,
                model_id,
                limit,
                doc_id=doc_id,
                over=_over(session, now),
                without=without,
                due=due_at(now) if patient else None,
            )

    def has_work(self, model_id: int, lacking: Set[str]) -> bool:
        if self._database.read_only:  # other processes embed
            return False
        now = self._clock()

        def check(session: Session) -> bool:
            over = _over(session, now)
            return any(
                embeddings.waiting(session, model_id, 1, lacking=parts, over=over, due=due_at(now))
                for parts in ((frozenset[str](), lacking) if lacking else (frozenset[str](),))
            )

        return self._database.read(check)

    def renew_job(self, job_id: int) -> None:
        self._database.repeat(
            lambda session: _renew(session, job_id, self._clock()), exclusive=False
        )

    def finish(self, job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> EmbedCounts:
        now = self._clock()

        def write(session: Session) -> EmbedCounts:
            written = self._write(session, model_id, outcomes, utc_timestamp(now))
            if written is None:
                return EmbedCounts()
            finished = [one.chunk_id for one in outcomes]
            session.execute(
                "DELETE FROM leases WHERE job_id = %s AND chunk_id = ANY (%s)", (job_id, finished)
            )
            _renew(session, job_id, now, done=len(set(finished)))
            return written

        written = self._database.repeat(write, exclusive=False)
        if any(written):
            segments.flush(self._database, "sparse", model_id)
        return written

    def _write(
        self, session: Session, model_id: int, outcomes: Sequence[Outcome], stamp: str
    ) -> EmbedCounts | None:
        """Write vectors and failures; None if the model is no longer used."""
        if not _is_wanted(session, model_id):
            return None
        dimension = embeddings.model(session, model_id).dimension
        lacks = _lacks(session, model_id, [one.chunk_id for one in outcomes])
        new: dict[int, NewVectors] = {}
        filled = 0
        for one in outcomes:
            missing = lacks.get(one.chunk_id, frozenset[str]())
            if missing is None and one.encoding is None:
                embeddings.fail(session, model_id, one.chunk_id, one.error or "", stamp)
            elif missing is None and one.encoding is not None:
                new[one.chunk_id] = self._vectors(one, one.encoding, stamp, dimension)
            elif missing and missing & one.want:
                parts = pack_parts(one.encoding or Encoding(), self._token_format)
                embeddings.fill(session, model_id, one.chunk_id, stamp, *parts, one.error)
                filled += one.error is None
        embeddings.put(session, model_id, list(new.values()))
        return EmbedCounts(len(new), filled)

    def _vectors(self, one: Outcome, encoding: Encoding, stamp: str, dimension: int) -> NewVectors:
        given = array("f") if encoding.dense is None else encoding.dense
        dense = cosine.to_bytes(cosine.unit_vector(given, dimension))
        weights, tokens = pack_parts(encoding, self._token_format)
        return NewVectors(one.chunk_id, stamp, dense, weights, tokens, one.error)

    def listening(self, on_work: Callable[[], None]) -> AbstractContextManager[None]:
        from kb.store.postgres.listener import listening

        return listening(self._database.connect, self._database.location.schema, on_work)

    def end_job(self, job_id: int) -> None:
        self._database.repeat(lambda session: _end(session, [job_id]), exclusive=False)

    def jobs(self) -> list[Job]:
        now = self._clock()
        with self._database.reading() as session:
            rows: Iterable[Any] = session.execute(
                "SELECT job_id, model_id, place, pid, started, lease_until, done, "
                "(SELECT count(*) FROM leases l WHERE l.job_id = j.job_id) "
                "FROM jobs j ORDER BY job_id"
            )
            return [
                Job(
                    job_id,
                    model_id,
                    place=place.partition(" ")[0],
                    pid=pid,
                    started=started,
                    seconds=max(0.0, now - started),
                    done=done,
                    leased=leased,
                    lost=_is_over(place, pid, until, now),
                )
                for job_id, model_id, place, pid, started, until, done, leased in rows
            ]

    def failures(
        self, model_id: int, limit: int = 20, filters: Filters | None = None
    ) -> list[Failure]:
        return self._database.read(lambda session: [
            Failure(chunk_id, path, searchable=ready, attempts=attempts, error=error, at=at,
                    given_up=given_up)
            for chunk_id, path, ready, attempts, error, at, given_up in embeddings.failing(
                session, model_id, limit, filters)
        ])  # fmt: skip

    def last_error(self, model_id: int) -> str | None:
        return self._database.read(lambda session: embeddings.last_error(session, model_id))

    def retry(self, model_id: int, *, doc_id: int | None = None) -> int:
        def reset(session: Session) -> int:
            retried = embeddings.retry(session, model_id, doc_id)
            session.notify()
            return retried

        return self._database.repeat(reset, exclusive=False)


# --- in the caller's transaction ------------------------------------------------------------------


def _is_wanted(session: Session, model_id: int, *, lock: bool = True) -> bool:
    """Whether searches use the model, or will after the switch. `lock` locks its row, so that it is
    not deleted before the transaction ends."""
    sql = f"SELECT role FROM models WHERE model_id = %s{' FOR KEY SHARE' if lock else ''}"
    return session.value(sql, (model_id,)) in ("search", "next")


def _resume(session: Session, job_id: int, model_id: int, now: float) -> bool:
    """Whether the job may continue. A job whose lease has expired, for instance because the machine
    was asleep, has lost its row and gets a new one."""
    if not _is_wanted(session, model_id):
        return False
    session.execute(
        "INSERT INTO jobs (job_id, model_id, place, pid, started, lease_until) "
        "VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (job_id) DO UPDATE SET lease_until = excluded.lease_until",
        (job_id, model_id, processes.pid_namespace(), os.getpid(), now, now + LEASE_S),
    )
    return True


def _renew(session: Session, job_id: int, now: float, done: int = 0) -> None:
    session.execute(
        "UPDATE jobs SET lease_until = %s, done = done + %s WHERE job_id = %s",
        (now + LEASE_S, done, job_id),
    )


def _insert_leases(
    session: Session,
    job_id: int,
    model_id: int,
    chunks: Sequence[PendingChunk],
    lacking: Set[str],
) -> set[int]:
    """Lease those of the chunks that need vectors. The statement that chose them may have begun
    before another job leased, or even finished, some of them."""
    rows = session.execute(
        "INSERT INTO leases SELECT %s, each, %s FROM unnest(%s::bigint[]) AS each "
        "ON CONFLICT DO NOTHING RETURNING chunk_id",
        (model_id, job_id, [one.chunk_id for one in chunks]),
    )
    leased = {chunk_id for (chunk_id,) in rows}
    lacks = _lacks(session, model_id, sorted(leased))
    needed = {
        chunk_id
        for chunk_id, parts in lacks.items()
        if (parts is None and not lacking) or (parts and parts & lacking)
    }
    session.execute(
        "DELETE FROM leases WHERE job_id = %s AND model_id = %s AND chunk_id = ANY (%s)",
        (job_id, model_id, sorted(leased - needed)),
    )
    return needed


def _over(session: Session, now: float) -> list[int]:
    """The jobs that have expired or whose process has exited."""
    rows = session.execute("SELECT job_id, place, pid, lease_until FROM jobs ORDER BY job_id")
    return [job_id for job_id, place, pid, until in rows if _is_over(place, pid, until, now)]


def _is_over(place: str, pid: int, until: float, now: float) -> bool:
    return until < now or processes.has_exited(place, pid)


def _end(session: Session, job_ids: Sequence[int]) -> None:
    if job_ids:
        session.execute("DELETE FROM leases WHERE job_id = ANY (%s)", (list(job_ids),))
        session.execute("DELETE FROM jobs WHERE job_id = ANY (%s)", (list(job_ids),))


def _lacks(
    session: Session, model_id: int, chunk_ids: Sequence[int]
) -> dict[int, frozenset[str] | None]:
    """The parts that the vectors of each chunk lack; None if it has no vectors at all. Deleted
    chunks are left out; the others are locked until the transaction ends."""
    ids = sorted(set(chunk_ids))
    rows = session.execute(
        "SELECT chunk_id FROM chunks WHERE chunk_id = ANY (%s) ORDER BY chunk_id FOR KEY SHARE",
        (ids,),
    )
    lacks: dict[int, frozenset[str] | None] = {chunk_id: None for (chunk_id,) in rows}
    ready = session.execute(
        "SELECT chunk_id, sparse IS NULL, tokens IS NULL FROM embeddings "
        "WHERE model_id = %s AND chunk_id = ANY (%s) AND state = 'ready'",
        (model_id, ids),
    )
    for chunk_id, no_sparse, no_tokens in ready:
        parts = {"sparse": no_sparse, "tokens": no_tokens}
        lacks[chunk_id] = frozenset(part for part, lacking in parts.items() if lacking)
    return lacks
