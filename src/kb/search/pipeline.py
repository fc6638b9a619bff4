"""The pipeline: a value made from a profile, and the run of a query through it.

    query -> analyse -> retrieve -> fuse -> boost -> rerank -> cut -> hits

All of it reads one state of the store, and nothing of it writes.

What is fused are always the same candidates, however many hits are asked for: normalised scores
depend on all of them. Where they are too few, each retriever is asked for more, and what is new is
fused by itself and comes after. So a longer list only goes on where a shorter one ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from kb.logs import logger, logging_is_loaded
from kb.search.query.analysis import Analysis, analyze
from kb.search.ranking.adaptive import QueryWeights, adapt_weights
from kb.search.ranking.agreement import FIRST, weigh_by_agreement
from kb.search.ranking.boosts import Boosts, apply_boosts
from kb.search.ranking.fusion import Fusion, RankedList
from kb.search.rerank.result import RerankResult
from kb.search.results.hits import CandidateCache, ScoreBreakdown, cap_scores, make_hits
from kb.search.results.trace import Trace
from kb.search.retrievers.base import Candidates, Retriever
from kb.search.retrievers.retrieval import ParallelRetrieval, RetrievalRequest, retrieve
from kb.text.scripts import is_cjk
from kb.types import Degraded, Query, Response, ScoredChunk

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.rerank.stage import RerankStage

_DEPTH_FACTOR = 4  # how much further is looked where the candidates are too few
_MAX_DEPTH = 4096  # where one document fills the list


@dataclass(frozen=True, slots=True)
class Cut:
    """How many hits are returned, how good they must be, and what is not wanted. With `group`,
    one hit a document."""

    top: int
    threshold: float | None = None
    group: bool = False
    exclude: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        parts = [f"top={self.top}"]
        if self.threshold is not None:
            parts.append(f"threshold={self.threshold:g}")
        return f"cut({', '.join(parts + ['one a document'] * self.group)})"

    def __call__(
        self, ranked: Sequence[ScoredChunk], cache: CandidateCache
    ) -> tuple[ScoredChunk, ...]:
        kept = [one for one in at_least(ranked, self.threshold) if one.chunk_id not in self.exclude]
        return tuple(_best_per_document(kept, cache) if self.group else kept)[: self.top]


@dataclass(frozen=True, slots=True)
class FusionStage:
    """The fuse stage: how, with which weights, and what is cut before any boost."""

    fusion: Fusion
    weights: Mapping[str, float]
    complete: bool = False
    min_score: float | None = None
    adaptive: bool = False
    agreement: bool = False

    def query_weights(self, text: str, found: Mapping[str, Candidates]) -> QueryWeights:
        """What each retriever counts for this query. Those that did not answer leave their share
        to the others."""
        query_weights = QueryWeights(self.weights)
        ran = [name for name, each in found.items() if each.ran]
        if self.adaptive:
            query_weights = adapt_weights(text, {name: self.weights.get(name, 1.0) for name in ran})
        if self.agreement:
            firsts = {name: _first_ids(found[name]) for name in ran}
            told = weigh_by_agreement(query_weights.weights, firsts, cjk=is_cjk(text))
            query_weights = QueryWeights(told.weights, (*query_weights.rules, *told.rules))
        return query_weights

    def lists(
        self, found: Mapping[str, Candidates], full: Set[str], weights: Mapping[str, float]
    ) -> list[RankedList]:
        """`full` are the retrievers whose lists were cut: they would have gone on."""
        return [
            RankedList(
                name,
                each.ranked,
                weights.get(name, 1.0),
                absent=_absence(name, cut=name in full),
                ran=each.ran,
            )
            for name, each in found.items()
        ]


def _first_ids(found: Candidates) -> list[int]:
    return [one.chunk_id for one in found.ranked[:FIRST]]


def _absence(retriever: str, *, cut: bool) -> str:
    """What it means not to be in a list: no word of the query, or too few of them to be among the
    first; or just farther away than others."""
    if retriever == "dense":
        return "least"
    return "half" if cut else "zero"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of one kind of search. `repr` reads as the drawing above."""

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

    def __repr__(self) -> str:
        retrievers = " | ".join(map(repr, self.retrievers))
        stages = [retrievers if len(self.retrievers) == 1 else f"[{retrievers}]"]
        if len(self.retrievers) > 1:
            stages += ["adaptive weights"] * self.fusion_stage.adaptive
            stages += ["agreement"] * self.fusion_stage.agreement
            stages.append(repr(self.fusion_stage.fusion))
        if self.fusion_stage.min_score is not None:
            stages.append(f"at least {self.fusion_stage.min_score:g}")
        if self.boosts:
            stages.append(repr(self.boosts))
        if self.rerank is not None:
            stages.append(repr(self.rerank))
        return " -> ".join(["analyse", *stages, repr(self.cut)])

    def run(self, query: Query, now: str) -> Response:
        trace = Trace()
        with self.store.reading():
            with trace.stage("analyse") as facts:
                analysis = analyze(query.text)
                facts.update(_terms(analysis))
            run = PipelineRun(self, query, analysis, now, trace)
            ranked = run.ranked()
            with trace.stage("hits") as facts:
                hits = make_hits(ranked, run.breakdown, run.cache, analysis, self.snippet_chars)
                hits = run.rerank_result.marked(hits)
                facts["returned"] = len(hits)
            # Dense and sparse vectors have one version: they are written together.
            versions = {each.name == "lexical": each.index_version() for each in self.retrievers}
        response = Response(
            query=query.text,
            profile=query.profile,
            mode=query.mode,
            hits=hits,
            degraded=(*self._query_degraded(analysis), *run.degraded()),
            timing_ms=trace.timing_ms(),
            index_version="+".join(versions.values()),
            explain=run.explain(ranked) if query.explain else None,
        )
        self._log(response)
        return response

    def _query_degraded(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """Words that were left out are missed where words are looked for."""
        words = any(retriever.name == "lexical" for retriever in self.retrievers)
        return analysis.degraded if words else ()

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
    """One query on its way through a pipeline."""

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
        self._unavailable: dict[
            str, Candidates
        ] = {}  # retrievers that could not answer: asked once
        self._factors: dict[int, dict[str, float]] = {}
        self.rerank_result = RerankResult(())

    def ranked(self) -> tuple[ScoredChunk, ...]:
        """The chunks to return. Where there are too few of them, it is looked further down."""
        cut, limit = self._pipeline.cut, self._pipeline.candidates
        ranked: list[ScoredChunk] = []
        while True:
            found = self._retrieve(limit)
            fresh = self._boost(self._fuse(self._fresh(found), found, limit))
            ranked += self._after(ranked, fresh) if ranked else self._rerank(fresh)
            kept = cut(ranked, self.cache)
            full = any(len(each.ranked) >= limit for each in found.values())
            if not full or self._enough(kept, limit):
                return kept
            limit *= _DEPTH_FACTOR

    def _enough(self, kept: Sequence[ScoredChunk], limit: int) -> bool:
        """Fewer than were asked for are enough where the others are not good enough; but not where
        others of the same document stand in their place."""
        cut = self._pipeline.cut
        if cut.group:
            return len(kept) >= cut.top or limit >= max(_MAX_DEPTH, cut.top)
        return len(self.breakdown.fused) >= cut.top + len(cut.exclude)

    def _fresh(self, found: Mapping[str, Candidates]) -> dict[str, Candidates]:
        """What was found without what was found before."""
        seen = self.breakdown.fused
        if not seen:
            return dict(found)
        return {
            name: replace(
                each, ranked=tuple(one for one in each.ranked if one.chunk_id not in seen)
            )
            for name, each in found.items()
        }

    def _retrieve(self, limit: int) -> dict[str, Candidates]:
        asked = RetrievalRequest(self._analysis, self._query.filters, self._now, limit)
        pipeline = self._pipeline
        able = [each for each in pipeline.retrievers if each.name not in self._unavailable]
        found = retrieve(able, asked, self._trace, store=pipeline.store, parallel=pipeline.parallel)
        self._unavailable |= {name: each for name, each in found.items() if not each.ran}
        every = self._unavailable | found
        return {each.name: every[each.name] for each in pipeline.retrievers}

    def _fuse(
        self, fresh: Mapping[str, Candidates], found: Mapping[str, Candidates], limit: int
    ) -> list[ScoredChunk]:
        """One list of what is `fresh` of what was `found`."""
        fusion_stage = self._pipeline.fusion_stage
        full = frozenset(name for name, each in found.items() if len(each.ranked) >= limit)
        query_weights = fusion_stage.query_weights(self._analysis.text, found)
        lists = fusion_stage.lists(fresh, full, query_weights.weights)
        if len(fresh) == 1:
            fused = fusion_stage.fusion(lists)
        else:
            with self._trace.stage("fuse") as facts:
                lists = self._completed(lists, fresh)
                fused = fusion_stage.fusion(lists)
                kind = fusion_stage.fusion.kind(lists)
                facts |= {"candidates": len(fused), "scale": kind, **query_weights.facts()}
        fused = self.breakdown.cap_scores(fused)
        self.breakdown = self.breakdown.joined(fresh, fused, fusion_stage.fusion.kind(lists))
        self._lists += lists
        return at_least(fused, fusion_stage.min_score)

    def _completed(
        self, lists: Sequence[RankedList], found: Mapping[str, Candidates]
    ) -> list[RankedList]:
        """Each list with what its retriever can tell of candidates that only others found: their
        scores, if the profile wants them, and those that can have none yet."""
        complete = self._pipeline.fusion_stage.complete
        everything = {one.chunk_id for ranked_list in lists for one in ranked_list.ranked}
        by_name = {retriever.name: retriever for retriever in self._pipeline.retrievers}
        told = []
        for ranked_list in lists:
            others = everything - {one.chunk_id for one in ranked_list.ranked}
            scores = None
            if ranked_list.ran and others and (complete or found[ranked_list.name].partial):
                scores = by_name[ranked_list.name].scores(self._analysis, others)
            if scores is not None:
                unknown = others - scores.keys()
                ranked_list = replace(
                    ranked_list, known=scores if complete else {}, unknown=unknown
                )
            told.append(ranked_list)
        return told

    def _boost(self, ranked: list[ScoredChunk]) -> list[ScoredChunk]:
        boosts, ids = self._pipeline.boosts, [one.chunk_id for one in ranked]
        if self._pipeline.cut.group or boosts:
            self.cache.find_owners(ids)
        if not boosts:
            return ranked
        with self._trace.stage("boost"):
            self.cache.fetch_documents(ids)
            today = date.fromisoformat(self._now[:10])
            self._factors |= {
                one.chunk_id: boosts.factors(self.cache.document(one.chunk_id), today)
                for one in ranked
            }
            return apply_boosts(ranked, self._factors)

    def _rerank(self, ranked: list[ScoredChunk]) -> list[ScoredChunk]:
        """Once, and of the first that are found: what comes later stays below them."""
        rerank = self._pipeline.rerank
        if rerank is None or not ranked:
            return ranked
        with self._trace.stage("rerank") as facts:
            facts["reranker"] = rerank.name
            self.rerank_result = rerank(
                self._analysis, ranked, self.cache, self._trace.elapsed_ms, facts
            )
        return list(self.rerank_result.ranked)

    def _after(
        self, first: Sequence[ScoredChunk], later: Sequence[ScoredChunk]
    ) -> list[ScoredChunk]:
        """What is found later, with scores that do not rise above the last of `first`."""
        told = self.rerank_result.after(first, later)
        return cap_scores(later, first[-1].score) if told is None else told

    def degraded(self) -> tuple[Degraded, ...]:
        """What was cut off the query is the same for every part of a model, and told once."""
        told = [part for each in self.breakdown.found.values() for part in each.degraded]
        cut = [part for part in told if part.reason == "truncated"]
        return (*(part for part in told if part not in cut[1:]), *self.rerank_result.degraded)

    def explain(self, ranked: Sequence[ScoredChunk]) -> dict[str, Any]:
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
                }
                for one in ranked
            ],
        }  # fmt: skip


def at_least(ranked: Sequence[ScoredChunk], least: float | None) -> list[ScoredChunk]:
    return list(ranked) if least is None else [one for one in ranked if one.score >= least]


def _best_per_document(ranked: Sequence[ScoredChunk], cache: CandidateCache) -> list[ScoredChunk]:
    """The first chunk of every document."""
    best: dict[int, ScoredChunk] = {}
    for one in ranked:
        best.setdefault(cache.owner(one.chunk_id), one)
    return list(best.values())


def _terms(analysis: Analysis) -> dict[str, Any]:
    if analysis.expression is not None:
        return {"expression": analysis.expression}
    words = [word[0] for word in analysis.lexical.words]
    return {"words": words, "runs": list(analysis.lexical.runs)}
