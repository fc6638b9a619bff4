"""The embedder: computes the vectors of chunks, and writes a hundred per transaction.

It runs beside the indexer: words are searchable as soon as a file is written, and vectors follow.
It leases chunks from the store, so that several embedders may run at once. It can be stopped or
killed at any moment: the next one continues after the last transaction. Chunks without any vectors
come first: those that searches of this process find, then those of the newest documents. Chunks
whose vectors lack a part are last.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from kb.embedding.encode import BatchEncoder
from kb.errors import ModelError
from kb.logs import logger
from kb.models.exam import examine
from kb.ports import Encoder, Store, traits_of
from kb.types import PARTS, Document, EmbedReport, ModelSpec, Outcome, PendingChunk, StoredModel

COMMIT_CHUNKS = 100  # [002 R9]
COMMIT_S = 2.0  # the longest time between commits, so that progress is visible with slow models
PLAN_CHUNKS = 2_000  # a new document is noticed after this many chunks
RENEW_S = 30.0  # between two renewals of the job's leases
_BATCHES_AHEAD = 2  # so that no core waits for the last text of a batch, or for the store
_NOTHING: frozenset[str] = frozenset()
_log = logger("kb.embed")


@dataclass(frozen=True, slots=True)
class EmbedProgress:
    """The progress of a run. `per_second` counts from its start, including the loading time of the
    model."""

    done: int
    total: int
    per_second: float

    @property
    def seconds_left(self) -> float:
        """The estimated time to finish."""
        return (self.total - self.done) / self.per_second


OnEmbedded = Callable[[EmbedProgress], None]


def parts_to_store(spec: ModelSpec, tokens: str = "2-bit") -> frozenset[str]:
    """The parts to store: all that the model computes, except token vectors if the setting
    `models.tokens` is none."""
    return spec.gives & set(PARTS) - ({"tokens"} if tokens == "none" else set()) | {"dense"}


def lacking(model: StoredModel, want: Set[str]) -> int:
    """A lower bound for the number of chunks whose vectors lack one of these parts."""
    return max((model.lacks(part) for part in want), default=0)


class Embedder:
    """Embeds the chunks of a store.

    `want` names the parts to store, by default all that the encoder computes. `batch_size`
    overrides the encoder's own. A `patient` embedder skips chunks that failed recently. The
    chunks in `priorities`, to which searches add their results, are embedded first. `source` is the
    name that the store records for the encoder, if it is not the configured one. With `exam`, a
    model takes the exam before its first vectors are written; without `exam`, it is trusted.
    """

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        *,
        want: Set[str] | None = None,
        batch_size: int | None = None,
        commit_chunks: int = COMMIT_CHUNKS,
        patient: bool = False,
        priorities: deque[int] | None = None,
        source: str | None = None,
        exam: bool = False,
    ) -> None:
        self._store = store
        self._exam = exam
        self._source = source
        parts = parts_to_store(encoder.spec) if want is None else frozenset(want)
        self._batches = BatchEncoder(encoder, parts & encoder.spec.gives | {"dense"})
        self._batch_size = batch_size
        self._commit_chunks = commit_chunks
        self._patient = patient
        self._priorities: deque[int] = deque() if priorities is None else priorities

    def probe(self) -> None:
        """Encode a short text. Raises `ModelError` if the model cannot."""
        self._batches.probe()

    def run(
        self,
        *,
        limit: int | None = None,
        document: Document | None = None,
        fill: bool = True,
        retry: bool = False,
        anew: bool = False,
        model: StoredModel | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> EmbedReport:
        """Embed all pending chunks, at most `limit` of them, or only those of `document`.

        `fill` also adds the parts that existing vectors lack. `retry` includes chunks that failed
        permanently; `anew` drops all vectors first, of any model. `model` is the store's record of
        the encoder, if searches do not use that model. `stop` is called between batches. Raises
        `ModelError` if the model fails, rather than a single text.
        """
        started = time.perf_counter()
        if model is None:
            model = self._model(retry=retry, anew=anew, document=document)
        if self._exam == (model.marks is None):
            model = self._examine(model)
        parts = self._batches.want - {"dense"} if fill else _NOTHING
        job_id = self._store.queue.start_job(model.model_id)
        pending = _Pending(
            self._store, job_id, model.model_id, self._batches.encoder, self._batch_size, limit,
            None if document is None else document.doc_id, parts, self._patient,
            self._commit_chunks, self._priorities,
        )  # fmt: skip
        if document is not None:  # for the progress: only these chunks are embedded
            limit = document.chunks if limit is None else min(limit, document.chunks)
        writer = _Writer(
            self._store, job_id, model, parts, self._commit_chunks, started, limit, on_progress
        )
        try:
            with closing(self._encode(pending, stop)) as encoded:
                for outcomes in encoded:
                    pending.failed += [one.chunk_id for one in outcomes if one.encoding is None]
                    writer.add(outcomes)
            writer.flush()
        except (ModelError, KeyboardInterrupt):
            writer.flush()  # keep these vectors, which took time to compute
            raise
        finally:
            self._store.queue.end_job(job_id)
        return writer.report(seconds=time.perf_counter() - started)

    def _model(self, *, retry: bool, anew: bool, document: Document | None) -> StoredModel:
        """The store's record of the encoder. A model that cannot encode is not recorded, and no
        vectors are dropped for it."""
        spec = self._batches.spec
        identity = (spec.name, spec.version, spec.dimension)
        stored = ((one.name, one.version, one.dimension) for one in self._store.vectors.models())
        if anew or identity not in stored:
            self._batches.probe()
            spec = self._batches.spec  # an endpoint's dimension may be known only now
        if anew:
            self._store.vectors.drop_all()
        model = self._store.vectors.use_model(spec, self._source)
        doc_id = None if document is None else document.doc_id
        if retry and self._store.queue.retry(model.model_id, doc_id=doc_id):
            model = self._store.vectors.use_model(spec)  # with new counts
        return model

    def _examine(self, model: StoredModel) -> StoredModel:
        """Run the exam and store its results; without an exam, remove earlier results."""
        marks = examine(self._batches.encoder) if self._exam else None
        self._store.vectors.set_exam_marks(model.model_id, marks)
        return replace(model, marks=marks)

    def _encode(self, pending: _Pending, stop: Callable[[], bool]) -> Generator[list[Outcome]]:
        """Yield the outcomes of each batch, in order. The next batches are encoded while one is
        written."""
        running: deque[Future[list[Outcome]]] = deque()
        with ThreadPoolExecutor(_BATCHES_AHEAD, "kb-embed") as pool:
            try:
                while not stop():
                    while len(running) <= _BATCHES_AHEAD and (batch := pending.take()):
                        running.append(pool.submit(self._batches.outcomes, batch))
                    if not running:
                        return
                    yield running.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Pending:
    """The chunks to embed. Chunks that fail are not tried again; chunks that are added in the
    meantime are included. Chunks without vectors come first: those in `priorities`, then those of
    the newest documents. Chunks whose vectors lack one of `parts` follow, by id."""

    store: Store
    job_id: int
    model_id: int
    encoder: Encoder
    batch_size: int | None
    limit: int | None
    doc_id: int | None
    parts: Set[str]
    patient: bool
    lease_chunks: int
    priorities: deque[int]
    leased: deque[PendingChunk] = field(default_factory=deque)
    failed: list[int] = field(default_factory=list)
    plan: deque[int] = field(default_factory=deque)
    last_filled: PendingChunk | None = None

    def take(self) -> list[PendingChunk]:
        """The next batch; empty if no chunks are left."""
        if not self.leased:
            self._lease()
        if not self.leased:
            return []
        # This may load the model, so it is not done earlier.
        self.batch_size = self.batch_size or traits_of(self.encoder).batch_size
        return [self.leased.popleft() for _ in range(min(self.batch_size, len(self.leased)))]

    def _lease(self) -> None:
        limit = self.lease_chunks if self.limit is None else min(self.limit, self.lease_chunks)
        if limit == 0:
            return
        self._lease_planned(limit)
        if not self.leased and self.parts:
            self.leased.extend(self._queue_lease(limit, lacking=self.parts, after=self.last_filled))
            self.last_filled = self.leased[-1] if self.leased else self.last_filled
        if self.limit is not None:
            self.limit -= len(self.leased)

    def _lease_planned(self, limit: int) -> None:
        """Lease the next chunks of the plan; if other jobs have taken all of these, the next
        ones."""
        while not self.leased:
            self._plan()
            if not self.plan:
                return
            chunk_ids = [self.plan.popleft() for _ in range(min(limit, len(self.plan)))]
            self.leased.extend(self._queue_lease(limit, among=chunk_ids))

    def _plan(self) -> None:
        """Put the chunks in `priorities` first, and plan again if no chunks are left."""
        if not self.plan:
            self.plan.extend(
                self.store.queue.newest(
                    self.model_id,
                    limit=PLAN_CHUNKS,
                    doc_id=self.doc_id,
                    patient=self.patient,
                    without=self.failed,
                )
            )
        chunk_ids = [self.priorities.popleft() for _ in range(len(self.priorities))]
        if self.plan:
            failed = set(self.failed)
            first = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in failed]
            self.plan.extendleft(reversed(first))

    def _queue_lease(self, limit: int, **which: Any) -> list[PendingChunk]:
        return self.store.queue.lease(
            self.job_id,
            self.model_id,
            limit=limit,
            doc_id=self.doc_id,
            patient=self.patient,
            **which,
        )


@dataclass(slots=True)
class _Writer:
    """Collects outcomes, writes them in transactions, and counts them."""

    store: Store
    job_id: int
    model: StoredModel
    parts: Set[str]
    commit_chunks: int
    started: float
    limit: int | None
    on_progress: OnEmbedded | None
    ready: list[Outcome] = field(default_factory=list)
    done: int = 0
    embedded: int = 0
    filled: int = 0
    failed: int = 0
    truncated: int = 0
    total: int = 0
    renewed: float = 0.0

    def __post_init__(self) -> None:
        self.renewed = self.started
        self.total = self._total(self.model)

    def add(self, outcomes: list[Outcome]) -> None:
        """Add the outcomes of a batch, and write once there are enough."""
        for outcome in outcomes:
            self._count(outcome)
            self.ready.append(outcome)
            if len(self.ready) >= self.commit_chunks:
                self.flush()
        if self.ready and time.perf_counter() - self.renewed > COMMIT_S:
            self.flush()
        self._renew()
        self._report_progress()

    def _count(self, outcome: Outcome) -> None:
        self.done += 1
        if outcome.encoding is None:
            self.failed += 1
        else:
            self.truncated += outcome.encoding.truncated > 0
        if outcome.error is not None:
            parts = "no vectors" if outcome.encoding is None else "only a dense vector"
            _log.warning("chunk %d has %s: %s", outcome.chunk_id, parts, outcome.error)

    def flush(self) -> None:
        """Write the collected outcomes."""
        if not self.ready:
            return
        written = self.store.queue.finish(self.job_id, self.model.model_id, self.ready)
        self.embedded += written.embedded
        self.filled += written.filled
        self.ready = []
        self.renewed = time.perf_counter()
        if (now := self._reload_model()) is not None:
            self.total = self._total(now)
        _log.info("embedded %d of %d chunks", self.done, self.total)

    def _renew(self) -> None:
        if time.perf_counter() - self.renewed > RENEW_S:
            self.store.queue.renew_job(self.job_id)
            self.renewed = time.perf_counter()

    def _total(self, model: StoredModel) -> int:
        total = self.done + model.pending + lacking(model, self.parts)
        return total if self.limit is None else min(total, self.limit)

    def _reload_model(self) -> StoredModel | None:
        """The model with current counts; None if a switch to another model has removed it."""
        models = self.store.vectors.models()
        return next((one for one in models if one.model_id == self.model.model_id), None)

    def _elsewhere(self) -> int:
        """How many chunks other jobs have leased, after this job has ended."""
        others = (one for one in self.store.queue.jobs() if one.model_id == self.model.model_id)
        return sum(one.leased for one in others if not one.lost)

    def _report_progress(self) -> None:
        if self.on_progress is not None:
            seconds = max(time.perf_counter() - self.started, 1e-9)
            total = max(self.total, self.done)
            self.on_progress(EmbedProgress(self.done, total, self.done / seconds))

    def report(self, *, seconds: float) -> EmbedReport:
        """The result of the run."""
        now = self._reload_model() or self.model
        lacks = lacking(now, self.parts)
        has_failed = self.failed or now.failed or lacks
        return EmbedReport(
            self.model.name,
            self.model.version,
            embedded=self.embedded,
            filled=self.filled,
            failed=self.failed,
            left=now.pending,
            elsewhere=self._elsewhere(),
            lacking=lacks,
            given_up=now.failed,
            last_error=self.store.queue.last_error(now.model_id) if has_failed else None,
            truncated=self.truncated,
            seconds=seconds,
            unfit=self.model.verdict("dense") or None,
        )
