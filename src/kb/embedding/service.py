"""Implements `KnowledgeBase.embed`, `jobs`, `worker` and `reindex`, and chooses their encoders."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from weakref import WeakSet

from kb.config import Config, load, trust_store
from kb.errors import InvalidRequest, KbError, ModelMissing, NotFound, StoreMissing, short_repr
from kb.store import open_store
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.embedding.embedder import Embedder, OnEmbedded
    from kb.embedding.worker import Worker, WorkerState
    from kb.ports import Encoder, Store
    from kb.types import Document, EmbedReport, Job, Jobs, StoredModel, Work

SHOWN_FAILURES = 20
_LONGEST_GRACE_S = 86_400


class Encoders:
    """Finds the encoders of a store: the configured one or the caller's, or, after a reindex, the
    one whose name the store has recorded. An encoder object that the caller passes is preferred if
    its model is the store's. Threads may share an `Encoders`."""

    def __init__(self, store: Store, config: Config, override: Encoder | str | None) -> None:
        self._store = store
        self._config = config
        self._override = override
        self._cache: dict[str | None, Encoder] = {}
        self._names: dict[tuple[str, str], str | None] = {}  # of earlier versions
        self._lock = threading.Lock()

    def current(self) -> Encoder | None:
        """The encoder whose vectors searches use; None if encoders are disabled."""
        model = self._model("search")
        if model is None:
            return self.default()
        if (override := self._override_for(model)) is not None:
            return override
        if (earlier := self._earlier_version(model)) is not None:
            return earlier
        if model.source is None:
            return self.default()
        with suppress(KbError):  # the configured encoder may be missing: it is not needed
            if self.default() is None:
                return None
        return self._from_store(model.source)

    def next(self) -> Encoder | None:
        """The encoder that will replace the current one; None without a reindex."""
        model = self._model("next")
        if model is None:
            return None
        if (override := self._override_for(model)) is not None:
            return override
        unknown = model.source is None or self.default() is None
        return None if unknown else self._from_store(model.source or "")

    def _from_store(self, source: str) -> Encoder:
        """The encoder that the store names. Because a store may come from someone else, an encoder
        that is not installed here must be configured, or trusted by the user."""
        with self._lock:
            if source in self._cache:
                return self._cache[source]
        if needs_trust(self._store.path, self._config, source, override=self._override):
            raise ModelMissing(
                f"the store uses the encoder {source!r}, which is not in your settings "
                f"(to use it: kb config trust {self._store.path.parent})",
                "or set models.encoder to it",
            )
        return self.by_name(source)

    def _earlier_version(self, model: StoredModel) -> Encoder | None:
        """The bundled encoder of the store's vectors, if kb now has a newer version under the name
        that is in use: `kb reindex` switches to that."""
        from kb import models

        name = model.source or (self._override or self._config.models.encoder)
        if name != model.name:
            return None
        key = name, model.version
        if key not in self._names:  # looked up once: every search asks, and manifests are files
            found = models.name_of_version(*key) if models.is_installed(name) else None
            self._names[key] = None if found == name else found
        earlier = self._names[key]
        return None if earlier is None else self.by_name(earlier)

    def _override_for(self, model: StoredModel) -> Encoder | None:
        """The caller's encoder object, if it runs this model."""
        if self._override is None or isinstance(self._override, str):
            return None
        spec = self._override.spec
        dimension = spec.dimension or model.dimension  # an endpoint may not know it yet
        is_same = (spec.name, spec.version, dimension) == _identity(model)
        return self._override if is_same else None

    def default(self) -> Encoder | None:
        """The caller's encoder, or the configured one; None if encoders are disabled."""
        override = self._override
        return self._load(override) if override is None or isinstance(override, str) else override

    def by_name(self, name: str) -> Encoder:
        """The encoder with this name; the same object in every call."""
        if (encoder := self._load(name)) is None:
            raise ModelMissing(f"{name!r} disables encoders", "see: kb models list")
        return encoder

    def _load(self, name: str | None) -> Encoder | None:
        from kb import models

        with self._lock:
            if name not in self._cache:
                encoder = models.encoder(self._config, name)
                if encoder is None:
                    return None
                self._cache[name] = encoder
            return self._cache[name]

    def register(self, name: str, encoder: Encoder) -> None:
        """Use this object for `name` from now on."""
        with self._lock:
            self._cache[name] = encoder

    def source(self, role: str) -> str | None:
        """The name that the store has recorded for the encoder with this role; None for the
        configured one."""
        model = self._model(role)
        return None if model is None else model.source

    def _model(self, role: str) -> StoredModel | None:
        try:
            return next((one for one in self._store.vectors.models() if one.role == role), None)
        except StoreMissing:
            return None


def needs_trust(
    store: Path, config: Config, source: str, *, override: Encoder | str | None = None
) -> bool:
    """Whether only the store names this encoder, and it could contact another machine, run another
    package or read a folder. False for bundled and pulled models, for the encoder of the caller or
    the settings, and for one that `kb reindex` or `kb config trust` has recorded for this store."""
    from kb import models

    if models.is_installed(source):
        return False
    if any(models.absolute_name(name) == source for name in (override, config.models.encoder)
           if isinstance(name, str)):  # fmt: skip
        return False
    if models.is_endpoint(source) and models.is_endpoint(config.models.encoder):
        return False  # the configured encoder sends texts to that server anyway
    return not trust_store().is_trusted(store, os.fsencode(source))


def sources_to_trust(path: Path) -> list[str]:
    """The encoders of the store at `path` that the user would have to trust."""
    config = load(path)
    store = open_store(path, read_only=True)
    try:
        sources = [one.source for one in store.vectors.models() if one.role and one.source]
    except StoreMissing:
        return []
    finally:
        store.close()
    return [source for source in sources if needs_trust(path, config, source)]


def _identity(model: StoredModel) -> tuple[str, str, int]:
    return model.name, model.version, model.dimension


def _check(model: object, grace_s: float | None) -> None:
    """Raise `InvalidRequest` if the arguments of `reindex` are invalid."""
    from kb.types import ModelSpec

    is_encoder = isinstance(getattr(model, "spec", None), ModelSpec) and callable(
        getattr(model, "encode", None)
    )
    if not is_encoder and not (isinstance(model, str) and model):
        raise InvalidRequest(
            f"a model cannot be {short_repr(model)}", "pass the name of an encoder, or an encoder"
        )
    is_number = isinstance(grace_s, int | float) and not isinstance(grace_s, bool)
    if grace_s is not None and not (is_number and 0 <= grace_s <= _LONGEST_GRACE_S):
        raise InvalidRequest(
            f"grace_s cannot be {short_repr(grace_s)}",
            f"grace_s is a number of seconds from 0 to {_LONGEST_GRACE_S:,}",
        )


class Embedding:
    """Embeds the passages of one store, those in `priorities` first: searches add their results to
    it."""

    def __init__(
        self, store: Store, config: Config, encoders: Encoders, priorities: deque[int] | None = None
    ) -> None:
        self._store = store
        self._priorities = priorities
        self._config = config
        self.encoders = encoders
        self._workers: WeakSet[Worker] = WeakSet()
        self._replaced: tuple[int, float] | None = None  # the model, and when it was first seen

    def close(self) -> None:
        """Stop the workers, which need the store."""
        for worker in list(self._workers):
            worker.stop()

    def run(
        self,
        *,
        limit: int | None = None,
        document: Document | None = None,
        fill: bool = True,
        retry: bool = False,
        anew: bool = False,
        patient: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> EmbedReport:
        """See `KnowledgeBase.embed`. If a switch to another model completes during the run, its
        vectors are computed too."""
        self._store.vectors.models()  # raises if the store is missing: its path may be mistyped
        while True:
            encoder = self.encoders.current()
            if encoder is None:
                raise ModelMissing("the encoder is disabled", "set models.encoder")
            report = self._embedder(encoder, patient=patient).run(
                limit=limit,
                document=document,
                fill=fill,
                retry=retry,
                anew=anew,
                stop=stop,
                on_progress=on_progress,
            )
            anew = False
            if stop() or limit is not None or self._is_current(encoder):
                self._store.vectors.build_index(self._store.vectors.models()[0].model_id)
                return report

    def reindex(
        self,
        name: str | Encoder,
        *,
        keep_old: bool = False,
        force: bool = False,
        grace_s: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> tuple[EmbedReport, bool]:
        """See `KnowledgeBase.reindex`."""
        from kb import models
        from kb.embedding.reindex import GRACE_S, reindex

        _check(name, grace_s)
        self._store.vectors.models()  # raises if the store is missing
        encoder = self.encoders.by_name(name) if isinstance(name, str) else name
        source = models.absolute_name(name) if isinstance(name, str) else encoder.spec.name
        self.encoders.register(source, encoder)
        if needs_trust(self._store.path, self._config, source):
            # If it cannot be recorded, the next process reports that, and what to do.
            with suppress(OSError):
                trust_store().add(self._store.path, os.fsencode(source))
        report, switched = reindex(
            self._store,
            encoder,
            source=source,
            want=self._parts_to_store(encoder),
            exam=self._config.models.exam,
            keep_old=keep_old,
            force=force,
            grace_s=GRACE_S if grace_s is None else grace_s,
            stop=stop,
            on_progress=on_progress,
        )
        if switched:
            self._store.vectors.build_index(self._store.vectors.models()[0].model_id)
        return report, switched

    def worker(self, on_change: Callable[[WorkerState], None] | None = None) -> Worker:
        """Create a worker; the caller starts it."""
        from kb.embedding.worker import Worker

        worker = Worker(self.step, listen=self._listen, on_change=on_change)
        self._workers.add(worker)
        return worker

    def _listen(self, on_work: Callable[[], None]) -> AbstractContextManager[object] | None:
        return self._store.queue.listening(on_work)

    def step(
        self, *, retry: bool, stop: Callable[[], bool], on_progress: OnEmbedded
    ) -> EmbedReport | None:
        """Run one step of a worker: do all pending work, for the current and the next model. Reads
        only a few rows if nothing is pending."""
        if self._store.exists():
            # Overlapping searches prevent automatic checkpoints.
            self._store.maintenance.checkpoint()
            self._store.fulltext.build_index()
        encoder = self.encoders.current()
        if encoder is None:
            return None
        from kb.types import EmbedReport

        report = EmbedReport(encoder.spec.name, encoder.spec.version)
        if retry or self._is_due("search", encoder):
            report = self.run(retry=retry, patient=True, stop=stop, on_progress=on_progress)
        next_encoder = self.encoders.next()
        if next_encoder is not None and not stop():
            with suppress(NotFound):  # a switch to another model has replaced it
                self._build_next(next_encoder, stop, on_progress)
        self._drop_replaced()
        return report

    def _build_next(
        self, encoder: Encoder, stop: Callable[[], bool], on_progress: OnEmbedded
    ) -> None:
        """Take part in a reindex, which also loads the encoder before a search needs it. The
        process that writes the last vectors makes the switch."""
        model = next((one for one in self._models() if one.role == "next"), None)
        if model is None:
            return
        if self._is_due("next", encoder):
            self._embedder(encoder, patient=True).run(
                model=model, stop=stop, on_progress=on_progress
            )
        vectors = self._store.vectors
        if vectors.can_switch(model.model_id) and vectors.switch(model.model_id):
            vectors.build_index(model.model_id)

    def _drop_replaced(self) -> None:
        """Drop the vectors of a replaced model once no search can be using them."""
        from kb.embedding.reindex import GRACE_S, drop

        model = next((one for one in self._models() if one.role == "gone"), None)
        now = time.monotonic()
        if model is None:
            self._replaced = None
        elif self._replaced is None or self._replaced[0] != model.model_id:
            self._replaced = (model.model_id, now)
        if self._replaced is not None and now - self._replaced[1] >= GRACE_S:
            drop(self._store)

    def jobs(self) -> Jobs:
        """See `KnowledgeBase.jobs`."""
        with self._store.snapshot():
            jobs = self._store.queue.jobs()
            models = self._models()
            failures = [
                failure
                for model in models
                for failure in self._store.queue.failures(model.model_id, SHOWN_FAILURES)
            ]
        from kb.types import Jobs

        return Jobs(
            tuple(self._work(model, jobs) for model in models if model.role is not None),
            tuple(jobs),
            tuple(failures),
        )

    def retry(self) -> int:
        """Make passages that failed permanently pending again. Returns how many."""
        return sum(
            self._store.queue.retry(model.model_id) for model in self._store.vectors.models()
        )

    # --- state ------------------------------------------------------------------------------------

    def _work(self, model: StoredModel, jobs: list[Job]) -> Work:
        from kb.embedding.embedder import lacking
        from kb.types import Work

        running = [one for one in jobs if one.model_id == model.model_id and not one.lost]
        per_second = sum(one.done / one.seconds for one in running if one.seconds > 0)
        role = model.role
        encoder = None
        with suppress(KbError):  # without the encoder, its parts are unknown
            encoder = self.encoders.next() if role == "next" else self.encoders.current()
        want = self._parts_to_store(encoder) if encoder is not None else frozenset()
        return Work(model, lacking(model, want), len(running), per_second)

    def _is_due(self, role: str, encoder: Encoder) -> bool:
        model = next((one for one in self._models() if one.role == role), None)
        if model is None:
            return self._store.exists() and self._store.catalog.chunk_count() > 0
        spec = encoder.spec
        if (spec.name, spec.version) != (model.name, model.version):
            return True  # the run then raises the proper error
        return self._store.queue.has_work(model.model_id, self._parts_to_store(encoder) - {"dense"})

    def _models(self) -> list[StoredModel]:
        return self._store.vectors.models() if self._store.exists() else []

    def _is_current(self, encoder: Encoder) -> bool:
        """Whether searches use this encoder's vectors."""
        model = self._store.vectors.models()[0]
        return (model.name, model.version) == (encoder.spec.name, encoder.spec.version)

    def _embedder(self, encoder: Encoder, *, patient: bool) -> Embedder:
        from kb.embedding.embedder import Embedder

        return Embedder(
            self._store,
            encoder,
            want=self._parts_to_store(encoder),
            patient=patient,
            priorities=self._priorities,
            source=self.encoders.source("search"),
            exam=self._config.models.exam,
        )

    def _parts_to_store(self, encoder: Encoder) -> frozenset[str]:
        from kb.embedding.embedder import parts_to_store

        return parts_to_store(encoder.spec, self._config.models.tokens)
