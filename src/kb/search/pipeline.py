"""The pipeline: the stages of a search as a value, and the run of a query through them.

    query -> analyze -> retrieve -> fuse -> literal -> boost -> rerank -> collapse -> cut -> hits

All stages read one state of the store, and none writes.

The number of fused candidates does not depend on the number of hits, because normalized scores
depend on all candidates. If there are too few candidates, every retriever is queried for more; new
candidates are fused separately and appended. So a longer list of hits starts with the shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import islice

from kb.logs import logger, logging_is_loaded
from kb.search.query.analysis import Analysis, analyze
from kb.search.ranking.adaptive import QueryWeights, adapt_weights
from kb.search.ranking.agreement import FIRST, weigh_by_agreement
from kb.search.ranking.boosts import Boosts, apply_boosts
from kb.search.ranking.coverage import weigh_by_coverage
from kb.search.ranking.fusion import Fusion, RankedList
from kb.search.ranking.literal import NAMES, Evidence, add_runs, put_first
from kb.search.ranking.word_match import weigh_by_word_match
from kb.search.rerank.blend import RerankResult
from kb.search.results.hits import (
    CandidateCache,
    ScoreBreakdown,
    cap_scores,
    make_hits,
    make_snippets,
)
from kb.search.results.signals import RelevanceLimits, SignalSource, match_of
from kb.search.results.trace import Trace
from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates, RetrievalRequest, Retriever
from kb.search.retrievers.lexical import find_literal
from kb.search.retrievers.registry import LEXICAL
from kb.search.retrievers.retrieval import ParallelRetrieval, retrieve
from kb.text.scripts import is_cjk
from kb.types import Degraded, Hit, Query, Response, ScoredChunk
from kb.values import TYPE_CHECKING, Any, dataclass, replace

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.rerank.stage import RerankStage
    from kb.search.results.collapse import Collapse
    from kb.search.results.hits import TokenSimilarity
    from kb.search.retrievers.readability import Readability

_DEPTH_FACTOR = 4  # how many times more candidates the next retrieval returns
_MAX_DEPTH = 4096  # the limit if one document fills the list
_MIN_DEPTH = 100  # candidates to examine before `min_relevance` may leave the list short
_READ_CHUNKS = 16  # read at a time to estimate their relevance


@dataclass(frozen=True, slots=True)
class Cut:
    """The last stage: drops hits below the threshold, chunks to exclude, and all but `top` hits.
    With `group`, a document has only one hit."""

    top: int
    threshold: float | None = None
    group: bool = False
    exclude: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        parts = [f"top={self.top}"]
        if self.threshold is not None:
            parts.append(f"threshold={self.threshold:g}")
        return f"cut({', '.join(parts + ['one per document'] * self.group)})"

    def __call__(
        self,
        ranked: Sequence[ScoredChunk],
        cache: CandidateCache,
        keep: Callable[[Sequence[ScoredChunk]], Iterable[ScoredChunk]] = iter,
    ) -> tuple[ScoredChunk, ...]:
        """The hits. `keep` may drop further candidates before the list is cut, so that the next
        ones take their places."""
        kept = keep(self.drop(ranked))
        return tuple(islice(_best_per_document(kept, cache) if self.group else kept, self.top))

    def drop(self, ranked: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """Drop hits below the threshold and chunks to exclude."""
        return [one for one in at_least(ranked, self.threshold) if one.chunk_id not in self.exclude]


@dataclass(frozen=True, slots=True)
class FusionStage:
    """The fusion of a profile: the method, the weights, and the minimum score to keep."""

    fusion: Fusion
    weights: Mapping[str, float]
    complete: bool = False
    min_score: float | None = None
    adaptive: bool = False
    agreement: bool = False
    literal: bool = False
    coverage: bool = False
    calibrated: bool = False
    word_match: bool = False

    def query_weights(
        self, analysis: Analysis, candidates: Mapping[str, Candidates], *, code: bool = False
    ) -> QueryWeights:
        """The weights of the retrievers for this query. Retrievers that did not run have none.
        `code` is whether the nearest passages are code."""
        text, query_weights = analysis.text, QueryWeights(self.weights)
        ran = [name for name, each in candidates.items() if each.ran]
        if self.adaptive:
            query_weights = adapt_weights(text, {name: self.weights.get(name, 1.0) for name in ran})
        if self.agreement:
            first_ids = {name: _first_ids(candidates[name]) for name in ran}
            agreement = weigh_by_agreement(query_weights.weights, first_ids, cjk=is_cjk(text))
            rules = (*query_weights.rules, *agreement.rules)
            query_weights = QueryWeights(agreement.weights, rules)
        if self.word_match and len(ran) > 1:
            if code:
                from kb.search.ranking.code import weigh_for_code  # rarely needed

                word_match = weigh_for_code(query_weights.weights)
            else:
                word_match = _by_word_match(
                    query_weights.weights, analysis, candidates.get(LEXICAL)
                )
            rules = (*query_weights.rules, *word_match.rules)
            query_weights = QueryWeights(word_match.weights, rules)
        return query_weights

    def lists(
        self, candidates: Mapping[str, Candidates], full: Set[str], weights: Mapping[str, float]
    ) -> list[RankedList]:
        """The lists to fuse. `full` names the retrievers whose lists were cut at the limit."""
        return [
            RankedList(
                name,
                each.ranked,
                weights.get(name, 1.0),
                absent=absence(name, cut=name in full),
                ran=each.ran,
            )
            for name, each in candidates.items()
        ]


def absence(retriever: str, *, cut: bool) -> str:
    """The score of a chunk that is missing from a list (see `RankedList`)."""
    spec = registry.get(retriever)
    return "half" if cut and spec.absence == "zero" else spec.absence


def _first_ids(candidates: Candidates) -> list[int]:
    return [one.chunk_id for one in candidates.ranked[:FIRST]]


def _by_word_match(
    weights: Mapping[str, float], analysis: Analysis, lexical: Candidates | None
) -> QueryWeights:
    """The weights for how well the first passage by words matches; unchanged if that is unknown."""
    if lexical is None or not lexical.ranked:
        return QueryWeights(weights)
    share = match_of(analysis, lexical, lexical.ranked[0].score)
    return weigh_by_word_match(weights, share, len({word[0] for word in analysis.content.words}))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a search. Its `repr` shows them in order."""

    store: Store
    retrievers: tuple[Retriever, ...]
    candidates: int
    fusion_stage: FusionStage
    boosts: Boosts
    cut: Cut
    snippet_chars: int
    slow_ms: int
    parallel: ParallelRetrieval | None = None
    rerank: RerankStage | None = None
    similarity: TokenSimilarity | None = None
    readability: Readability | None = None
    collapse: Collapse | None = None
    on_pending: Callable[[Iterable[int]], object] | None = None

    def __repr__(self) -> str:
        retrievers = " | ".join(map(repr, self.retrievers))
        stages = [retrievers if len(self.retrievers) == 1 else f"[{retrievers}]"]
        if len(self.retrievers) > 1:
            stages += ["adaptive weights"] * self.fusion_stage.adaptive
            stages += ["agreement"] * self.fusion_stage.agreement
            stages += ["word match"] * self.fusion_stage.word_match
            stages += ["coverage"] * self.fusion_stage.coverage
            stages.append(repr(self.fusion_stage.fusion))
        stages += ["literal first"] * self.fusion_stage.literal
        if self.fusion_stage.min_score is not None:
            stages.append(f"at least {self.fusion_stage.min_score:g}")
        if self.boosts:
            stages.append(repr(self.boosts))
        if self.rerank is not None:
            stages.append(repr(self.rerank))
        if self.collapse is not None:
            stages.append(repr(self.collapse))
        return " -> ".join(["analyse", *stages, repr(self.cut)])

    def run(self, query: Query, now: str) -> Response:
        """Run a query through all stages."""
        trace = Trace()
        with self.store.snapshot():
            with trace.stage("analyse") as facts:
                analysis = analyze(query.text)
                facts.update(_terms(analysis))
            run = PipelineRun(self, query, analysis, now, trace)
            ranked = run.ranked()
            with trace.stage("hits") as facts:
                run.cache.fetch_chunks(run.shown(ranked))
                signals = run.signals()
                snippets = make_snippets(
                    ranked, run.cache, analysis, self.snippet_chars, self.similarity
                )
                hits = make_hits(ranked, run.breakdown, run.cache, snippets, signals.relevance)
                hits = run.annotate(hits)
                hits = run.rerank_result.annotate(hits)
                facts["returned"] = len(hits)
            index_version = self._index_version()
        if self.on_pending is not None:
            self.on_pending(run.breakdown.to_embed())
        response = Response(
            query=query.text,
            profile=query.profile,
            mode=query.mode,
            hits=hits,
            degraded=(*self._query_degraded(analysis), *run.degraded()),
            timing_ms=trace.timing_ms(),
            index_version=index_version,
            explain=run.explain(hits, signals) if query.explain else None,
        )
        self._log(response)
        return response

    def _index_version(self) -> str:
        """The versions of all indexes that this search reads. Retrievers may share an index."""
        functions = (registry.get(each.name).index_version for each in self.retrievers)
        return "+".join(function(self.store) for function in dict.fromkeys(functions))

    def _query_degraded(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """The problems of the query's analysis; none without a lexical retriever, because omitted
        terms matter to no other."""
        lexical = any(retriever.name == LEXICAL for retriever in self.retrievers)
        return analysis.degraded if lexical else ()

    def _log(self, response: Response) -> None:
        total = response.timing_ms["total"]
        if not (logging_is_loaded() or total > self.slow_ms or response.degraded):
            return
        log = logger("kb.search")
        log.info("search took %.1f ms: %s", total, dict(response.timing_ms))
        if total > self.slow_ms:
            log.warning("slow search, %.0f ms: %r", total, response.query[:1000])
        for part in response.degraded:
            log.warning("search degraded: %s %s (%s)", part.part, part.reason, part.detail)


class PipelineRun:
    """The run of one query through a pipeline."""

    def __init__(
        self, pipeline: Pipeline, query: Query, analysis: Analysis, now: str, trace: Trace
    ) -> None:
        self._pipeline = pipeline
        self._query = query
        self._analysis = analysis
        self._now = now
        self._trace = trace
        self.cache = CandidateCache(pipeline.store)
        self.breakdown = ScoreBreakdown.of({}, (), "fused")
        self._lists: list[RankedList] = []
        self._unavailable: dict[str, Candidates] = {}  # retrievers that failed: not run again
        self._unreadable: set[int] = set()  # chunks that the model cannot read
        self._factors: dict[int, dict[str, float]] = {}
        self._signals: SignalSource | None = None
        self.rerank_result = RerankResult(())
        self._evidence: dict[int, Evidence] = {}
        self._code: bool | None = None  # whether the nearest passages are code; None: not read yet
        collapse = pipeline.collapse
        self._collapsed = None if collapse is None else collapse.start(analysis)

    def ranked(self) -> tuple[ScoredChunk, ...]:
        """The chunks to return. If there are too few, retrieves more candidates."""
        cut, limit = self._pipeline.cut, self._pipeline.candidates
        ranked: list[ScoredChunk] = []
        while True:
            candidates = self._retrieve(limit)
            fused = self._boost(self._fuse(self._new(candidates), candidates, limit))
            batch = self._append(ranked, fused) if ranked else self._first(fused)
            ranked += batch
            kept = cut(self._collapse(ranked, batch), self.cache, self._relevant)
            full = any(len(each.ranked) >= limit for each in candidates.values())
            if not full or self._enough(kept, limit):
                return kept
            limit *= _DEPTH_FACTOR

    def _first(self, fused: list[ScoredChunk]) -> list[ScoredChunk]:
        """The first candidates in their final order. Literal matches come first, unless the order
        is that of the reranker alone. Without boosts and a reranker, they already are first."""
        ranked, rerank = self._rerank(fused), self._pipeline.rerank
        if not self._evidence or (rerank is not None and rerank.blend == 1.0):
            return ranked
        if rerank is None and not self._pipeline.boosts:
            return ranked
        return put_first(ranked, self._evidence)

    def _relevant(self, ranked: Sequence[ScoredChunk]) -> Iterable[ScoredChunk]:
        """Drop irrelevant candidates, if the search has a minimum relevance. Reads no more texts
        than the hits need."""
        stage = self._pipeline.fusion_stage
        least = stage.min_score if stage.calibrated else None
        limits = RelevanceLimits(self._query.min_relevance, least)
        if not limits:
            yield from ranked
            return
        signals = self.signals()
        for start in range(0, len(ranked), _READ_CHUNKS):
            batch = ranked[start : start + _READ_CHUNKS]
            self.cache.fetch_chunks([one.chunk_id for one in batch])
            for one in batch:
                if limits.allow(signals, one.chunk_id):
                    yield one

    def _enough(self, kept: Sequence[ScoredChunk], limit: int) -> bool:
        """Whether there are enough candidates, so that more could not add hits. Hits below the
        threshold are not replaced; hits of the same document are."""
        cut = self._pipeline.cut
        if self._query.min_relevance is not None and len(kept) < cut.top and limit < _MIN_DEPTH:
            return False
        if cut.group:
            return len(kept) >= cut.top or limit >= max(_MAX_DEPTH, cut.top)
        dropped = len(cut.exclude) + (0 if self._collapsed is None else self._collapsed.count)
        return len(self.breakdown.fused) >= cut.top + dropped

    def _new(self, candidates: Mapping[str, Candidates]) -> dict[str, Candidates]:
        """The candidates without those that were fused before."""
        seen = self.breakdown.fused
        if not seen:
            return dict(candidates)
        return {
            name: replace(
                each, ranked=tuple(one for one in each.ranked if one.chunk_id not in seen)
            )
            for name, each in candidates.items()
        }

    def _retrieve(self, limit: int) -> dict[str, Candidates]:
        """The candidates of all retrievers, without chunks that the model cannot read."""
        readability = self._pipeline.readability
        if readability is None:
            return self._run_retrievers(limit)
        candidates, unreadable = readability.retrieve(
            self._run_retrievers, limit, self._pipeline.store
        )
        self._unreadable |= unreadable
        return candidates

    def _run_retrievers(self, limit: int) -> dict[str, Candidates]:
        request = self._request(limit)
        pipeline = self._pipeline
        able = [each for each in pipeline.retrievers if each.name not in self._unavailable]
        candidates = retrieve(
            able, request, self._trace, store=pipeline.store, parallel=pipeline.parallel
        )
        self._unavailable |= {name: each for name, each in candidates.items() if not each.ran}
        every = self._unavailable | candidates
        return {each.name: every[each.name] for each in pipeline.retrievers}

    def _request(self, limit: int) -> RetrievalRequest:
        return RetrievalRequest(self._analysis, self._query.filters, self._now, limit)

    def _fuse(
        self, new: Mapping[str, Candidates], candidates: Mapping[str, Candidates], limit: int
    ) -> list[ScoredChunk]:
        """Fuse the candidates in `new`, with the weights that all `candidates` determine."""
        stage = self._pipeline.fusion_stage
        full = frozenset(name for name, each in candidates.items() if len(each.ranked) >= limit)
        code = self._finds_code(candidates)
        query_weights = stage.query_weights(self._analysis, candidates, code=code)
        lists = stage.lists(new, full, query_weights.weights)
        if len(new) == 1:
            fused = stage.fusion(lists)
        else:
            with self._trace.stage("fuse") as facts:
                lists = self._complete(lists, new)
                if stage.coverage:
                    lists, rules = weigh_by_coverage(lists, stage.weights)
                    query_weights = QueryWeights(
                        {one.name: one.weight for one in lists if one.ran},
                        (*query_weights.rules, *rules),
                    )
                fused = stage.fusion(lists)
                kind = stage.fusion.kind(lists)
                facts |= {"candidates": len(fused), "scale": kind, **query_weights.facts()}
        if stage.literal and not self._lists:
            fused = self._literal(fused, candidates, limit)
        fused = self.breakdown.cap_scores(fused)
        self.breakdown = self.breakdown.extend(new, fused, stage.fusion.kind(lists))
        self._lists += lists
        return at_least(fused, stage.min_score)

    def _finds_code(self, candidates: Mapping[str, Candidates]) -> bool:
        """Whether the nearest passages are code. Found once, with the first candidates."""
        if self._code is None and len(candidates) > 1 and self._pipeline.fusion_stage.word_match:
            from kb.search.retrievers.nearest_code import finds_code  # not for words alone

            self._code = finds_code(self._pipeline.store, candidates, self._analysis.text)
        return bool(self._code)

    def _literal(
        self, fused: list[ScoredChunk], candidates: Mapping[str, Candidates], limit: int
    ) -> list[ScoredChunk]:
        """Put passages that contain the query literally first. They are looked up once, with the
        first candidates."""
        lexical = candidates.get(LEXICAL)
        if lexical is None or not lexical.ran:
            return fused
        with self._trace.stage("literal") as facts:
            self._evidence = find_literal(
                self._pipeline.store,
                self._request(limit),
                lexical,
                [one.chunk_id for one in fused],
            )
            levels = [each.level for each in self._evidence.values()]
            facts.update({name: levels.count(level) for level, name in NAMES.items()})
        return put_first(add_runs(fused, self._evidence), self._evidence)

    def _complete(
        self, lists: Sequence[RankedList], candidates: Mapping[str, Candidates]
    ) -> list[RankedList]:
        """Complete each list with candidates that only other retrievers returned: with their
        scores, if the profile is `complete`, and with those that cannot be scored yet."""
        complete = self._pipeline.fusion_stage.complete
        chunk_ids = {one.chunk_id for ranked_list in lists for one in ranked_list.ranked}
        by_name = {retriever.name: retriever for retriever in self._pipeline.retrievers}
        completed = []
        for ranked_list in lists:
            others = chunk_ids - {one.chunk_id for one in ranked_list.ranked}
            retriever = by_name[ranked_list.name]
            unreadable = frozenset() if ranked_list.name == LEXICAL else self._unreadable
            if not ranked_list.ran or not others:
                pass
            elif complete:
                scores = retriever.scores(self._analysis, others)
                if scores is not None:
                    known = {key: scores[key] for key in scores if key not in unreadable}
                    ranked_list = replace(ranked_list, known=known, unknown=others - known.keys())
            elif candidates[ranked_list.name].partial:
                unknown = retriever.missing(others) | (others & unreadable)
                ranked_list = replace(ranked_list, unknown=unknown)
            completed.append(ranked_list)
        return completed

    def _boost(self, ranked: list[ScoredChunk]) -> list[ScoredChunk]:
        boosts, ids = self._pipeline.boosts, [one.chunk_id for one in ranked]
        if not boosts:
            if self._pipeline.cut.group:
                self.cache.fetch_owners(ids)
            return ranked
        with self._trace.stage("boost"):
            from datetime import date

            fields = self.cache.boost_fields(ids)
            today = date.fromisoformat(self._now[:10])
            self._factors |= {chunk_id: boosts.factors(fields[chunk_id], today) for chunk_id in ids}
            return apply_boosts(ranked, self._factors)

    def _rerank(self, ranked: list[ScoredChunk]) -> list[ScoredChunk]:
        """Rerank the first candidates, once. Later ones stay below them."""
        rerank = self._pipeline.rerank
        if rerank is None or not ranked:
            return ranked
        with self._trace.stage("rerank") as facts:
            facts["reranker"] = rerank.name
            self.rerank_result = rerank(
                self._analysis,
                ranked,
                self.cache,
                self._trace.elapsed_ms,
                facts,
                self.breakdown.candidates,
            )
        return list(self.rerank_result.ranked)

    def _collapse(
        self, ranked: list[ScoredChunk], batch: Sequence[ScoredChunk]
    ) -> Sequence[ScoredChunk]:
        """The ranked list without duplicates. `batch` is its last part. Candidates that the cut
        drops are removed first, so that they neither represent their duplicates nor take places
        among the first hits."""
        if self._collapsed is None:
            return ranked
        cut = self._pipeline.cut
        with self._trace.stage("collapse") as facts:
            top = len(ranked) if cut.group else cut.top
            self._collapsed.add(cut.drop(batch), self.cache, top)
            facts["duplicates"] = self._collapsed.count
        return self._collapsed.ranked

    def shown(self, ranked: Sequence[ScoredChunk]) -> list[int]:
        """The chunks whose texts or citations the hits show."""
        shown = [one.chunk_id for one in ranked]
        return shown if self._collapsed is None else self._collapsed.with_duplicates(shown)

    def annotate(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Hits with their duplicates."""
        return hits if self._collapsed is None else self._collapsed.annotate(hits, self.cache)

    def _append(
        self, first: Sequence[ScoredChunk], later: Sequence[ScoredChunk]
    ) -> list[ScoredChunk]:
        """Later candidates, with scores that do not exceed the last of `first`."""
        reranked = self.rerank_result.append(first, later)
        return cap_scores(later, first[-1].score) if reranked is None else reranked

    def signals(self) -> SignalSource:
        """The signals of the candidates so far, from the lists of the retrievers."""
        if self._signals is None or self._signals.breakdown is not self.breakdown:
            self._signals = self._new_signals()
        return self._signals

    def _new_signals(self) -> SignalSource:
        dense = (one for one in self._lists if one.name == "dense")
        pending = frozenset(chunk_id for one in dense for chunk_id in one.unknown)
        return SignalSource(
            self.breakdown, self.cache, self._analysis, self._pipeline.candidates, pending
        )

    def degraded(self) -> tuple[Degraded, ...]:
        """The problems of all stages. A truncated query is reported once, because it is the same
        for every output of the model."""
        parts = [part for each in self.breakdown.candidates.values() for part in each.degraded]
        truncated = [part for part in parts if part.reason == "truncated"]
        return (
            *(part for part in parts if part not in truncated[1:]),
            *self.rerank_result.degraded,
        )

    def explain(self, hits: Sequence[Hit], signals: SignalSource) -> dict[str, Any]:
        """The explanation of the response, as JSON."""
        known: dict[str, dict[int, float]] = {}
        for ranked_list in self._lists:
            if ranked_list.ran:
                known.setdefault(ranked_list.name, {}).update(ranked_list.scores())
        if self.rerank_result.scores:
            known["rerank"] = dict(self.rerank_result.scores)
        return {
            "profile": self._query.profile,
            "pipeline": repr(self._pipeline),
            "stages": self._trace.explain(),
            "hits": [
                {
                    "chunk_id": one.chunk_id,
                    "scores": {name: scores[one.chunk_id] for name, scores in known.items()
                               if one.chunk_id in scores},
                    "factors": self._factors.get(one.chunk_id, {}),
                    **self._literal_facts(one.chunk_id),
                    "signals": signals.of(one.chunk_id).facts(),
                }
                for one in hits
            ],
        }  # fmt: skip

    def _literal_facts(self, chunk_id: int) -> dict[str, Any]:
        """Why a hit was moved up, if it was."""
        evidence = self._evidence.get(chunk_id)
        return {} if evidence is None else {"literal": NAMES[evidence.level]}


def at_least(ranked: Sequence[ScoredChunk], least: float | None) -> list[ScoredChunk]:
    """The chunks with at least this score."""
    return list(ranked) if least is None else [one for one in ranked if one.score >= least]


def _best_per_document(
    ranked: Iterable[ScoredChunk], cache: CandidateCache
) -> Iterable[ScoredChunk]:
    seen: set[int] = set()
    for one in ranked:
        if (document := cache.owner(one.chunk_id)) not in seen:
            seen.add(document)
            yield one


def _terms(analysis: Analysis) -> dict[str, Any]:
    if analysis.expression is not None:
        return {"expression": analysis.expression}
    words = [word[0] for word in analysis.lexical.words]
    return {"words": words, "runs": list(analysis.lexical.runs)}
