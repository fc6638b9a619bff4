"""The last stage: ranked chunks to hits, with document, citation, snippet and where from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from kb.errors import StoreUnusable
from kb.search.query.analysis import Analysis
from kb.search.results.snippets import (
    code_snippet,
    snippet,
    without_front_matter,
    without_headings,
)
from kb.search.retrievers.base import Candidates
from kb.text.citations import cite
from kb.types import Chunk, Document, Hit, Retrieval, ScoredChunk, Span

if TYPE_CHECKING:
    from kb.ports import Store

SOURCES = {"lexical": "fts", "dense": "vec", "sparse": "sparse"}
_FIELDS = {"lexical": "lexical", "dense": "vector", "sparse": "sparse"}


@dataclass(frozen=True, slots=True)
class CandidateCache:
    """The chunks of one search and their documents, as far as they are needed: boosts and groups
    ask for every candidate's document, and only hits for the text of a chunk."""

    store: Store
    owners: dict[int, int] = field(default_factory=dict)  # chunk -> document
    chunks: dict[int, Chunk] = field(default_factory=dict)
    documents: dict[int, Document] = field(default_factory=dict)

    def find_owners(self, chunk_ids: Iterable[int]) -> None:
        if missing := set(chunk_ids) - self.owners.keys():
            self.owners.update(self.store.owners(missing))

    def fetch_documents(self, chunk_ids: Iterable[int]) -> None:
        wanted = {self.owner(chunk_id) for chunk_id in chunk_ids} - self.documents.keys()
        if wanted:
            # A search has hundreds of candidates, and no use for their metadata.
            self.documents.update(self.store.documents_by_id(wanted, metadata=False))

    def fetch_chunks(self, chunk_ids: Iterable[int]) -> None:
        self.chunks.update(self.store.chunks_by_id(chunk_ids))
        self.owners.update({chunk_id: one.doc_id for chunk_id, one in self.chunks.items()})
        self.fetch_documents(self.chunks)

    def document(self, chunk_id: int) -> Document:
        if (document := self.documents.get(self.owner(chunk_id))) is None:
            raise _without_document(chunk_id)
        return document

    def owner(self, chunk_id: int) -> int:
        """The document of a chunk. An index may hold a chunk that is gone."""
        if (doc_id := self.owners.get(chunk_id)) is None:
            raise _without_document(chunk_id)
        return doc_id


def _without_document(chunk_id: int) -> StoreUnusable:
    return StoreUnusable(
        f"the store is damaged: passage {chunk_id} belongs to no document",
        "mend it with: kb doctor --fix",
    )


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """How the ranked chunks came about: what each retriever found, and the fused scores."""

    found: Mapping[str, Candidates]
    fused: Mapping[int, float]
    kind: str
    ranks: Mapping[str, Mapping[int, ScoredChunk]]

    @classmethod
    def of(
        cls, found: Mapping[str, Candidates], fused: Sequence[ScoredChunk], kind: str
    ) -> ScoreBreakdown:
        ranks = {name: {one.chunk_id: one for one in each.ranked} for name, each in found.items()}
        return cls(found, {one.chunk_id: one.score for one in fused}, kind, ranks)

    def cap_scores(self, fused: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """What was fused later, with scores that do not rise above those from before."""
        return cap_scores(fused, min(self.fused.values(), default=inf))

    def joined(
        self, found: Mapping[str, Candidates], fused: Sequence[ScoredChunk], kind: str
    ) -> ScoreBreakdown:
        """This and what was found later; the scale is the first one's."""
        later = ScoreBreakdown.of(found, fused, kind)
        if not self.found:
            return later
        both = {name: _merge_candidates(self.found[name], each) for name, each in found.items()}
        ranks = {name: {**self.ranks[name], **later.ranks[name]} for name in both}
        return ScoreBreakdown(both, {**self.fused, **later.fused}, self.kind, ranks)

    def sources(self, chunk_id: int) -> tuple[str, ...]:
        return tuple(SOURCES[name] for name in SOURCES if chunk_id in self.ranks.get(name, {}))

    def retrieval(self, chunk_id: int) -> Retrieval:
        ran = [name for name, each in self.found.items() if each.ran]
        shown: dict[str, float | int] = {}
        for name, field_name in _FIELDS.items():
            if (one := self.ranks.get(name, {}).get(chunk_id)) is not None:
                shown |= {f"{field_name}_score": one.score, f"{field_name}_rank": one.rank}
        return Retrieval(
            method=_FIELDS[ran[0]] if len(ran) == 1 else "hybrid",
            fusion_score=self.fused[chunk_id],
            **shown,  # type: ignore[arg-type]  # scores are floats and ranks whole numbers
        )

    def model(self, chunk_id: int) -> str | None:
        """The model that had a part in finding the chunk."""
        by_model = (name for name, each in self.found.items() if each.model is not None)
        return next(
            (self.found[name].model for name in by_model if chunk_id in self.ranks[name]), None
        )


def cap_scores(ranked: Sequence[ScoredChunk], ceiling: float) -> list[ScoredChunk]:
    return [replace(one, score=min(one.score, ceiling)) for one in ranked]


def _merge_candidates(first: Candidates, later: Candidates) -> Candidates:
    told = (*first.degraded, *(part for part in later.degraded if part not in first.degraded))
    return replace(first, ranked=(*first.ranked, *later.ranked), degraded=told)


def make_hits(
    ranked: Sequence[ScoredChunk],
    breakdown: ScoreBreakdown,
    cache: CandidateCache,
    analysis: Analysis,
    snippet_chars: int,
) -> tuple[Hit, ...]:
    """Hits in this order; without `snippet_chars` their snippets stay empty."""
    cache.fetch_chunks([one.chunk_id for one in ranked])
    return tuple(
        _hit(rank, one, breakdown, cache, _snippet(cache, one.chunk_id, analysis, snippet_chars))
        for rank, one in enumerate(ranked, start=1)
    )


def _hit(
    rank: int, one: ScoredChunk, breakdown: ScoreBreakdown, cache: CandidateCache, shown: str
) -> Hit:
    chunk, document = cache.chunks[one.chunk_id], cache.document(one.chunk_id)
    span = chunk.spans[0] if chunk.spans else Span("document")
    return Hit(
        rank=rank,
        score=one.score,
        score_kind=breakdown.kind,
        chunk_id=chunk.chunk_id,
        doc_id=document.doc_id,
        doc_path=document.doc_path,
        title=document.title,
        heading_path=chunk.heading_path,
        section_label=chunk.section_label,
        snippet=shown,
        citation=cite(document.doc_path, span, chunk.section_label),
        retrieval=breakdown.retrieval(one.chunk_id),
        sources=breakdown.sources(one.chunk_id),
        tags=document.tags,
        type=document.type,
        kind=document.kind,
        chunker_version=chunk.chunker_version,
        embedding_model=breakdown.model(one.chunk_id),
        indexed_at=chunk.indexed_at,
    )


def _snippet(cache: CandidateCache, chunk_id: int, analysis: Analysis, limit: int) -> str:
    if not limit:
        return ""
    kind, text = cache.document(chunk_id).type, cache.chunks[chunk_id].text
    if kind == "code":
        return code_snippet(text, analysis, limit)
    text = without_front_matter(text, analysis)
    headed = kind not in ("note", "table")
    return snippet(without_headings(text) if headed else text, analysis, limit)
