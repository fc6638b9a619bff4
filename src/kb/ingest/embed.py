"""The embedder: chunks without vectors get them, a hundred to a transaction.

Beside the indexer, and after it: words are searchable as soon as a file is written, vectors
follow. It asks the store what is left, so it can be stopped or killed at any moment and goes on
where the last transaction ended. A worker in the background is one that calls `run` again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from kb.errors import KbError, ModelBroken, ModelError
from kb.models import unit_texts
from kb.ports import Encoder, Store, ToEmbed
from kb.types import EmbedReport, Encoding, ModelSpec, StoredModel

COMMIT_CHUNKS = 100  # [002 R9]
PROBE = "a text that every model can take"
_UNITS_AHEAD = 2  # so that no core waits for the last text of a unit, or for the store

Outcome = Encoding | str  # or why there is none


@dataclass(frozen=True, slots=True)
class EmbedProgress:
    """Where a run stands. `per_second` counts from its start, the model's loading included."""

    done: int
    total: int
    per_second: float


OnEmbedded = Callable[[EmbedProgress], None]


class Embedder:
    """Gives the chunks of a store their vectors. `want` are the parts that are stored;
    `unit_texts` is how many texts are encoded in one go, if the encoder is not to choose."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        *,
        want: Set[str] = frozenset({"dense"}),
        unit_texts: int | None = None,
        commit_chunks: int = COMMIT_CHUNKS,
    ) -> None:
        self._store = store
        self._texts = _Texts(encoder, want | {"dense"})
        self._unit_texts = unit_texts
        self._commit_chunks = commit_chunks

    def run(
        self,
        *,
        limit: int | None = None,
        after: int = 0,
        retry: bool = False,
        anew: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> EmbedReport:
        """Embed what is left, or at most `limit` chunks of it, or only those with an id above
        `after`. With `retry`, what has failed for good counts as left; with `anew`, everything
        does, whatever model its vectors are of. `stop` is asked between two units of work. Raises
        `ModelError` where the model is at fault and not a text."""
        started = time.perf_counter()
        model = self._model(retry=retry, anew=anew)
        encoder = self._texts.encoder
        left = _Left(self._store, model.model_id, encoder, self._unit_texts, limit, after)
        rows = _Rows(self._store, model, self._commit_chunks, started, on_progress)
        try:
            with closing(self._encoded(left, stop)) as encoded:
                for unit, outcomes in encoded:
                    rows.take(unit, outcomes)
        except (ModelError, KeyboardInterrupt):
            rows.flush()  # what was encoded is good, and took its time
            raise
        rows.flush()
        return rows.report(seconds=time.perf_counter() - started)

    def _model(self, *, retry: bool, anew: bool) -> StoredModel:
        """The store's record. A store remembers no model that cannot make a vector, and gives up
        no vectors for one."""
        spec = self._texts.spec
        wanted = (spec.name, spec.version, spec.dimension)
        known = ((each.name, each.version, each.dimension) for each in self._store.models())
        if anew or wanted not in known:
            self._texts.encode([PROBE])
        if anew:
            self._store.drop_vectors()
        model = self._store.use_model(spec)
        if retry and self._store.retry_embeddings(model.model_id):
            model = self._store.use_model(spec)  # counted again
        return model

    def _encoded(
        self, left: _Left, stop: Callable[[], bool]
    ) -> Generator[tuple[list[ToEmbed], list[Outcome]]]:
        """Units in order with what came of them; the next ones are encoded while one is written."""
        waiting: deque[tuple[list[ToEmbed], Future[list[Outcome]]]] = deque()
        with ThreadPoolExecutor(_UNITS_AHEAD, "kb-embed") as pool:
            try:
                while not stop():
                    while len(waiting) <= _UNITS_AHEAD and (unit := left.take()):
                        waiting.append((unit, pool.submit(self._texts.outcomes, unit)))
                    if not waiting:
                        return
                    unit, future = waiting.popleft()
                    yield unit, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Left:
    """What is left to do, by id: what fails is not met twice, what is added meanwhile is met."""

    store: Store
    model_id: int
    encoder: Encoder
    unit_texts: int | None
    limit: int | None
    after: int = 0
    found: deque[ToEmbed] = field(default_factory=deque)

    def take(self) -> list[ToEmbed]:
        """The next unit of work; empty if there is none now."""
        if not self.found:
            self._look()
        if not self.found:
            return []
        # Asked for here and not before: the encoder may have to be loaded to tell.
        self.unit_texts = self.unit_texts or unit_texts(self.encoder)
        return [self.found.popleft() for _ in range(min(self.unit_texts, len(self.found)))]

    def _look(self) -> None:
        limit = COMMIT_CHUNKS if self.limit is None else min(self.limit, COMMIT_CHUNKS)
        if limit == 0:
            return
        self.found.extend(self.store.to_embed(self.model_id, limit=limit, after=self.after))
        if self.found:
            self.after = self.found[-1].chunk_id
        if self.limit is not None:
            self.limit -= len(self.found)


@dataclass(frozen=True, slots=True)
class _Texts:
    """An encoder, and what can go wrong with it. It may be code of others."""

    encoder: Encoder
    want: Set[str]

    @property
    def spec(self) -> ModelSpec:
        return self.encoder.spec

    def outcomes(self, unit: list[ToEmbed]) -> list[Outcome]:
        """One for each chunk. Where the unit fails, each text is tried alone."""
        try:
            return list(self.encode([each.text for each in unit]))
        except ModelError:
            return [self._alone(each.text) for each in unit]

    def _alone(self, text: str) -> Outcome:
        try:
            return self.encode([text])[0]
        except ModelError as error:
            self.encode([PROBE])  # raises where it is not the text that is at fault
            return error.message

    def encode(self, texts: list[str]) -> list[Encoding]:
        """Vectors that can be stored, or `ModelError`."""
        try:
            encodings = self.encoder.encode(texts, want=self.want)
        except KbError:
            raise
        # What an encoder of others raises is told as what it is: a model that failed.
        except Exception as error:
            raise ModelError(
                f"{self.spec.name} failed: {type(error).__name__}: {error}",
                "see: kb models verify",
            ) from error
        if len(encodings) != len(texts) or not all(map(self._is_usable, encodings)):
            raise ModelBroken(
                f"{self.spec.name} gave no usable dense vector", "see: kb models verify"
            )
        return encodings

    def _is_usable(self, encoding: Encoding) -> bool:
        dense = encoding.dense
        return (
            dense is not None
            and len(dense) == self.spec.dimension
            and any(dense)
            and math.isfinite(math.fsum(map(abs, dense)))
        )


@dataclass(slots=True)
class _Rows:
    """What was encoded and is not written yet, and the count of what was."""

    store: Store
    model: StoredModel
    commit_chunks: int
    started: float
    on_progress: OnEmbedded | None
    ready: list[tuple[int, Encoding]] = field(default_factory=list)
    done: int = 0
    embedded: int = 0
    failed: int = 0
    truncated: int = 0

    def take(self, unit: list[ToEmbed], outcomes: list[Outcome]) -> None:
        for each, outcome in zip(unit, outcomes, strict=True):
            if isinstance(outcome, Encoding):
                self._keep(each.chunk_id, outcome)
            else:
                self.store.fail_embeddings(self.model.model_id, [each.chunk_id], outcome)
                self.failed += 1
        self.done += len(unit)
        self._tell()

    def _keep(self, chunk_id: int, encoding: Encoding) -> None:
        self.ready.append((chunk_id, encoding))
        self.truncated += encoding.truncated > 0
        if len(self.ready) >= self.commit_chunks:
            self.flush()

    def flush(self) -> None:
        if self.ready:
            self.embedded += self.store.write_embeddings(self.model.model_id, self.ready)
            self.ready = []

    def _tell(self) -> None:
        if self.on_progress is not None:
            seconds = max(time.perf_counter() - self.started, 1e-9)
            total = max(self.model.pending, self.done)
            self.on_progress(EmbedProgress(self.done, total, self.done / seconds))

    def report(self, *, seconds: float) -> EmbedReport:
        (now,) = (one for one in self.store.models() if one.model_id == self.model.model_id)
        has_failed = self.failed or now.failed
        return EmbedReport(
            self.model.name,
            self.model.version,
            embedded=self.embedded,
            failed=self.failed,
            left=now.pending,
            given_up=now.failed,
            last_error=self.store.last_error(now.model_id) if has_failed else None,
            truncated=self.truncated,
            seconds=seconds,
        )
