"""A search and its answer: Query (+ Filters) -> Scored -> Hit -> Response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kb.types.places import Citation


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit's document must be (spec 10). Empty means: anything."""

    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    scope: str | None = None
    lang: str | None = None
    path_glob: str | None = None
    trust_min: str | None = None
    after: str | None = None
    before: str | None = None

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Query:
    """A search as asked: `search_request.v1` with every default filled in."""

    text: str
    top: int
    profile: str
    mode: str
    match: str
    filters: Filters = Filters()
    threshold: float | None = None
    explain: bool = False


class LexicalQuery(NamedTuple):
    """Terms for the lexical index, already analysed.

    A word is a tuple of alternatives: itself, and for an identifier the phrase of its parts.
    `runs` are stretches of unspaced script.
    """

    words: tuple[tuple[str, ...], ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A chunk as one retriever found it. `score` is higher-is-better; `rank` starts at 1."""

    chunk_id: int
    score: float
    rank: int


class TextMatches(NamedTuple):
    """What a lexical look-up found, best first, and the terms it left out as too common."""

    chunks: list[ScoredChunk]
    dropped_terms: tuple[str, ...] = ()


class VectorMatches(NamedTuple):
    """What a dense or a sparse look-up found, best first; `backend` is the one that looked, and
    `why` says why it is not the one that was asked for."""

    chunks: list[ScoredChunk]
    backend: str
    fallback_reason: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How a hit was found; None where a retriever did not run or did not find it [001]."""

    method: str
    fusion_score: float | None = None
    rerank_score: float | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None
    vector_score: float | None = None
    vector_rank: int | None = None
    sparse_score: float | None = None
    sparse_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that did not do its work, and why. Nothing falls back silently."""

    part: str
    reason: str
    detail: str | int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with everything a reader needs to judge and to open it."""

    rank: int
    score: float
    score_kind: str
    chunk_id: int
    doc_id: int
    doc_path: str
    title: str
    heading_path: tuple[str, ...]
    section_label: str | None
    snippet: str
    citation: Citation
    retrieval: Retrieval
    sources: tuple[str, ...]
    tags: tuple[str, ...]
    type: str
    kind: str | None
    chunker_version: str
    embedding_model: str | None
    indexed_at: str


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a query."""

    query: str
    profile: str
    mode: str
    hits: tuple[Hit, ...]
    degraded: tuple[Degraded, ...]
    timing_ms: Mapping[str, float]
    index_version: str
    explain: Mapping[str, Any] | None = None

    @property
    def returned(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Any:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)
