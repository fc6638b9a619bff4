"""Searcher: a request, filled in from profile and settings, sent through its pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kb.config import Config
from kb.errors import InvalidRequest, QuerySyntax, choose, text_of, whole_number
from kb.ports import Clock, Store
from kb.search.analyse import analyse
from kb.search.dense import DenseRetriever, QueryVectors
from kb.search.found import Retriever
from kb.search.lexical import LexicalRetriever
from kb.search.pipeline import Cut, Merge, Pipeline
from kb.search.profiles import Profile, resolve, restrict
from kb.search.settings import read_number
from kb.search.snippet import marks, ranges
from kb.search.standing import EncoderSource, Standing, no_encoder, standing
from kb.types import MATCHES, Filters, Query, Response, Vector

if TYPE_CHECKING:
    from concurrent.futures import Executor

# From so many vectors on, a second thread gains more than it costs: a sixth of the time at 10,000
# on two cores, nothing at 1,000.
PARALLEL_FROM = 2_000
_THREADS = 4


class Searcher:
    """`encoder` gives the model that queries are encoded by; without it, words alone count."""

    def __init__(
        self, store: Store, config: Config, clock: Clock, encoder: EncoderSource = no_encoder
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._encoder = encoder
        self._vectors = QueryVectors(encoder)
        self._threads: Executor | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            if self._threads is not None:
                self._threads.shutdown()
            self._threads = None

    def search(
        self,
        text: str,
        *,
        top: int | None = None,
        profile: str | None = None,
        mode: str | None = None,
        match: str | None = None,
        filters: Filters | None = None,
        threshold: float | None = None,
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
        snippets: bool = True,
        vector: Vector[float] | None = None,
        exclude: frozenset[int] = frozenset(),
    ) -> Response:
        """See `KnowledgeBase.search`. Without `snippets`, those stay empty: to time the ranking.
        `vector` is a ready-made one of the query, at length 1; `exclude` are chunks not to find."""
        choose("malformed", malformed, ("raise", "empty"))
        text_of("a query", text)
        _check(filters, threshold)
        asked = resolve(profile or self._config.search.profile, self._config.profiles, settings)
        with self._store.reading():
            chosen, dense = self._equipped(restrict(asked, mode), vector)
            query = self._query(text, chosen, top, match, filters, threshold, explain)
            pipeline = self._pipeline(query, chosen, dense, exclude, snippets=snippets)
            now = self.now()
            try:
                return pipeline.run(query, now)
            except QuerySyntax:
                if malformed == "raise":
                    raise
                return pipeline.run(replace(query, text=""), now)

    def highlights(self, query: str, text: str) -> list[tuple[int, int]]:
        """See `KnowledgeBase.highlights`."""
        with self._store.reading():
            return ranges(marks(text, analyse(query, self._store.tokenise), self._store.tokenise))

    def standing(self) -> Standing:
        """How dense search stands, for `kb status`."""
        with self._store.reading():
            return standing(self._store, self._encoder)

    def now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))

    # --- building ---------------------------------------------------------------------------------

    def _equipped(
        self, profile: Profile, vector: Vector[float] | None
    ) -> tuple[Profile, DenseRetriever | None]:
        """The profile with the retrievers that are switched on, and the dense one, if it is."""
        if "dense" not in profile.retrievers:
            return profile, None
        stands = standing(self._store, self._encoder, ready_made=vector is not None)
        if stands.off and len(profile.retrievers) > 1:
            kept = tuple(name for name in profile.retrievers if name != "dense")
            return replace(profile, retrievers=kept), None
        alone = len(profile.retrievers) == 1
        return profile, DenseRetriever(
            self._store,
            stands.asked_for() if alone else stands,
            self._vectors,
            vector=vector,
            backend=self._config.store.vector_backend,
            alone=alone,
        )

    def _query(
        self,
        text: str,
        chosen: Profile,
        top: int | None,
        match: str | None,
        filters: Filters | None,
        threshold: float | None,
        explain: bool,
    ) -> Query:
        count = first_given(top, chosen.top, self._config.search.default_top)
        return Query(
            text=text,
            top=whole_number("top", count, least=1),
            profile=chosen.name,
            mode=chosen.mode,
            match=choose("match", match or chosen.match, MATCHES),
            filters=filters or Filters(),
            threshold=chosen.threshold if threshold is None else threshold,
            explain=explain,
        )

    def _pipeline(
        self,
        query: Query,
        profile: Profile,
        dense: DenseRetriever | None,
        exclude: frozenset[int],
        *,
        snippets: bool,
    ) -> Pipeline:
        retrievers: dict[str, Retriever] = {
            "lexical": LexicalRetriever(self._store, match=query.match)
        }
        if dense is not None:
            retrievers["dense"] = dense
        used = tuple(retrievers[name] for name in profile.retrievers)
        wide = len(used) > 1 or profile.boosts or profile.group
        return Pipeline(
            store=self._store,
            retrievers=used,
            candidates=(profile.candidates_for(query.top) if wide else query.top) + len(exclude),
            merge=Merge(
                profile.as_fusion(),
                {name: profile.weight(name) for name in profile.retrievers},
                profile.complete,
                profile.min_score,
            ),
            boosts=profile.as_boosts(),
            cut=Cut(query.top, query.threshold, profile.group, exclude),
            snippet_chars=self._config.search.snippet_chars if snippets else 0,
            slow_ms=self._config.search.slow_ms,
            threads=self._side_by_side() if dense is not None and dense.is_large(PARALLEL_FROM)
            and len(used) > 1 else None,
        )  # fmt: skip

    def _side_by_side(self) -> Executor:
        with self._lock:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kb-search")
            return self._threads


def _check(filters: object, threshold: object) -> None:
    if filters is not None and not isinstance(filters, Filters):
        raise InvalidRequest(f"filters is a {type(filters).__name__}", "give kb.Filters(...)")
    if isinstance(threshold, str):
        raise InvalidRequest(f"threshold cannot be {threshold!r}", "threshold is a number")
    if threshold is not None:
        read_number("threshold", threshold)


def first_given(*values: int | None) -> int:
    return next(value for value in values if value is not None)
