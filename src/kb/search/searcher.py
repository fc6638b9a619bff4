"""Searcher: a request, filled in from profile and settings, sent through its pipeline."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kb.config import Config
from kb.deadline import Deadline
from kb.errors import (
    InvalidRequest,
    KbError,
    QuerySyntax,
    check_choice,
    check_integer,
    check_text,
    is_unicode,
)
from kb.search.pipeline import Cut, FusionStage, Pipeline
from kb.search.profile_settings import read_number
from kb.search.profiles import Profile, resolve, restrict, with_reranker
from kb.search.query.analysis import analyze
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.selection import JudgeSource, RerankerSelector, no_judge
from kb.search.results.snippets import match_ranges, merge_ranges
from kb.search.retrievers.availability import (
    EncoderSource,
    RetrieverStatus,
    no_encoder,
    retriever_status,
)
from kb.search.retrievers.base import Retriever
from kb.search.retrievers.lexical import LexicalRetriever
from kb.search.retrievers.retrieval import ParallelRetrieval
from kb.text.timestamps import utc_timestamp
from kb.types import MATCHES, Filters, Query, Response

if TYPE_CHECKING:
    from kb.ports import Clock, Encoder, Store
    from kb.search.rerank.stage import RerankStage
    from kb.search.retrievers.model_retriever import Encode, ModelRetriever
    from kb.search.retrievers.thread_pool import ThreadPool
    from kb.types import Vector

# From so many vectors on, threads gain more than they cost: a sixth of the time at 10,000 on two
# cores, nothing at 1,000.
PARALLEL_FROM = 2_000
_BY_MODEL = ("dense", "sparse")  # retrievers that need an encoder


class Searcher:
    """`encoder` gives the model that queries are encoded by; without it, words alone count. `judge`
    gives the one that a rerank by cross-encoder asks."""

    def __init__(
        self,
        store: Store,
        config: Config,
        clock: Clock,
        encoder: EncoderSource = no_encoder,
        judge: JudgeSource = no_judge,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._encoder = encoder
        timeout_ms = config.search.retriever_timeout_ms
        self._timeout_s = timeout_ms / 1000 if timeout_ms else None
        self._query_encoder = QueryEncoder(encoder, timeout_s=self._timeout_s)
        keeps_tokens = config.models.tokens != "none"
        self._rerankers = RerankerSelector(
            store, self._query_encoder, encoder, judge, keeps_tokens=keeps_tokens
        )
        self._pool: ThreadPool | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Waits for nobody: a retriever that hangs must not keep its caller."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

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
        rerank: str | bool | None = None,
        budget_ms: int | None = None,
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
        snippets: bool = True,
        vector: Vector[float] | None = None,
        exclude: frozenset[int] = frozenset(),
    ) -> Response:
        """See `KnowledgeBase.search`. Without `snippets`, those stay empty: to time the ranking.
        `vector` is a ready-made one of the query, at length 1; `exclude` are chunks not to find.
        Raises `DeadlineExceeded` where `search.timeout_s` is over before there is an answer."""
        check_choice("malformed", malformed, ("raise", "empty"))
        text = _query_text(text)
        _check(filters, threshold)
        asked = resolve(profile or self._config.search.profile, self._config.profiles, settings)
        with self.deadline(), self._store.reading():
            wanted = with_reranker(restrict(asked, mode), rerank)
            named = profile is not None
            chosen, by_model = self._available(wanted, vector, exclude, named=named)
            query = self._query(text, chosen, top, match, filters, threshold, explain)
            stage = self._rerankers.stage(
                chosen,
                asked=rerank is not None or "rerank" in (settings or {}),
                named=named,
                budget_ms=_budget(budget_ms),
            )
            pipeline = self._pipeline(query, chosen, by_model, stage, exclude, snippets=snippets)
            now = self.now()
            try:
                return pipeline.run(query, now)
            except QuerySyntax:
                if malformed == "raise":
                    raise
                return pipeline.run(replace(query, text=""), now)

    def highlights(self, query: str, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """See `KnowledgeBase.highlights`; of several texts at once."""
        with self.deadline():
            analysis = analyze(check_text("a query", query))
            checked = (check_text("a text", text) for text in texts)
            return [merge_ranges(match_ranges(text, analysis)) for text in checked]

    def deadline(self) -> Deadline:
        """For one search or read, by the setting."""
        return Deadline(self._config.search.timeout_s or None, setting="search.timeout_s")

    def load(self) -> None:
        """The encoder, where there is one: so that the next search does not wait for it. What is
        wrong with it, that search says."""
        with suppress(Exception):
            self._query_encoder.load()

    def status(self) -> RetrieverStatus:
        """How dense search status, for `kb status`."""
        with self._store.reading():
            return retriever_status(self._store, self._encoder)

    def now(self) -> str:
        return utc_timestamp(self._clock())

    # --- building ---------------------------------------------------------------------------------

    def _available(
        self,
        profile: Profile,
        vector: Vector[float] | None,
        exclude: frozenset[int],
        *,
        named: bool,
    ) -> tuple[Profile, dict[str, ModelRetriever]]:
        """The profile with the retrievers that are switched on, and those of them that a model
        works for. Where there are no words to fall back on, what is off is asked all the same, and
        says so. What the chosen model does not give is missed by who has `named` the profile."""
        asked = [name for name in profile.retrievers if name in _BY_MODEL]
        status = {name: self._stands(name, ready_made=vector is not None) for name in asked}
        alone = "lexical" not in profile.retrievers
        if not alone:
            idle = {
                name for name, each in status.items() if each.off or (each.lacking and not named)
            }
            kept = [name for name in profile.retrievers if name not in idle]
            profile = replace(profile, retrievers=tuple(kept))
        encode = partial(self._query_encoder.of, want=profile.parts(), encoder=self._pinned(asked))
        return profile, {
            name: self._by_model(name, each, encode, vector, exclude, alone)
            for name, each in status.items()
            if name in profile.retrievers
        }

    def _pinned(self, asked: Sequence[str]) -> Encoder | None:
        """The encoder of the vectors that this search began with. Retrievers ask in threads of
        their own, which may see the store after a switch to another model."""
        if asked:
            with suppress(KbError):  # said by who needs it
                return self._encoder()
        return None

    def _stands(self, name: str, *, ready_made: bool) -> RetrieverStatus:
        """A ready-made vector is a dense one: a sparse search needs the encoder all the same."""
        if name == "dense":
            return retriever_status(self._store, self._encoder, ready_made=ready_made)
        return retriever_status(self._store, self._encoder).for_sparse()

    def _by_model(
        self,
        name: str,
        status: RetrieverStatus,
        encode: Encode,
        vector: Vector[float] | None,
        exclude: frozenset[int],
        alone: bool,
    ) -> ModelRetriever:
        if alone:
            status = status.required()
        if name == "sparse":
            from kb.search.retrievers.sparse import SparseRetriever

            return SparseRetriever(self._store, status, encode, alone=alone)
        from kb.search.retrievers.dense import DenseRetriever

        backend = self._config.store.vector_backend
        return DenseRetriever(
            self._store,
            status,
            encode,
            vector=vector,
            backend=backend,
            alone=alone,
            exclude=exclude,
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
        count = _first_given(top, chosen.top, self._config.search.default_top)
        return Query(
            text=text,
            top=check_integer("top", count, least=1),
            profile=chosen.name,
            mode=chosen.mode,
            match=check_choice("match", match or chosen.match, MATCHES),
            filters=filters or Filters(),
            threshold=chosen.threshold if threshold is None else threshold,
            explain=explain,
        )

    def _pipeline(
        self,
        query: Query,
        profile: Profile,
        by_model: Mapping[str, ModelRetriever],
        rerank: RerankStage | None,
        exclude: frozenset[int],
        *,
        snippets: bool,
    ) -> Pipeline:
        warn_expression = rerank is not None or not all(
            each.ready_made for each in by_model.values()
        )
        words = LexicalRetriever(self._store, match=query.match, warn_expression=warn_expression)
        retrievers: dict[str, Retriever] = {"lexical": words, **by_model}
        used = tuple(retrievers[name] for name in profile.retrievers)
        wide = len(used) > 1 or profile.boosts or profile.group or rerank is not None
        candidates = profile.candidates_for(query.top) if wide else query.top
        if rerank is not None:  # the same are read, whatever the top
            candidates = max(candidates, rerank.candidates)
        return Pipeline(
            store=self._store,
            retrievers=used,
            candidates=candidates + len(exclude),
            fusion_stage=FusionStage(
                profile.as_fusion(),
                # Also of one that the model does not give: its sibling takes its share.
                {**profile.weights, **{name: profile.weight(name) for name in profile.retrievers}},
                profile.complete,
                profile.min_score,
                profile.adaptive,
                profile.agreement,
            ),
            boosts=profile.as_boosts(),
            cut=Cut(query.top, query.threshold, profile.group, exclude),
            snippet_chars=self._config.search.snippet_chars if snippets else 0,
            slow_ms=self._config.search.slow_ms,
            parallel=self._parallel(by_model) if len(used) > 1 else None,
            rerank=rerank,
        )

    def _parallel(self, by_model: Mapping[str, ModelRetriever]) -> ParallelRetrieval | None:
        """Threads, where they gain something, or where a server may keep words waiting. Nobody is
        held to a time while the model may still have to be loaded, here or there: that can take as
        long as it likes, and happens once. A server may give it up if nobody waits."""
        is_remote = any(each.is_remote for each in by_model.values())
        if not is_remote and not any(each.is_large(PARALLEL_FROM) for each in by_model.values()):
            return None
        with self._lock:
            if self._pool is None:
                from kb.search.retrievers.thread_pool import ThreadPool

                self._pool = ThreadPool()
            return ParallelRetrieval(
                self._pool, self._timeout_s if self._query_encoder.warm else None
            )


def _query_text(value: object) -> str:
    """A query as text. No query is an error: half a character (a surrogate) matches nothing."""
    if isinstance(value, str) and not is_unicode(value):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return check_text("a query", value)


def _check(filters: object, threshold: object) -> None:
    if filters is not None and not isinstance(filters, Filters):
        raise InvalidRequest(f"filters is a {type(filters).__name__}", "give kb.Filters(...)")
    if isinstance(threshold, str):
        raise InvalidRequest(f"threshold cannot be {threshold!r}", "threshold is a number")
    if threshold is not None:
        read_number("threshold", threshold)


def _budget(given: int | None) -> int | None:
    return None if given is None else check_integer("budget_ms", given, least=1)


def _first_given(*values: int | None) -> int:
    return next(value for value in values if value is not None)
