"""The searcher: turns a request into a pipeline and runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property

from kb.config import Config
from kb.deadline import Deadline
from kb.errors import (
    InvalidRequest,
    QuerySyntax,
    check_choice,
    check_integer,
    check_text,
    is_unicode,
)
from kb.search.context import SearchContext
from kb.search.pipeline import Cut, FusionStage, Pipeline
from kb.search.profile_settings import read_number, read_probability
from kb.search.profiles import Profile, requested_profile
from kb.search.query.analysis import analyze
from kb.search.results.hits import locate_hits
from kb.search.results.snippets import match_ranges, merge_ranges
from kb.search.retrievers import registry
from kb.search.retrievers.availability import (
    ActiveModel,
    EncoderSource,
    RetrieverStatus,
    no_encoder,
)
from kb.search.retrievers.base import Retriever
from kb.search.retrievers.registry import LEXICAL
from kb.search.retrievers.retrieval import ParallelRetrieval
from kb.snapshots import repeat_if_lost
from kb.types import MATCHES, Filters, Query, Response, SearchRequest
from kb.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from kb.ports import Clock, Store
    from kb.search.query.query_encoder import QueryEncoder
    from kb.search.rerank.selection import JudgeSource, RerankerSelector
    from kb.search.rerank.stage import RerankStage
    from kb.search.results.collapse import Collapse
    from kb.search.results.hits import TokenSimilarity
    from kb.search.retrievers.readability import Readability
    from kb.search.retrievers.thread_pool import ThreadPool


class Searcher:
    """Runs searches on one store. Threads may share it.

    `encoder` returns the model that encodes queries; without it, only lexical retrieval works.
    `judge` returns the model of the cross-encoder reranker. While vectors are being computed,
    `on_pending` is called with the first candidates of each search, whose vectors are needed first.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        clock: Clock,
        encoder: EncoderSource = no_encoder,
        judge: JudgeSource = lambda: None,
        on_pending: Callable[[Iterable[int]], object] | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._encoder = encoder
        timeout_ms = config.search.retriever_timeout_ms
        self._timeout_s = timeout_ms / 1000 if timeout_ms else None
        self._judge = judge
        self._on_pending = on_pending
        self._pool: ThreadPool | None = None
        self._lock = threading.Lock()

    @cached_property
    def _query_encoder(self) -> QueryEncoder:
        from kb.search.query.query_encoder import QueryEncoder  # not for words alone

        return QueryEncoder(self._encoder, timeout_s=self._timeout_s)

    @cached_property
    def _rerankers(self) -> RerankerSelector:
        from kb.search.rerank.selection import RerankerSelector

        keeps_tokens = self._config.models.tokens != "none"
        return RerankerSelector(self._query_encoder, self._judge, keeps_tokens=keeps_tokens)

    def close(self) -> None:
        """Stop idle threads. Does not wait for running retrievers, which may hang."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    @repeat_if_lost
    def search(self, request: SearchRequest) -> Response:
        """Run a search (see `KnowledgeBase.search`). Raises `DeadlineExceeded` after
        `search.timeout_s`."""
        check_choice("malformed", request.malformed, ("raise", "empty"))
        text = _query_text(request.query)
        _check(request.filters, request.threshold, request.min_relevance)
        wanted = requested_profile(self._config, request)
        with self.deadline(), self._store.snapshot():
            context = self._context(request, text, wanted)
            budget_ms = _budget(request.budget_ms)
            rerank = None
            if context.profile.rerank != "none":
                rerank = self._rerankers.stage(
                    context.profile,
                    context.model,
                    explicit=request.rerank is not None or "rerank" in (request.settings or {}),
                    profile_named=request.profile is not None,
                    budget_ms=budget_ms,
                )
                context = context._replace(reranks=rerank is not None)
            pipeline, query = self._pipeline(context, rerank), context.query
            try:
                response = pipeline.run(query, context.now)
            except QuerySyntax:
                if request.malformed == "raise":
                    raise
                response = pipeline.run(replace(query, text=""), context.now)
            return self._locate(response, request)

    def similarity(self, request: SearchRequest) -> TokenSimilarity | None:
        """The function that compares sentences with the query of a request; None if the store has
        no token vectors, or the request does not use them."""
        profile = requested_profile(self._config, request)
        return _similarity(self._context(request, _query_text(request.query), profile))

    def _context(self, request: SearchRequest, text: str, wanted: Profile) -> SearchContext:
        """The context of a search, without a reranker."""
        model = ActiveModel(self._store, self._encoder)
        profile = _with_available_retrievers(wanted, model, request)
        return SearchContext(
            store=self._store,
            request=request,
            query=self._query(text, profile, request),
            profile=profile,
            model=model,
            query_encoder=lambda: self._query_encoder,
            now=self.now(),
        )

    def _locate(self, response: Response, request: SearchRequest) -> Response:
        """The response with the files of its hits and, if requested, their texts; and with the
        problems of the store's state."""
        if degraded := self._store.degraded():
            response = replace(response, degraded=(*response.degraded, *degraded))
        if not (request.snippets and response.hits):
            return response
        form, text = self._config.open.links, request.include_text
        hits = locate_hits(response.hits, self._store, form, include_text=text)
        return replace(response, hits=hits)

    def highlights(self, query: str, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """The highlights in several texts (see `KnowledgeBase.highlights`)."""
        with self.deadline():
            analysis = analyze(check_text("a query", query))
            checked = (check_text("a text", text) for text in texts)
            return [merge_ranges(match_ranges(text, analysis)) for text in checked]

    def deadline(self) -> Deadline:
        """The configured deadline of one search or read."""
        return Deadline(self._config.search.timeout_s or None, setting="search.timeout_s")

    def load(self) -> None:
        """Load the encoder's model, if there is one. The next search reports any error."""
        with suppress(Exception):
            self._query_encoder.load()

    @repeat_if_lost
    def status(self) -> RetrieverStatus:
        """The status of dense retrieval, for `kb status`."""
        with self._store.snapshot():
            return ActiveModel(self._store, self._encoder).status("dense")

    def now(self) -> str:
        """The current time, as the store writes it."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))

    # --- building the pipeline --------------------------------------------------------------------

    def _query(self, text: str, profile: Profile, request: SearchRequest) -> Query:
        tops = (request.top, profile.top, self._config.search.default_top)
        top = next(value for value in tops if value is not None)
        threshold = profile.threshold if request.threshold is None else request.threshold
        min_relevance = profile.min_relevance
        if request.min_relevance is not None:
            min_relevance = request.min_relevance
        return Query(
            text=text,
            top=check_integer("top", top, least=1),
            profile=profile.name,
            mode=profile.mode,
            match=check_choice("match", request.match or profile.match, MATCHES),
            filters=request.filters or Filters(),
            threshold=threshold,
            min_relevance=min_relevance,
            explain=request.explain,
        )

    def _pipeline(self, context: SearchContext, rerank: RerankStage | None) -> Pipeline:
        profile, query, request = context.profile, context.query, context.request
        retrievers = tuple(registry.get(name).create(context) for name in profile.retrievers)
        collapse = _collapse(profile, request)
        reorders = (
            len(retrievers) > 1
            or profile.boosts
            or profile.group
            or profile.literal
            or collapse is not None
            or rerank is not None
        )
        candidates = profile.candidates_for(query.top) if reorders else query.top
        if rerank is not None:  # it reads the same candidates for any number of hits
            candidates = max(candidates, rerank.candidates)
        weights = {name: profile.weight(name) for name in profile.retrievers}
        return Pipeline(
            store=self._store,
            retrievers=retrievers,
            candidates=candidates + len(request.exclude),
            fusion_stage=FusionStage(
                profile.as_fusion(),
                # Includes the weights of retrievers that cannot run: see `agreement`.
                {**profile.weights, **weights},
                profile.complete,
                profile.min_score,
                profile.adaptive,
                profile.agreement,
                profile.literal,
                profile.coverage,
                profile.calibrated,
                profile.word_match,
            ),
            boosts=profile.as_boosts(),
            cut=Cut(query.top, query.threshold, profile.group, request.exclude),
            snippet_chars=self._config.search.snippet_chars if request.snippets else 0,
            slow_ms=self._config.search.slow_ms,
            parallel=self._parallel(retrievers) if len(retrievers) > 1 else None,
            rerank=rerank,
            similarity=_similarity(context),
            readability=_readability(context),
            collapse=collapse,
            on_pending=self._on_pending,
        )

    def _parallel(self, retrievers: Sequence[Retriever]) -> ParallelRetrieval | None:
        """Run the retrievers in threads if one of them is slow. There is no timeout while the model
        is not loaded: loading may take a long time, and happens once."""
        if not any(retriever.is_slow for retriever in retrievers):
            return None
        with self._lock:
            if self._pool is None:
                from kb.search.retrievers.thread_pool import ThreadPool

                self._pool = ThreadPool()
            timeout_s = self._timeout_s if self._query_encoder.warm else None
            return ParallelRetrieval(self._pool, timeout_s)


def _readability(context: SearchContext) -> Readability | None:
    """The scripts that the model reads; None for a lexical search, which does not load the
    module."""
    if context.profile.retrievers == (LEXICAL,):
        return None
    from kb.search.retrievers.readability import readability

    return readability(context)


def _with_available_retrievers(
    profile: Profile, model: ActiveModel, request: SearchRequest
) -> Profile:
    """Leave out retrievers whose model the user disabled, or whose output the model does not have;
    but report missing outputs if the request names the profile. Without lexical retrieval nothing
    is left out: then the retrievers themselves report why they cannot run."""
    if LEXICAL not in profile.retrievers:
        return profile
    named = request.profile is not None
    kept = []
    for name in profile.retrievers:
        output = registry.get(name).model_output
        if output is not None:
            has_vector = output == "dense" and request.vector is not None
            status = model.status(output, has_vector=has_vector)
            if status.is_off or (status.is_unsupported and not named):
                continue
        kept.append(name)
    return replace(profile, retrievers=tuple(kept))


def _similarity(context: SearchContext) -> TokenSimilarity | None:
    """The function that compares sentences with the query; None if the store has no token
    vectors."""
    if not context.reads_tokens:
        return None
    from kb.search.results.token_similarity import PassageSimilarity

    return PassageSimilarity(context)


def _collapse(profile: Profile, request: SearchRequest) -> Collapse | None:
    """The stage that collapses duplicates. With one hit per document, there is nothing to limit."""
    per_document = 0 if profile.group else profile.per_document
    if request.collapse is False or not (profile.collapse or per_document):
        return None
    from kb.search.results.collapse import Collapse

    return Collapse(profile.collapse, per_document)


def _query_text(value: object) -> str:
    """Check the query. A lone surrogate matches nothing, but is not an error."""
    if isinstance(value, str) and not is_unicode(value):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return check_text("a query", value)


def _check(filters: object, threshold: object, min_relevance: object) -> None:
    if filters is not None and not isinstance(filters, Filters):
        raise InvalidRequest(f"filters has type {type(filters).__name__}", "give kb.Filters(...)")
    for name, value in (("threshold", threshold), ("min_relevance", min_relevance)):
        if isinstance(value, str):
            raise InvalidRequest(f"{name} cannot be {value!r}", f"{name} is a number")
    if threshold is not None:
        read_number("threshold", threshold)
    read_probability("min_relevance", min_relevance)


def _budget(value: int | None) -> int | None:
    return None if value is None else check_integer("budget_ms", value, least=1)
