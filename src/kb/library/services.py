"""The parts of a knowledge base that are loaded when they are first used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.config import Config
    from kb.embedding.service import Embedding, Encoders
    from kb.library.overview import Overview
    from kb.ports import Encoder, Judge, Store
    from kb.search.searcher import Searcher

_PRIORITIES = 1_000  # the maximum number of passages from searches that wait to be embedded


class Services:
    """Embedding, search, and maps and statistics of one store. Threads may share the object.

    `encoder` and `judge` are those of `KnowledgeBase`. A lexical search does not load an encoder,
    and commands that only write do not load the searcher.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        clock: Callable[[], float],
        *,
        encoder: Encoder | str | None = None,
        judge: Judge | str | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._encoder = encoder
        self._judge = judge
        self._lock = threading.Lock()
        self._priorities: deque[int] = deque(maxlen=_PRIORITIES)
        self._embedding: Embedding | None = None
        self._searcher: Searcher | None = None
        self._overview: Overview | None = None

    def close(self) -> None:
        """Stop workers and idle threads."""
        if self._embedding is not None:
            self._embedding.close()
        if self._searcher is not None:
            self._searcher.close()

    @property
    def embedding(self) -> Embedding:
        """Computes vectors and chooses encoders."""
        with self._lock:
            if self._embedding is None:
                from kb.embedding.service import Embedding

                self._embedding = Embedding(
                    self._store, self._config, self._encoders(), self._priorities
                )
            return self._embedding

    def _encoders(self) -> Encoders:
        from kb.embedding.service import Encoders

        return Encoders(self._store, self._config, self._encoder)

    @property
    def searcher(self) -> Searcher:
        """Runs searches."""
        with self._lock:
            if self._searcher is None:
                from kb.search.searcher import Searcher

                self._searcher = Searcher(
                    self._store, self._config, self._clock, self.encoder, self.judge,
                    self._priorities.extend,
                )  # fmt: skip
            return self._searcher

    @property
    def overview(self) -> Overview:
        """Computes maps and statistics, and keeps them until the store changes."""
        with self._lock:
            if self._overview is None:
                from kb.library.overview import Overview

                self._overview = Overview(self._store)
            return self._overview

    def encoder(self) -> Encoder | None:
        """The encoder of the active model; None if encoders are disabled."""
        return self.embedding.encoders.current()

    def judge(self) -> Judge | None:
        """The cross-encoder for reranking; None if it is disabled."""
        with self._lock:
            if self._judge is None or isinstance(self._judge, str):
                from kb import models

                judge = models.judge(self._config, self._judge)
                if judge is None:
                    return None
                self._judge = judge
            return self._judge


class ServicesOfView(Services):
    """The services of a view of a store, with the models of the whole knowledge base."""

    def __init__(
        self, base: Services, store: Store, config: Config, clock: Callable[[], float]
    ) -> None:
        super().__init__(store, config, clock)
        self._base = base

    def _encoders(self) -> Encoders:
        return self._base.embedding.encoders

    def judge(self) -> Judge | None:
        return self._base.judge()
