"""The last stage of a search: ranked chunks become hits with document, citation and snippet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from kb.errors import StoreUnusable
from kb.search.query.analysis import Analysis
from kb.search.results.snippets import (
    SnippetDraft,
    code_snippet,
    without_front_matter,
    without_headings,
)
from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates
from kb.text.citations import cite
from kb.text.links import locate
from kb.types import (
    BoostFields,
    Chunk,
    ChunkText,
    Citation,
    Document,
    Hit,
    Retrieval,
    ScoredChunk,
    Span,
)
from kb.values import TYPE_CHECKING, dataclass, field, replace

_TO_EMBED = 50  # the candidates of a search that are embedded before other passages

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.results.layout import Layout
    from kb.types import TokenVectors

    # Returns how near each unit of these passages is to the query; passages without token vectors
    # are left out.
    TokenSimilarity = Callable[
        [str, Mapping[int, Layout], "CandidateCache"], Mapping[int, Sequence[float]]
    ]


@dataclass(frozen=True, slots=True)
class CandidateCache:
    """The chunks and documents of one search, read as needed: boosts and groups read the document
    of every candidate, hits also the text of the chunk."""

    store: Store
    owners: dict[int, int] = field(default_factory=dict)  # chunk -> document
    chunks: dict[int, Chunk] = field(default_factory=dict)
    documents: dict[int, Document] = field(default_factory=dict)
    _texts: dict[int, ChunkText] = field(default_factory=dict)
    _tokens: dict[int, TokenVectors | None] = field(default_factory=dict)

    def fetch_owners(self, chunk_ids: Iterable[int]) -> None:
        """Look up the document ids of these chunks."""
        if missing := set(chunk_ids) - self.owners.keys():
            self.owners.update(self.store.catalog.document_ids(missing))

    def boost_fields(self, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
        """Read the fields of these chunks' documents that boosts use. Raises `StoreUnusable` if a
        chunk does not exist."""
        chunk_ids = list(chunk_ids)
        fields = self.store.catalog.boost_fields(chunk_ids)
        self.owners.update({chunk_id: each.doc_id for chunk_id, each in fields.items()})
        for chunk_id in chunk_ids:
            self.owner(chunk_id)
        return fields

    def fetch_documents(self, chunk_ids: Iterable[int]) -> None:
        """Read the documents of these chunks, whose ids are known."""
        missing = {self.owner(chunk_id) for chunk_id in chunk_ids} - self.documents.keys()
        if missing:
            # A search has hundreds of candidates, and does not use their metadata.
            self.documents.update(self.store.catalog.documents_by_id(missing, metadata=False))

    def fetch_chunks(self, chunk_ids: Iterable[int]) -> None:
        """Read these chunks and their documents."""
        missing = set(chunk_ids) - self.chunks.keys()
        self.chunks.update(
            {each: self._texts[each].chunk() for each in missing & self._texts.keys()}
        )
        if missing := missing - self.chunks.keys():
            self.chunks.update(self.store.catalog.chunks_by_id(missing))
        self.owners.update({chunk_id: one.doc_id for chunk_id, one in self.chunks.items()})
        self.fetch_documents(self.chunks)

    def texts(self, ranked: Sequence[ScoredChunk]) -> dict[int, ChunkText]:
        """Read the texts of these chunks. Raises `StoreUnusable` if a chunk does not exist."""
        chunk_ids = [one.chunk_id for one in ranked]
        texts = self.store.catalog.texts_with_copies(chunk_ids)
        self._texts.update(texts)
        self.owners.update({chunk_id: text.doc_id for chunk_id, text in texts.items()})
        for chunk_id in chunk_ids:
            self.owner(chunk_id)
        return texts

    def token_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        """The token vectors of these chunks; chunks without any are left out. Reads only those that
        are not cached. The cache has no model ids, because a search uses a single model."""
        chunk_ids = list(chunk_ids)
        if missing := [chunk_id for chunk_id in chunk_ids if chunk_id not in self._tokens]:
            self._tokens.update(dict.fromkeys(missing))
            self._tokens.update(self.store.vectors.token_vectors(model_id, missing))
        pairs = ((chunk_id, self._tokens[chunk_id]) for chunk_id in chunk_ids)
        return {chunk_id: tokens for chunk_id, tokens in pairs if tokens is not None}

    def document(self, chunk_id: int) -> Document:
        """The document of a chunk. The chunk must have been fetched."""
        if (document := self.documents.get(self.owner(chunk_id))) is None:
            raise _orphan(chunk_id)
        return document

    def citation(self, chunk_id: int) -> Citation:
        """The citation of a chunk. The chunk must have been fetched."""
        if (chunk := self.chunks.get(chunk_id)) is None:
            raise _orphan(chunk_id)
        span = chunk.spans[0] if chunk.spans else Span("document")
        return cite(self.document(chunk_id).doc_path, span, chunk.section_label)

    def owner(self, chunk_id: int) -> int:
        """The id of a chunk's document. Raises `StoreUnusable` if an index has a chunk that the
        store lacks."""
        if (doc_id := self.owners.get(chunk_id)) is None:
            raise _orphan(chunk_id)
        return doc_id


def _orphan(chunk_id: int) -> StoreUnusable:
    return StoreUnusable(
        f"the store is damaged: passage {chunk_id} belongs to no document",
        "repair it with: kb doctor --fix",
    )


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """The scores of the candidates: those of each retriever, and the fused ones."""

    candidates: Mapping[str, Candidates]
    fused: Mapping[int, float]
    kind: str
    ranks: Mapping[str, Mapping[int, ScoredChunk]]

    @classmethod
    def of(
        cls, candidates: Mapping[str, Candidates], fused: Sequence[ScoredChunk], kind: str
    ) -> ScoreBreakdown:
        """The breakdown of one retrieval and its fused list."""
        ranks = {
            name: {one.chunk_id: one for one in each.ranked} for name, each in candidates.items()
        }
        return cls(candidates, {one.chunk_id: one.score for one in fused}, kind, ranks)

    def cap_scores(self, fused: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """Cap the scores of a later fusion, so that they do not exceed the earlier ones."""
        return cap_scores(fused, min(self.fused.values(), default=inf))

    def extend(
        self, candidates: Mapping[str, Candidates], fused: Sequence[ScoredChunk], kind: str
    ) -> ScoreBreakdown:
        """Add the candidates of a later retrieval. The score kind of the first retrieval is
        kept."""
        later = ScoreBreakdown.of(candidates, fused, kind)
        if not self.candidates:
            return later
        both = {
            name: _concatenate(self.candidates[name], each) for name, each in candidates.items()
        }
        ranks = {name: {**self.ranks[name], **later.ranks[name]} for name in both}
        return ScoreBreakdown(both, {**self.fused, **later.fused}, self.kind, ranks)

    def to_embed(self) -> list[int]:
        """The first candidates, if some passages have no vectors yet, including those that have
        some."""
        parts = (part for each in self.candidates.values() for part in each.degraded)
        waiting = any(part.reason == "pending" for part in parts)
        return list(self.fused)[:_TO_EMBED] if waiting else []

    def sources(self, chunk_id: int) -> tuple[str, ...]:
        """The sources of the retrievers that returned the chunk."""
        return tuple(
            spec.source for spec in registry.specs() if chunk_id in self.ranks.get(spec.name, {})
        )

    def retrieval(self, chunk_id: int) -> Retrieval:
        """The scores of a chunk by every retriever."""
        ran = [name for name, each in self.candidates.items() if each.ran]
        return Retrieval(
            method=registry.get(ran[0]).mode if len(ran) == 1 else registry.HYBRID,
            fusion_score=self.fused[chunk_id],
            retrievers={
                spec.mode: self.ranks.get(spec.name, {}).get(chunk_id) for spec in registry.specs()
            },
        )

    def model(self, chunk_id: int) -> str | None:
        """The name of the model if a retriever that uses it returned the chunk."""
        return next(
            (
                each.model
                for name, each in self.candidates.items()
                if each.model is not None and chunk_id in self.ranks[name]
            ),
            None,
        )


def cap_scores(ranked: Sequence[ScoredChunk], ceiling: float) -> list[ScoredChunk]:
    """Limit the scores to the ceiling."""
    if ceiling == inf:
        return list(ranked)
    return [
        one if one.score <= ceiling else ScoredChunk(one.chunk_id, ceiling, one.rank)
        for one in ranked
    ]


def _concatenate(first: Candidates, later: Candidates) -> Candidates:
    new = (part for part in later.degraded if part not in first.degraded)
    return replace(first, ranked=(*first.ranked, *later.ranked), degraded=(*first.degraded, *new))


def make_hits(
    ranked: Sequence[ScoredChunk],
    breakdown: ScoreBreakdown,
    cache: CandidateCache,
    snippets: Mapping[int, str],
    relevance: Callable[[int], float | None],
) -> tuple[Hit, ...]:
    """Turn the ranked chunks, which have been fetched, into hits. `snippets` are by chunk id, and
    `relevance` estimates the relevance of a chunk."""
    return tuple(
        _hit(rank, one, breakdown, cache, snippets.get(one.chunk_id, ""), relevance(one.chunk_id))
        for rank, one in enumerate(ranked, start=1)
    )


def _hit(
    rank: int,
    one: ScoredChunk,
    breakdown: ScoreBreakdown,
    cache: CandidateCache,
    snippet: str,
    relevance: float | None,
) -> Hit:
    chunk, document = cache.chunks[one.chunk_id], cache.document(one.chunk_id)
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
        snippet=snippet,
        citation=cache.citation(one.chunk_id),
        retrieval=breakdown.retrieval(one.chunk_id),
        sources=breakdown.sources(one.chunk_id),
        tags=document.tags,
        type=document.type,
        kind=document.kind,
        chunker_version=chunk.chunker_version,
        embedding_model=breakdown.model(one.chunk_id),
        indexed_at=chunk.indexed_at,
        relevance=relevance,
    )


def locate_hits(
    hits: Sequence[Hit], store: Store, link_form: str, *, include_text: bool
) -> tuple[Hit, ...]:
    """The hits with files in their citations and, with `include_text`, the texts of their
    passages."""
    locations = store.catalog.file_locations({hit.doc_id for hit in hits})
    chunks = store.catalog.chunks_by_id([hit.chunk_id for hit in hits]) if include_text else {}
    return tuple(
        replace(
            hit,
            citation=locate(hit.citation, hit.type, locations.get(hit.doc_id), link_form),
            text=chunk.text if (chunk := chunks.get(hit.chunk_id)) is not None else None,
        )
        for hit in hits
    )


def make_snippets(
    ranked: Sequence[ScoredChunk],
    cache: CandidateCache,
    analysis: Analysis,
    limit: int,
    similarity: TokenSimilarity | None,
) -> dict[int, str]:
    """The snippets of chunks, which have been fetched, by chunk id; none if `limit` is 0. Token
    vectors are read only for passages in which words do not show which sentence answers the
    query."""
    shown: dict[int, str] = {}
    drafts: dict[int, SnippetDraft] = {}
    for one in ranked if limit else ():
        document = cache.document(one.chunk_id)  # raises if the chunk does not exist
        kind = document.type
        chunk = cache.chunks[one.chunk_id]
        if kind == "code":
            shown[one.chunk_id] = code_snippet(chunk.text, analysis, limit)
            continue
        text = without_front_matter(chunk.text, analysis)
        if kind not in ("note", "table"):
            text = without_headings(text, (*chunk.heading_path, document.title))
        draft = SnippetDraft.of(text, analysis, limit, by_lines=kind == "table")
        drafts[one.chunk_id] = draft
    needed = {chunk_id: draft.layout for chunk_id, draft in drafts.items() if draft.needs_meaning}
    near = similarity(analysis.text, needed, cache) if similarity and needed else {}
    return shown | {
        chunk_id: draft.render(near.get(chunk_id, ())) for chunk_id, draft in drafts.items()
    }
