"""The embedder: chunks without vectors get them, a hundred to a transaction.

Beside the indexer, and after it: words are searchable as soon as a file is written, vectors
follow. It leases from the store what it works on, so that several may run at once, and it can be
stopped or killed at any moment: others go on where the last transaction ended. First come chunks
without any vectors, then those whose vectors lack a part.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from kb.embedding.encode import Texts
from kb.errors import ModelError
from kb.logs import logger
from kb.models.exam import examine
from kb.ports import Encoder, Store, traits_of
from kb.types import PARTS, Document, EmbedReport, ModelSpec, Outcome, StoredModel, ToEmbed

COMMIT_CHUNKS = 100  # [002 R9]
COMMIT_S = 2.0  # and that often where a model is slow, so that others see it go on
RENEW_S = 30.0  # between two signs of life, where a commit takes longer
_UNITS_AHEAD = 2  # so that no core waits for the last text of a unit, or for the store
_NOTHING: frozenset[str] = frozenset()
_log = logger("kb.embed")


@dataclass(frozen=True, slots=True)
class EmbedProgress:
    """Where a run stands. `per_second` counts from its start, the model's loading included."""

    done: int
    total: int
    per_second: float

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) / self.per_second


OnEmbedded = Callable[[EmbedProgress], None]


def wanted(spec: ModelSpec, tokens: str = "2-bit") -> frozenset[str]:
    """The parts that are stored: all that the model gives, without token vectors if the setting
    `models.tokens` is none."""
    return spec.gives & set(PARTS) - ({"tokens"} if tokens == "none" else set()) | {"dense"}


def lacking(model: StoredModel, want: Set[str]) -> int:
    """How many chunks have vectors that lack a part, at least."""
    return max((model.lacks(part) for part in want), default=0)


class Embedder:
    """Gives the chunks of a store their vectors. `want` are the parts that are stored, all that
    the encoder gives if nothing is said; `batch_size` is how many texts are encoded in one go, if
    the encoder is not to choose. A `patient` one leaves what has failed lately for later. `source`
    is the name the store shall find the encoder by, if it is not the setting's. With `exam`, a
    model that has sat none does, before its first vectors; without, its word counts."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        *,
        want: Set[str] | None = None,
        batch_size: int | None = None,
        commit_chunks: int = COMMIT_CHUNKS,
        patient: bool = False,
        source: str | None = None,
        exam: bool = False,
    ) -> None:
        self._store = store
        self._exam = exam
        self._source = source
        parts = wanted(encoder.spec) if want is None else frozenset(want)
        self._texts = Texts(encoder, parts & encoder.spec.gives | {"dense"})
        self._batch_size = batch_size
        self._commit_chunks = commit_chunks
        self._patient = patient

    def probe(self) -> None:
        """Raises `ModelError` where the model cannot make a vector."""
        self._texts.probe()

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
        """Embed what is left, or at most `limit` chunks of it, or only those of `document`; unless
        told not to, also `fill` in the parts that vectors lack. With `retry`, what
        has failed for good counts as left; with `anew`, everything does, whatever model its vectors
        are of. `model` is the store's record, where it is not the one that answers. `stop` is asked
        between two units of work. Raises `ModelError` where the model is at fault and not a text.
        """
        started = time.perf_counter()
        if model is None:
            model = self._model(retry=retry, anew=anew, document=document)
        if self._exam == (model.marks is None):
            model = self._examined(model)
        parts = self._texts.want - {"dense"} if fill else _NOTHING
        job_id = self._store.queue.start_job(model.model_id)
        left = _Left(
            self._store, job_id, model.model_id, self._texts.encoder, self._batch_size, limit,
            None if document is None else document.doc_id, parts, self._patient,
            self._commit_chunks,
        )  # fmt: skip
        if document is not None:  # for the progress: no more than these are embedded
            limit = document.chunks if limit is None else min(limit, document.chunks)
        rows = _Rows(
            self._store, job_id, model, parts, self._commit_chunks, started, limit, on_progress
        )
        try:
            with closing(self._encoded(left, stop)) as encoded:
                for outcomes in encoded:
                    rows.take(outcomes)
            rows.flush()
        except (ModelError, KeyboardInterrupt):
            rows.flush()  # what was encoded is good, and took its time
            raise
        finally:
            self._store.queue.end_job(job_id)
        return rows.report(seconds=time.perf_counter() - started)

    def _model(self, *, retry: bool, anew: bool, document: Document | None) -> StoredModel:
        """The store's record. A store remembers no model that cannot make a vector, and gives up
        no vectors for one."""
        spec = self._texts.spec
        wanted = (spec.name, spec.version, spec.dimension)
        known = ((each.name, each.version, each.dimension) for each in self._store.vectors.models())
        if anew or wanted not in known:
            self._texts.probe()
            spec = self._texts.spec  # what an endpoint gives, its first answer tells
        if anew:
            self._store.vectors.drop_all()
        model = self._store.vectors.use_model(spec, self._source)
        doc_id = None if document is None else document.doc_id
        if retry and self._store.queue.retry(model.model_id, doc_id=doc_id):
            model = self._store.vectors.use_model(spec)  # counted again
        return model

    def _examined(self, model: StoredModel) -> StoredModel:
        """With its marks; without an exam, those of an earlier one are forgotten."""
        marks = examine(self._texts.encoder) if self._exam else None
        self._store.vectors.set_exam_marks(model.model_id, marks)
        return replace(model, marks=marks)

    def _encoded(self, left: _Left, stop: Callable[[], bool]) -> Generator[list[Outcome]]:
        """What came of each unit, in order; the next ones are encoded while one is written."""
        waiting: deque[Future[list[Outcome]]] = deque()
        with ThreadPoolExecutor(_UNITS_AHEAD, "kb-embed") as pool:
            try:
                while not stop():
                    while len(waiting) <= _UNITS_AHEAD and (unit := left.take()):
                        waiting.append(pool.submit(self._texts.outcomes, unit))
                    if not waiting:
                        return
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Left:
    """What is left to do, by id: what fails is not met twice, what is added meanwhile is met.
    Chunks without vectors come first, and then those that lack one of `parts`."""

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
    found: deque[ToEmbed] = field(default_factory=deque)
    after: dict[Set[str], ToEmbed] = field(default_factory=dict)

    def take(self) -> list[ToEmbed]:
        """The next unit of work; empty if there is none now."""
        if not self.found:
            self._look()
        if not self.found:
            return []
        # Asked for here and not before: the encoder may have to be loaded to tell.
        self.batch_size = self.batch_size or traits_of(self.encoder).batch_size
        return [self.found.popleft() for _ in range(min(self.batch_size, len(self.found)))]

    def _look(self) -> None:
        limit = self.lease_chunks if self.limit is None else min(self.limit, self.lease_chunks)
        for parts in (_NOTHING, self.parts) if self.parts else (_NOTHING,):
            if limit == 0 or self.found:
                break
            self.found.extend(
                self.store.queue.lease(
                    self.job_id,
                    self.model_id,
                    limit=limit,
                    after=self.after.get(parts),
                    doc_id=self.doc_id,
                    lacking=parts,
                    patient=self.patient,
                )
            )
            if self.found:
                self.after[parts] = self.found[-1]
        if self.limit is not None:
            self.limit -= len(self.found)


@dataclass(slots=True)
class _Rows:
    """What was encoded and is not written yet, and the count of what was."""

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

    def take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            self._count(outcome)
            self.ready.append(outcome)
            if len(self.ready) >= self.commit_chunks:
                self.flush()
        if self.ready and time.perf_counter() - self.renewed > COMMIT_S:
            self.flush()
        self._renew()
        self._tell()

    def _count(self, outcome: Outcome) -> None:
        self.done += 1
        if outcome.encoding is None:
            self.failed += 1
        else:
            self.truncated += outcome.encoding.truncated > 0
        if outcome.error is not None:
            kept = "without vectors" if outcome.encoding is None else "with a dense vector only"
            _log.warning("chunk %d stays %s: %s", outcome.chunk_id, kept, outcome.error)

    def flush(self) -> None:
        if not self.ready:
            return
        written = self.store.queue.finish(self.job_id, self.model.model_id, self.ready)
        self.embedded += written.embedded
        self.filled += written.filled
        self.ready = []
        self.renewed = time.perf_counter()
        if (now := self._now()) is not None:
            self.total = self._total(now)
        _log.info("embedded %d of %d chunks", self.done, self.total)

    def _renew(self) -> None:
        if time.perf_counter() - self.renewed > RENEW_S:
            self.store.queue.renew_job(self.job_id)
            self.renewed = time.perf_counter()

    def _total(self, model: StoredModel) -> int:
        total = self.done + model.pending + lacking(model, self.parts)
        return total if self.limit is None else min(total, self.limit)

    def _now(self) -> StoredModel | None:
        """The model as it stands; None if it has gone, as after a switch to another."""
        found = (one for one in self.store.vectors.models() if one.model_id == self.model.model_id)
        return next(found, None)

    def _elsewhere(self) -> int:
        """What others are at work on; this job has ended."""
        others = (one for one in self.store.queue.jobs() if one.model_id == self.model.model_id)
        return sum(one.leased for one in others if not one.lost)

    def _tell(self) -> None:
        if self.on_progress is not None:
            seconds = max(time.perf_counter() - self.started, 1e-9)
            total = max(self.total, self.done)
            self.on_progress(EmbedProgress(self.done, total, self.done / seconds))

    def report(self, *, seconds: float) -> EmbedReport:
        now = self._now() or self.model
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
