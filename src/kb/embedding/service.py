"""The embedding side of a knowledge base: its encoders, the vectors they make, and who makes them.

What `KnowledgeBase.embed`, `.jobs`, `.worker` and `.reindex` do.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from kb.config import Config, load, trust_store
from kb.errors import InvalidRequest, KbError, ModelMissing, NotFound, StoreMissing, short_repr
from kb.store import open_store

if TYPE_CHECKING:
    from kb.embedding.embedder import Embedder, OnEmbedded
    from kb.embedding.worker import Worker, WorkerState
    from kb.ports import Encoder, Store
    from kb.types import Document, EmbedReport, Job, Jobs, StoredModel, Work

SHOWN_FAILURES = 20
_LONGEST_GRACE_S = 86_400


class Encoders:
    """The encoder of the settings, or the one that was given; and, where the store's vectors are
    of another since it was reindexed, that one, by the name the store knows it by. An object that
    was given and is of the store's model is used, whatever that name. Shared between threads."""

    def __init__(self, store: Store, config: Config, given: Encoder | str | None) -> None:
        self._store = store
        self._config = config
        self._given = given
        self._made: dict[str | None, Encoder] = {}
        self._lock = threading.Lock()

    def current(self) -> Encoder | None:
        """The encoder whose vectors answer; None where encoders are switched off."""
        model = self._model("search")
        if model is None or model.source is None:
            return self.default()
        if (given := self._given_for(model)) is not None:
            return given
        with suppress(KbError):  # one that is not needed may be missing
            if self.default() is None:
                return None
        return self._of_store(model.source)

    def coming(self) -> Encoder | None:
        """The one whose vectors are being built beside those that answer."""
        model = self._model("next")
        if model is None:
            return None
        if (given := self._given_for(model)) is not None:
            return given
        unknown = model.source is None or self.default() is None
        return None if unknown else self._of_store(model.source or "")

    def _of_store(self, source: str) -> Encoder:
        """The encoder that the store names. A store may come from somebody else: one that is not
        installed here needs the user's word, or that of their settings."""
        with self._lock:
            if source in self._made:
                return self._made[source]
        if needs_trust(self._store.path, self._config, source, given=self._given):
            raise ModelMissing(
                f"the store names the encoder {source!r}, which your settings do not "
                f"(to use it: kb config trust {self._store.path.parent})",
                "or name it in models.encoder",
            )
        return self.named(source)

    def _given_for(self, model: StoredModel) -> Encoder | None:
        """The object that was given, if such vectors are its own."""
        if self._given is None or isinstance(self._given, str):
            return None
        spec = self._given.spec
        dimension = spec.dimension or model.dimension  # of an endpoint it may not be known yet
        is_it = (spec.name, spec.version, dimension) == _identity(model)
        return self._given if is_it else None

    def default(self) -> Encoder | None:
        given = self._given
        return self._by_name(given) if given is None or isinstance(given, str) else given

    def named(self, name: str) -> Encoder:
        """The encoder of that name, made once."""
        if (made := self._by_name(name)) is None:
            raise ModelMissing(f"{name!r} is no encoder: it switches them off", "kb models list")
        return made

    def _by_name(self, name: str | None) -> Encoder | None:
        from kb import models

        with self._lock:
            if name not in self._made:
                made = models.encoder(self._config, name)
                if made is None:
                    return None
                self._made[name] = made
            return self._made[name]

    def keep(self, name: str, encoder: Encoder) -> None:
        """Let `name` mean this object from now on."""
        with self._lock:
            self._made[name] = encoder

    def source(self, role: str) -> str | None:
        """The name that the store knows the encoder of that role by; None: it is the setting's."""
        model = self._model(role)
        return None if model is None else model.source

    def _model(self, role: str) -> StoredModel | None:
        try:
            return next((one for one in self._store.vectors.models() if one.role == role), None)
        except StoreMissing:
            return None


def needs_trust(
    store: Path, config: Config, source: str, *, given: Encoder | str | None = None
) -> bool:
    """Whether nothing but the store itself names this encoder, and it could reach another machine,
    run another package or read a folder: it is neither one of kb's own or a pulled one, nor the
    caller's or the settings', nor recorded for this store by `kb reindex` or `kb config trust`."""
    from kb import models

    if models.is_installed(source):
        return False
    if any(models.lasting(one) == source for one in (given, config.models.encoder)
           if isinstance(one, str)):  # fmt: skip
        return False
    if models.is_endpoint(source) and models.is_endpoint(config.models.encoder):
        return False  # texts go to that server anyway
    return not trust_store().is_trusted(store, os.fsencode(source))


def sources_to_trust(path: Path) -> list[str]:
    """The encoders that the store at `path` names and that need the user's trust."""
    config = load(path)
    store = open_store(path, read_only=True)
    try:
        named = [one.source for one in store.vectors.models() if one.role and one.source]
    except StoreMissing:
        return []
    finally:
        store.close()
    return [source for source in named if needs_trust(path, config, source)]


def _identity(model: StoredModel) -> tuple[str, str, int]:
    return model.name, model.version, model.dimension


def _check(model: object, grace_s: float | None) -> None:
    """Refuses what is no encoder, and no time to wait, before anything is done."""
    from kb.types import ModelSpec

    is_encoder = isinstance(getattr(model, "spec", None), ModelSpec) and callable(
        getattr(model, "encode", None)
    )
    if not is_encoder and not (isinstance(model, str) and model):
        raise InvalidRequest(
            f"a model cannot be {short_repr(model)}", "give the name of an encoder, or an encoder"
        )
    is_number = isinstance(grace_s, int | float) and not isinstance(grace_s, bool)
    if grace_s is not None and not (is_number and 0 <= grace_s <= _LONGEST_GRACE_S):
        raise InvalidRequest(
            f"grace_s cannot be {short_repr(grace_s)}",
            f"grace_s is a number of seconds from 0 to {_LONGEST_GRACE_S:,}",
        )


class Embedding:
    """Makes the vectors of one store."""

    def __init__(self, store: Store, config: Config, encoders: Encoders) -> None:
        self._store = store
        self._config = config
        self._encoders = encoders
        self._workers: WeakSet[Worker] = WeakSet()
        self._gone: tuple[int, float] | None = None  # which was seen to go, and when

    def close(self) -> None:
        """Stop the workers: without a store they have nothing to do."""
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
        """See `KnowledgeBase.embed`. Where another model has come to answer meanwhile, its vectors
        are made too."""
        self._store.vectors.models()  # raises where there is no store: a name may be mistyped
        while True:
            encoder = self._encoders.current()
            if encoder is None:
                raise ModelMissing("the encoder is switched off", "name one in models.encoder")
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
            if stop() or limit is not None or self._answers(encoder):
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
        self._store.vectors.models()  # raises where there is no store
        encoder = self._encoders.named(name) if isinstance(name, str) else name
        source = models.lasting(name) if isinstance(name, str) else encoder.spec.name
        self._encoders.keep(source, encoder)
        if needs_trust(self._store.path, self._config, source):
            # Where it cannot be recorded, the next process says so, and how to mend it.
            with suppress(OSError):
                trust_store().add(self._store.path, os.fsencode(source))
        done = reindex(
            self._store,
            encoder,
            source=source,
            want=self._wanted(encoder),
            exam=self._config.models.exam,
            keep_old=keep_old,
            force=force,
            grace_s=GRACE_S if grace_s is None else grace_s,
            stop=stop,
            on_progress=on_progress,
        )
        if done[1]:
            self._store.vectors.build_index(self._store.vectors.models()[0].model_id)
        return done

    def worker(self, on_change: Callable[[WorkerState], None] | None = None) -> Worker:
        """A worker that is not started yet."""
        from kb.embedding.worker import Worker

        made = Worker(self.step, on_change=on_change)
        self._workers.add(made)
        return made

    def step(
        self, *, retry: bool, stop: Callable[[], bool], on_progress: OnEmbedded
    ) -> EmbedReport | None:
        """What a worker does: all there is to do now, for the model that answers and for the one
        that will. Costs a look at a few rows where there is nothing."""
        if self._store.exists():
            self._store.maintenance.checkpoint()  # overlapping searches prevent it
        encoder = self._encoders.current()
        if encoder is None:
            return None
        from kb.types import EmbedReport

        report = EmbedReport(encoder.spec.name, encoder.spec.version)
        if retry or self._is_due("search", encoder):
            report = self.run(retry=retry, patient=True, stop=stop, on_progress=on_progress)
        coming = self._encoders.coming()
        if coming is not None and not stop():
            with suppress(NotFound):  # another change has taken its place
                self._build(coming, stop, on_progress)
        self._drop_gone()
        return report

    def _build(self, encoder: Encoder, stop: Callable[[], bool], on_progress: OnEmbedded) -> None:
        """A share in the work of a reindex; so the encoder is loaded before a search needs it.
        Whoever has made the last vectors lets them answer, or no one would."""
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

    def _drop_gone(self) -> None:
        """What a switch has left, once no search can have begun with it."""
        from kb.embedding.reindex import GRACE_S, drop

        model = next((one for one in self._models() if one.role == "gone"), None)
        now = time.monotonic()
        if model is None:
            self._gone = None
        elif self._gone is None or self._gone[0] != model.model_id:
            self._gone = (model.model_id, now)
        if self._gone is not None and now - self._gone[1] >= GRACE_S:
            drop(self._store)

    def jobs(self) -> Jobs:
        with self._store.snapshot():
            found = self._store.queue.jobs()
            models = self._models()
            failures = [
                failure
                for model in models
                for failure in self._store.queue.failures(model.model_id, SHOWN_FAILURES)
            ]
        from kb.types import Jobs

        return Jobs(
            tuple(self._work(model, found) for model in models if model.role is not None),
            tuple(found),
            tuple(failures),
        )

    def retry(self) -> int:
        """Let what was given up be tried again; how many passages that are."""
        return sum(
            self._store.queue.retry(model.model_id) for model in self._store.vectors.models()
        )

    # --- how things stand -------------------------------------------------------------------------

    def _work(self, model: StoredModel, jobs: list[Job]) -> Work:
        from kb.embedding.embedder import lacking
        from kb.types import Work

        at_it = [one for one in jobs if one.model_id == model.model_id and not one.lost]
        pace = sum(one.done / one.seconds for one in at_it if one.seconds > 0)
        role = model.role
        encoder = None
        with suppress(KbError):  # then nobody knows what it would give
            encoder = self._encoders.coming() if role == "next" else self._encoders.current()
        want = self._wanted(encoder) if encoder is not None else frozenset()
        return Work(model, lacking(model, want), len(at_it), pace)

    def _is_due(self, role: str, encoder: Encoder) -> bool:
        model = next((one for one in self._models() if one.role == role), None)
        if model is None:
            return self._store.exists() and self._store.catalog.chunk_count() > 0
        spec = encoder.spec
        if (spec.name, spec.version) != (model.name, model.version):
            return True  # which is then told as what it is
        return self._store.queue.has_work(model.model_id, self._wanted(encoder) - {"dense"})

    def _models(self) -> list[StoredModel]:
        return self._store.vectors.models() if self._store.exists() else []

    def _answers(self, encoder: Encoder) -> bool:
        """Whether the vectors that answer are this encoder's."""
        model = self._store.vectors.models()[0]
        return (model.name, model.version) == (encoder.spec.name, encoder.spec.version)

    def _embedder(self, encoder: Encoder, *, patient: bool) -> Embedder:
        from kb.embedding.embedder import Embedder

        return Embedder(
            self._store,
            encoder,
            want=self._wanted(encoder),
            patient=patient,
            source=self._encoders.source("search"),
            exam=self._config.models.exam,
        )

    def _wanted(self, encoder: Encoder) -> frozenset[str]:
        from kb.embedding.embedder import wanted

        return wanted(encoder.spec, self._config.models.tokens)
