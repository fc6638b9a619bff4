"""The queue port: jobs, and the chunks that they have leased. The functions run in the caller's
transaction.

A job is one run of a worker. It leases chunks by writing their ids into its row, and other jobs
skip these. Leases expire; they only avoid duplicate work. A write adds only the vectors that a
chunk lacks at that moment, so that the work of two jobs on one chunk is stored once.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

import apsw

from kb import processes
from kb.errors import NotFound
from kb.index import cosine
from kb.store.model_rows import ATTEMPTS, Due, due_at, pack_parts
from kb.store.sqlite import embeddings, vector_pieces
from kb.store.sqlite import filters as where
from kb.store.sqlite.functions import scalar
from kb.text.timestamps import utc_timestamp
from kb.types import EmbedCounts, Encoding, Failure, Filters, Job, Outcome, PendingChunk

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.sqlite.connection import Database
    from kb.store.sqlite.vectors import SqliteVectors

LEASE_S = 120.0  # workers renew their leases; a killed one is usually noticed earlier


# --- leases ---------------------------------------------------------------------------------------


def start(connection: apsw.Connection, model_id: int, now: float) -> int:
    """Register a job of this process."""
    if not _is_wanted(connection, model_id):
        raise NotFound(
            "the model of these vectors is no longer used", "kb status shows the active model"
        )
    connection.execute(
        "INSERT INTO jobs (model_id, place, pid, started, lease_until) VALUES (?, ?, ?, ?, ?)",
        (model_id, processes.pid_namespace(), os.getpid(), now, now + LEASE_S),
    )
    return connection.last_insert_rowid()


def end(connection: apsw.Connection, job_id: int) -> None:
    connection.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))


def renew(connection: apsw.Connection, job_id: int, now: float) -> None:
    connection.execute("UPDATE jobs SET lease_until = ? WHERE job_id = ?", (now + LEASE_S, job_id))


def lease(
    connection: apsw.Connection,
    job_id: int,
    model_id: int,
    *,
    limit: int,
    among: Sequence[int] | None,
    after: PendingChunk | None,
    doc_id: int | None,
    lacking: Set[str],
    due: Due | None,
    now: float,
) -> list[PendingChunk]:
    """Lease chunks that no other job works on: those without vectors, or, with `lacking`, those
    whose vectors lack one of these parts. Returns none if the model is no longer used."""
    if not _resume(connection, job_id, model_id, now):
        return []
    _sweep(connection, now)
    taken = _chunks_in_leases(connection, model_id)
    leased = embeddings.waiting(
        connection, model_id, limit,
        among=among, after=after, doc_id=doc_id, lacking=lacking, out=taken, due=due,
    )  # fmt: skip
    mine = _ids(connection, job_id) + [one.chunk_id for one in leased]
    connection.execute(
        "UPDATE jobs SET chunk_ids = ?, lease_until = ? WHERE job_id = ?",
        (json.dumps(mine), now + LEASE_S, job_id),
    )
    return leased


def has_work(
    connection: apsw.Connection, model_id: int, lacking: Set[str], due: Due, now: float
) -> bool:
    """Whether `lease` would return anything. Writes nothing."""
    taken = _busy_chunks(connection, now)
    return any(
        embeddings.waiting(connection, model_id, 1, lacking=parts, out=taken, due=due)
        for parts in ((frozenset(), lacking) if lacking else (frozenset(),))
    )


def _busy_chunks(connection: apsw.Connection, now: float) -> list[int]:
    """The chunks that jobs work on."""
    return [
        chunk_id
        for job_id, place, pid, until in _all(connection)
        if not _is_over(place, pid, until, now)
        for chunk_id in _ids(connection, job_id)
    ]


def _resume(connection: apsw.Connection, job_id: int, model_id: int, now: float) -> bool:
    """Whether the job may continue. A job whose lease has expired, for instance because the machine
    was asleep, has lost its row and gets a new one."""
    if not _is_wanted(connection, model_id):
        return False
    connection.execute(
        "INSERT INTO jobs (job_id, model_id, place, pid, started, lease_until) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (job_id, model_id, processes.pid_namespace(), os.getpid(), now, now + LEASE_S),
    )
    return True


def _is_wanted(connection: apsw.Connection, model_id: int) -> bool:
    """Whether searches use the model, or will after the switch."""
    sql = "SELECT 1 FROM models WHERE model_id = ? AND role IN ('search', 'next')"
    return bool(scalar(connection, sql, (model_id,)))


def _sweep(connection: apsw.Connection, now: float) -> None:
    """Delete jobs that have expired or whose process has exited."""
    for job_id, place, pid, until in _all(connection):
        if _is_over(place, pid, until, now):
            end(connection, job_id)


def _all(connection: apsw.Connection) -> list[Any]:
    return connection.execute("SELECT job_id, place, pid, lease_until FROM jobs").fetchall()


def _is_over(place: str, pid: int, until: float, now: float) -> bool:
    return until < now or processes.has_exited(place, pid)


def _chunks_in_leases(connection: apsw.Connection, model_id: int) -> list[int]:
    rows: Iterable[Any] = connection.execute(
        "SELECT value FROM jobs, json_each(chunk_ids) WHERE model_id = ?", (model_id,)
    )
    return [chunk_id for (chunk_id,) in rows]


def _ids(connection: apsw.Connection, job_id: int) -> list[int]:
    text = scalar(connection, "SELECT chunk_ids FROM jobs WHERE job_id = ?", (job_id,))
    return list(json.loads(text or "[]"))


# --- results --------------------------------------------------------------------------------------


def finish(
    connection: apsw.Connection,
    job_id: int,
    model_id: int,
    outcomes: Sequence[Outcome],
    *,
    stamp: str,
    now: float,
    token_format: str,
) -> EmbedCounts:
    """Write vectors and failures, and end the leases of these chunks."""
    if not _is_wanted(connection, model_id):
        return EmbedCounts()
    dimension = embeddings.model(connection, model_id).dimension
    embedded = filled = 0
    for one in outcomes:
        lacks = _lacks(connection, model_id, one.chunk_id)
        if lacks is not None:
            if lacks & one.want:
                _fill(connection, model_id, one, lacks, stamp, token_format)
                filled += one.error is None
        elif one.encoding is None:
            embeddings.fail(connection, model_id, [one.chunk_id], one.error or "", stamp)
        else:
            embedded += _put(
                connection, model_id, one, one.encoding, stamp, dimension, token_format
            )
    finished = {one.chunk_id for one in outcomes}
    left = [one for one in _ids(connection, job_id) if one not in finished]
    connection.execute(
        "UPDATE jobs SET chunk_ids = ?, lease_until = ?, done = done + ? WHERE job_id = ?",
        (json.dumps(left), now + LEASE_S, len(finished), job_id),
    )
    return EmbedCounts(embedded, filled)


def _lacks(connection: apsw.Connection, model_id: int, chunk_id: int) -> set[str] | None:
    """The parts that a chunk's vectors lack; None if it has no vectors at all."""
    row: Any = connection.execute(
        "SELECT sparse IS NULL, tokens IS NULL FROM embeddings "
        "WHERE chunk_id = ? AND model_id = ? AND state = 'ready'",
        (chunk_id, model_id),
    ).fetchone()
    if row is None:
        return None
    return {part for part, lacks in zip(("sparse", "tokens"), row, strict=True) if lacks}


def _put(
    connection: apsw.Connection, model_id: int, one: Outcome, encoding: Encoding, stamp: str,
    dimension: int, token_format: str,
) -> bool:  # fmt: skip
    given = array("f") if encoding.dense is None else encoding.dense
    dense = cosine.to_bytes(cosine.unit_vector(given, dimension))
    weights, tokens = pack_parts(encoding, token_format)
    return embeddings.put(
        connection, model_id, one.chunk_id, stamp, dense, weights, tokens, error=one.error
    )


def _fill(
    connection: apsw.Connection,
    model_id: int,
    one: Outcome,
    lacks: Set[str],
    stamp: str,
    token_format: str,
) -> None:
    """Add the parts that are missing and keep existing ones. An incomplete attempt is counted."""
    weights, tokens = pack_parts(one.encoding or Encoding(), token_format)
    parts = {"sparse": embeddings.stored_weights(weights), "tokens": tokens}
    connection.execute(
        "UPDATE embeddings SET sparse = coalesce(sparse, ?1), tokens = coalesce(tokens, ?2), "
        "embedded_at = ?3, error = ?4, attempts = iif(?4 IS NULL, 0, attempts + 1) "
        "WHERE model_id = ?5 AND chunk_id = ?6",
        (
            *map(vector_pieces.in_row, parts.values()),
            stamp,
            one.error,
            model_id,
            one.chunk_id,
        ),
    )
    new = {part: value for part, value in parts.items() if part in lacks}
    vector_pieces.write(connection, model_id, one.chunk_id, **new)


# --- jobs and failures ----------------------------------------------------------------------------


def jobs(connection: apsw.Connection, now: float) -> list[Job]:
    """All registered jobs, ordered by id."""
    rows: Iterable[Any] = connection.execute(
        "SELECT job_id, model_id, place, pid, started, lease_until, done, "
        "json_array_length(chunk_ids) FROM jobs ORDER BY job_id"
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


_FAILURES = """
SELECT e.chunk_id, d.doc_path, e.state = 'ready', e.attempts, e.error, e.embedded_at,
  e.state = 'failed' OR e.attempts >= {attempts}
FROM embeddings e JOIN chunks c USING (chunk_id) JOIN documents d USING (doc_id)
WHERE e.embedding_id IN (
  SELECT embedding_id FROM embeddings
    WHERE model_id = ?1 AND state <> 'ready' AND error IS NOT NULL
  UNION SELECT embedding_id FROM embeddings
    WHERE model_id = ?1 AND state = 'ready' AND sparse IS NULL AND error IS NOT NULL
  UNION SELECT embedding_id FROM embeddings
    WHERE model_id = ?1 AND state = 'ready' AND tokens IS NULL AND error IS NOT NULL)
{only} ORDER BY e.embedded_at DESC, e.chunk_id LIMIT {limit}
"""


def failures(
    connection: apsw.Connection, model_id: int, limit: int, filters: Filters | None = None
) -> list[Failure]:
    """The most recent failures, newest first."""
    only, params = where.among(connection, filters)
    sql = _FAILURES.format(attempts=ATTEMPTS, only=only, limit=int(limit))
    rows: Iterable[Any] = connection.execute(sql, (model_id, *params))
    return [
        Failure(chunk_id, path, searchable=bool(ready), attempts=attempts, error=error, at=at,
                given_up=bool(given_up))
        for chunk_id, path, ready, attempts, error, at, given_up in rows
    ]  # fmt: skip


# --- the port -------------------------------------------------------------------------------------


class SqliteQueue:
    """See `kb.ports.Queue`."""

    def __init__(
        self, database: Database, clock: Clock, vectors: SqliteVectors, token_format: str
    ) -> None:
        self._database = database
        self._clock = clock
        self._vectors = vectors
        self._token_format = token_format

    def start_job(self, model_id: int) -> int:
        with self._database.writing() as connection:
            return start(connection, model_id, self._clock())

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
        with self._database.writing() as connection:
            return lease(
                connection,
                job_id,
                model_id,
                limit=limit,
                among=among,
                after=after,
                doc_id=doc_id,
                lacking=lacking,
                due=due_at(now) if patient else None,
                now=now,
            )

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
        with self._database.reading() as connection:
            if not _is_wanted(connection, model_id):
                return []
            out = [*_busy_chunks(connection, now), *without]
            due = due_at(now) if patient else None
            return embeddings.newest(connection, model_id, limit, doc_id=doc_id, out=out, due=due)

    def has_work(self, model_id: int, lacking: Set[str]) -> bool:
        now = self._clock()
        with self._database.reading() as connection:
            return has_work(connection, model_id, lacking, due_at(now), now)

    def renew_job(self, job_id: int) -> None:
        with self._database.writing() as connection:
            renew(connection, job_id, self._clock())

    def finish(self, job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> EmbedCounts:
        now = self._clock()
        with self._database.writing() as connection:
            written = finish(
                connection,
                job_id,
                model_id,
                outcomes,
                stamp=utc_timestamp(now),
                now=now,
                token_format=self._token_format,
            )
            if any(written):
                self._vectors.update_indexes(connection, model_id)
            return written

    def listening(self, on_work: Callable[[], None]) -> None:  # noqa: ARG002  # nothing notifies
        return None

    def end_job(self, job_id: int) -> None:
        with self._database.writing() as connection:
            end(connection, job_id)

    def jobs(self) -> list[Job]:
        with self._database.reading() as connection:
            return jobs(connection, self._clock())

    def failures(
        self, model_id: int, limit: int = 20, filters: Filters | None = None
    ) -> list[Failure]:
        with self._database.reading() as connection:
            return failures(connection, model_id, limit, filters)

    def last_error(self, model_id: int) -> str | None:
        with self._database.reading() as connection:
            return embeddings.last_error(connection, model_id)

    def retry(self, model_id: int, *, doc_id: int | None = None) -> int:
        with self._database.writing() as connection:
            return embeddings.retry(connection, model_id, doc_id)
