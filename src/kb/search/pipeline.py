"""The pipeline: a value made from a profile, and the walk of a query through it.

    query -> analyse -> retrieve -> cut -> hits

All of it reads one state of the store, and nothing of it writes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb.citations import cite
from kb.ports import Store
from kb.search.analyse import Analysis, analyse
from kb.search.lexical import Found, LexicalRetriever
from kb.search.snippet import snippet, without_headings
from kb.search.trace import Trace
from kb.types import Hit, Query, Response, Retrieval, Scored, Span

log = logging.getLogger("kb.search")
logging.getLogger("kb").addHandler(logging.NullHandler())  # silent unless a program wants to hear


@dataclass(frozen=True, slots=True)
class Cut:
    """How many hits are returned, and how good they must be."""

    top: int
    threshold: float | None = None

    def __call__(self, ranked: Sequence[Scored]) -> tuple[Scored, ...]:
        least = float("-inf") if self.threshold is None else self.threshold
        return tuple(found for found in ranked if found.score >= least)[: self.top]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of one kind of search. `repr` reads as the drawing above."""

    store: Store
    retriever: LexicalRetriever
    cut: Cut
    snippet_chars: int
    slow_ms: int

    @classmethod
    def build(cls, query: Query, store: Store, *, snippet_chars: int, slow_ms: int) -> Pipeline:
        retriever = LexicalRetriever(store, match=query.match)
        return cls(store, retriever, Cut(query.top, query.threshold), snippet_chars, slow_ms)

    def __repr__(self) -> str:
        limits = f"top={self.cut.top}"
        if self.cut.threshold is not None:
            limits += f", threshold={self.cut.threshold}"
        return f"analyse -> {self.retriever!r} -> cut({limits})"

    def run(self, query: Query, now: str) -> Response:
        trace = Trace()
        with self.store.reading():
            with trace.stage("analyse") as facts:
                analysis = analyse(query.text, self.store.tokenise)
                facts.update(_terms(analysis))
            with trace.stage(self.retriever.name) as facts:
                found = self.retriever.search(analysis, query.filters, now, self.cut.top)
                facts.update(_facts(found))
            with trace.stage("hits") as facts:
                hits = self._hits(self.cut(found.ranked), analysis)
                facts["returned"] = len(hits)
            version = self.store.index_version()
        response = Response(
            query=query.text,
            profile=query.profile,
            mode=query.mode,
            hits=hits,
            degraded=(*analysis.degraded, *found.degraded),
            timing_ms=trace.timing_ms(),
            index_version=version,
            explain=self._explain(query, trace) if query.explain else None,
        )
        self._log(response)
        return response

    def _hits(self, ranked: Sequence[Scored], analysis: Analysis) -> tuple[Hit, ...]:
        chunks = self.store.chunks_by_id(found.chunk_id for found in ranked)
        documents = self.store.documents_by_id({chunk.doc_id for chunk in chunks.values()})
        hits = []
        for rank, found in enumerate(ranked, start=1):
            chunk = chunks[found.chunk_id]
            document = documents[chunk.doc_id]
            span = chunk.spans[0] if chunk.spans else Span("document")
            headed = document.type not in ("code", "note", "table")
            text = without_headings(chunk.text) if headed else chunk.text
            hits.append(
                Hit(
                    rank=rank,
                    score=found.score,
                    score_kind="bm25",
                    chunk_id=chunk.chunk_id,
                    doc_id=document.doc_id,
                    doc_path=document.doc_path,
                    title=document.title,
                    heading_path=chunk.heading_path,
                    section_label=chunk.section_label,
                    snippet=snippet(text, analysis, self.store.tokenise, self.snippet_chars)
                    if self.snippet_chars
                    else "",
                    citation=cite(document.doc_path, span, chunk.section_label),
                    retrieval=Retrieval(
                        method="lexical",
                        fusion_score=found.score,
                        lexical_score=found.score,
                        lexical_rank=found.rank,
                    ),
                    sources=("fts",),
                    tags=document.tags,
                    type=document.type,
                    kind=document.kind,
                    chunker_version=chunk.chunker_version,
                    embedding_model=None,
                    indexed_at=chunk.indexed_at,
                )
            )
        return tuple(hits)

    def _explain(self, query: Query, trace: Trace) -> dict[str, Any]:
        return {"profile": query.profile, "pipeline": repr(self), "stages": trace.explain()}

    def _log(self, response: Response) -> None:
        total = response.timing_ms["total"]
        log.info("search took %.1f ms: %s", total, dict(response.timing_ms))
        if total > self.slow_ms:
            log.warning("slow search, %.0f ms: %r", total, response.query[:1000])
        for part in response.degraded:
            log.warning("search degraded: %s %s (%s)", part.part, part.reason, part.detail)


def _terms(analysis: Analysis) -> dict[str, Any]:
    if analysis.expression is not None:
        return {"expression": analysis.expression}
    words = [word[0] for word in analysis.lexical.words]
    return {"words": words, "runs": list(analysis.lexical.runs)}


def _facts(found: Found) -> dict[str, Any]:
    return {
        "found": len(found.ranked),
        "tiers": list(found.tiers),
        "too_common": list(found.dropped),
    }
