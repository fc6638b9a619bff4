"""The pipeline: a value made from a profile, and the walk of a query through it.

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
from kb.search.query.analysis import Analysis, analyse
from kb.search.ranking.adaptive import Adapted, adapted
from kb.search.ranking.agreement import FIRST, agreed
from kb.search.ranking.boosts import Boosts, boosted
from kb.search.ranking.fusion import Fusion, Listed
from kb.search.rerank.result import Reranked
from kb.search.results.hits import Evidence, Shelf, lowered, make_hits
from kb.search.results.trace import Trace
from kb.search.retrievers.base import Found, Retriever
from kb.search.retrievers.retrieval import Asked, SideBySide, retrieve
from kb.text.scripts import is_cjk
from kb.types import Degraded, Query, Response, Scored

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.rerank.stage import Rerank

_DEEPER = 4  # how much further is looked where the candidates are too few
_DEEPEST = 4096  # where one document fills the list


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

    def __call__(self, ranked: Sequence[Scored], shelf: Shelf) -> tuple[Scored, ...]:
        kept = [one for one in above(ranked, self.threshold) if one.chunk_id not in self.exclude]
        return tuple(_best_of_each(kept, shelf) if self.group else kept)[: self.top]


@dataclass(frozen=True, slots=True)
class Merge:
    """The fuse stage: how, with which weights, and what is cut before any boost."""

    fusion: Fusion
    weights: Mapping[str, float]
    complete: bool = False
    min_score: float | None = None
    adaptive: bool = False
    agreement: bool = False

    def weighed(self, text: str, found: Mapping[str, Found]) -> Adapted:
        """What each retriever counts for this query. Those that did not answer leave their share
        to the others."""
        weighed = Adapted(self.weights)
        ran = [name for name, each in found.items() if each.ran]
        if self.adaptive:
            weighed = adapted(text, {name: self.weights.get(name, 1.0) for name in ran})
        if self.agreement:
            firsts = {name: _firsts(found[name]) for name in ran}
            told = agreed(weighed.weights, firsts, cjk=is_cjk(text))
            weighed = Adapted(told.weights, (*weighed.rules, *told.rules))
        return weighed

    def lists(
        self, found: Mapping[str, Found], full: Set[str], weights: Mapping[str, float]
    ) -> list[Listed]:
        """`full` are the retrievers whose lists were cut: they would have gone on."""
        return [
            Listed(
                name,
                each.ranked,
                weights.get(name, 1.0),
                absent=_absent(name, cut=name in full),
                ran=each.ran,
            )
            for name, each in found.items()
        ]


def _firsts(found: Found) -> list[int]:
    return [one.chunk_id for one in found.ranked[:FIRST]]


def _absent(retriever: str, *, cut: bool) -> str:
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
    merge: Merge
    boosts: Boosts
    cut: Cut
    snippet_chars: int
    slow_ms: int
    beside: SideBySide | None = None
    rerank: Rerank | None = None

    def __repr__(self) -> str:
        retrievers = " | ".join(map(repr, self.retrievers))
        stages = [retrievers if len(self.retrievers) == 1 else f"[{retrievers}]"]
        if len(self.retrievers) > 1:
            stages += ["adaptive weights"] * self.merge.adaptive
            stages += ["agreement"] * self.merge.agreement
            stages.append(repr(self.merge.fusion))
        if self.merge.min_score is not None:
            stages.append(f"at least {self.merge.min_score:g}")
        if self.boosts:
            stages.append(repr(self.boosts))
        if self.rerank is not None:
            stages.append(repr(self.rerank))
        return " -> ".join(["analyse", *stages, repr(self.cut)])

    def run(self, query: Query, now: str) -> Response:
        trace = Trace()
        with self.store.reading():
            with trace.stage("analyse") as facts:
                analysis = analyse(query.text, self.store.tokenise)
                facts.update(_terms(analysis))
            walk = _Walk(self, query, analysis, now, trace)
            ranked = walk.ranked()
            with trace.stage("hits") as facts:
                hits = make_hits(ranked, walk.evidence, walk.shelf, analysis, self.snippet_chars)
                hits = walk.reranked.marked(hits)
                facts["returned"] = len(hits)
            # Dense and sparse vectors have one version: they are written together.
            versions = {each.name == "lexical": each.index_version() for each in self.retrievers}
        response = Response(
            query=query.text,
            profile=query.profile,
            mode=query.mode,
            hits=hits,
            degraded=(*self._query_degraded(analysis), *walk.degraded()),
            timing_ms=trace.timing_ms(),
            index_version="+".join(versions.values()),
            explain=walk.explain(ranked) if query.explain else None,
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


class _Walk:
    """One query on its way through a pipeline."""

    def __init__(
        self, pipeline: Pipeline, query: Query, analysis: Analysis, now: str, trace: Trace
    ) -> None:
        self._pipeline = pipeline
        self._query = query
        self._analysis = analysis
        self._now = now
        self._trace = trace
        self.shelf = Shelf(pipeline.store)
        self.evidence = Evidence.of({}, (), "fused")
        self._lists: list[Listed] = []
        self._out: dict[str, Found] = {}  # retrievers that could not answer: asked once
        self._factors: dict[int, dict[str, float]] = {}
        self.reranked = Reranked(())

    def ranked(self) -> tuple[Scored, ...]:
        """The chunks to return. Where there are too few of them, it is looked further down."""
        cut, limit = self._pipeline.cut, self._pipeline.candidates
        ranked: list[Scored] = []
        while True:
            found = self._retrieve(limit)
            fresh = self._boost(self._fuse(self._fresh(found), found, limit))
            ranked += self._after(ranked, fresh) if ranked else self._rerank(fresh)
            kept = cut(ranked, self.shelf)
            full = any(len(each.ranked) >= limit for each in found.values())
            if not full or self._enough(kept, limit):
                return kept
            limit *= _DEEPER

    def _enough(self, kept: Sequence[Scored], limit: int) -> bool:
        """Fewer than were asked for are enough where the others are not good enough; but not where
        others of the same document stand in their place."""
        cut = self._pipeline.cut
        if cut.group:
            return len(kept) >= cut.top or limit >= max(_DEEPEST, cut.top)
        return len(self.evidence.fused) >= cut.top + len(cut.exclude)

    def _fresh(self, found: Mapping[str, Found]) -> dict[str, Found]:
        """What was found without what was found before."""
        seen = self.evidence.fused
        if not seen:
            return dict(found)
        return {
            name: replace(
                each, ranked=tuple(one for one in each.ranked if one.chunk_id not in seen)
            )
            for name, each in found.items()
        }

    def _retrieve(self, limit: int) -> dict[str, Found]:
        asked = Asked(self._analysis, self._query.filters, self._now, limit)
        pipeline = self._pipeline
        able = [each for each in pipeline.retrievers if each.name not in self._out]
        found = retrieve(able, asked, self._trace, store=pipeline.store, beside=pipeline.beside)
        self._out |= {name: each for name, each in found.items() if not each.ran}
        every = self._out | found
        return {each.name: every[each.name] for each in pipeline.retrievers}

    def _fuse(
        self, fresh: Mapping[str, Found], found: Mapping[str, Found], limit: int
    ) -> list[Scored]:
        """One list of what is `fresh` of what was `found`."""
        merge = self._pipeline.merge
        full = frozenset(name for name, each in found.items() if len(each.ranked) >= limit)
        weighed = merge.weighed(self._analysis.text, found)
        lists = merge.lists(fresh, full, weighed.weights)
        if len(fresh) == 1:
            fused = merge.fusion(lists)
        else:
            with self._trace.stage("fuse") as facts:
                lists = self._completed(lists, fresh)
                fused = merge.fusion(lists)
                kind = merge.fusion.kind(lists)
                facts |= {"candidates": len(fused), "scale": kind, **weighed.facts()}
        fused = self.evidence.lowered(fused)
        self.evidence = self.evidence.joined(fresh, fused, merge.fusion.kind(lists))
        self._lists += lists
        return above(fused, merge.min_score)

    def _completed(self, lists: Sequence[Listed], found: Mapping[str, Found]) -> list[Listed]:
        """Each list with what its retriever can tell of candidates that only others found: their
        scores, if the profile wants them, and those that can have none yet."""
        complete = self._pipeline.merge.complete
        everything = {one.chunk_id for listed in lists for one in listed.ranked}
        by_name = {retriever.name: retriever for retriever in self._pipeline.retrievers}
        told = []
        for listed in lists:
            others = everything - {one.chunk_id for one in listed.ranked}
            scores = None
            if listed.ran and others and (complete or found[listed.name].partial):
                scores = by_name[listed.name].scores(self._analysis, others)
            if scores is not None:
                unknown = others - scores.keys()
                listed = replace(listed, known=scores if complete else {}, unknown=unknown)
            told.append(listed)
        return told

    def _boost(self, ranked: list[Scored]) -> list[Scored]:
        boosts, ids = self._pipeline.boosts, [one.chunk_id for one in ranked]
        if self._pipeline.cut.group or boosts:
            self.shelf.find_owners(ids)
        if not boosts:
            return ranked
        with self._trace.stage("boost"):
            self.shelf.fetch_documents(ids)
            today = date.fromisoformat(self._now[:10])
            self._factors |= {
                one.chunk_id: boosts.factors(self.shelf.document(one.chunk_id), today)
                for one in ranked
            }
            return boosted(ranked, self._factors)

    def _rerank(self, ranked: list[Scored]) -> list[Scored]:
        """Once, and of the first that are found: what comes later stays below them."""
        rerank = self._pipeline.rerank
        if rerank is None or not ranked:
            return ranked
        with self._trace.stage("rerank") as facts:
            facts["reranker"] = rerank.name
            self.reranked = rerank(
                self._analysis, ranked, self.shelf, self._trace.elapsed_ms, facts
            )
        return list(self.reranked.ranked)

    def _after(self, first: Sequence[Scored], later: Sequence[Scored]) -> list[Scored]:
        """What is found later, with scores that do not rise above the last of `first`."""
        told = self.reranked.after(first, later)
        return lowered(later, first[-1].score) if told is None else told

    def degraded(self) -> tuple[Degraded, ...]:
        """What was cut off the query is the same for every part of a model, and told once."""
        told = [part for each in self.evidence.found.values() for part in each.degraded]
        cut = [part for part in told if part.reason == "truncated"]
        return (*(part for part in told if part not in cut[1:]), *self.reranked.degraded)

    def explain(self, ranked: Sequence[Scored]) -> dict[str, Any]:
        known: dict[str, dict[int, float]] = {}
        for listed in self._lists:
            if listed.ran:
                known.setdefault(listed.name, {}).update(listed.scores())
        if self.reranked.scores:
            known["rerank"] = dict(self.reranked.scores)
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


def above(ranked: Sequence[Scored], least: float | None) -> list[Scored]:
    return list(ranked) if least is None else [one for one in ranked if one.score >= least]


def _best_of_each(ranked: Sequence[Scored], shelf: Shelf) -> list[Scored]:
    """The first chunk of every document."""
    best: dict[int, Scored] = {}
    for one in ranked:
        best.setdefault(shelf.owner(one.chunk_id), one)
    return list(best.values())


def _terms(analysis: Analysis) -> dict[str, Any]:
    if analysis.expression is not None:
        return {"expression": analysis.expression}
    words = [word[0] for word in analysis.lexical.words]
    return {"words": words, "runs": list(analysis.lexical.runs)}
