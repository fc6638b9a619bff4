"""A search and its results: SearchRequest -> Query -> ScoredChunk -> Hit -> Response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count

from kb.types.citations import Citation
from kb.values import TYPE_CHECKING, Any, NamedTuple, dataclass, field

if TYPE_CHECKING:
    from kb.types.access import Limits
    from kb.types.models import Vector
else:  # so that the types of the fields can be read at runtime, without loading other modules
    from collections.abc import Sequence as Vector

    Limits = object


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the document of a hit. Empty filters accept every document. `limits` restricts
    what the caller may see; it is not part of a request."""

    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    scope: str | None = None
    lang: str | None = None
    path_glob: str | None = None
    links_to: str | None = None
    trust_min: str | None = None
    after: str | None = None
    before: str | None = None
    limits: Limits | None = None

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search as a caller states it. None means the default of the profile or the configuration.

    The fields up to `settings` are the arguments of `KnowledgeBase.search`. `vector` is a
    normalized dense vector to use instead of the query's encoding. `exclude` holds the ids of
    chunks that are never returned. If `collapse` is False, duplicates have their own hits, and a
    document may fill the list. With `include_text`, hits have the whole text of their passages.
    Without `snippets`, the snippets of the hits are empty, and their citations have no files. With
    `exact`, the query is compared with all vectors, also in a very large store.
    """

    query: str
    top: int | None = None
    profile: str | None = None
    mode: str | None = None
    match: str | None = None
    filters: Filters | None = None
    threshold: float | None = None
    min_relevance: float | None = None
    rerank: str | bool | None = None
    budget_ms: int | None = None
    explain: bool = False
    malformed: str = "raise"
    settings: Mapping[str, Any] | None = None
    collapse: bool | None = None
    include_text: bool = False
    exact: bool = False
    vector: Vector[float] | None = None
    exclude: frozenset[int] = frozenset()
    snippets: bool = True


@dataclass(frozen=True, slots=True)
class Query:
    """A search request with every default filled in."""

    text: str
    top: int
    profile: str
    mode: str
    match: str
    filters: Filters = Filters()
    threshold: float | None = None
    min_relevance: float | None = None
    explain: bool = False


class LexicalQuery(NamedTuple):
    """The terms of a query for the full-text index.

    A word is a tuple of alternatives: the word itself and, for an identifier, the phrase of its
    parts. `runs` are stretches of text in scripts without spaces between words.
    """

    words: tuple[tuple[str, ...], ...] = ()
    runs: tuple[str, ...] = ()


class ScoredChunk(NamedTuple):
    """A chunk in a ranked list. A higher `score` is better; `rank` starts at 1."""

    chunk_id: int
    score: float
    rank: int


# One call in C per chunk: a search ranks some 700 chunks.
_to_chunk: Callable[[tuple[int, float, int]], ScoredChunk] = partial(tuple.__new__, ScoredChunk)


def rank_chunks(chunk_ids: Iterable[int], scores: Iterable[float]) -> list[ScoredChunk]:
    """The chunks with their scores and ranks, which start at 1, in the order given."""
    return list(map(_to_chunk, zip(chunk_ids, scores, count(1))))


class TermFrequencies(NamedTuple):
    """How many chunks contain each term of a query, by its stem or piece, and how many chunks there
    are. A term that was not looked up is missing."""

    counts: Mapping[str, int] = {}  # never changed
    chunks: int = 0


class TextMatches(NamedTuple):
    """The chunks that a full-text lookup returns, best first, and the terms that it ignored because
    they are too common. `idf` holds the inverse document frequency of words, `log(chunks / chunks
    with the word)`, as far as the lookup needed it, and `frequencies` holds the counts
    themselves."""

    chunks: list[ScoredChunk]
    dropped_terms: tuple[str, ...] = ()
    idf: Mapping[str, float] = {}
    frequencies: TermFrequencies = TermFrequencies()


class VectorMatches(NamedTuple):
    """The chunks that a dense or sparse lookup returns, best first. `backend` is the backend that
    ran; `fallback_reason` is empty unless another one was requested."""

    chunks: list[ScoredChunk]
    backend: str
    fallback_reason: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The scores of a hit.

    `method` is `hybrid`, or the mode of the only retriever that ran. `retrievers` holds the chunk
    as each retriever ranked it, by the retriever's mode; None if it did not run or did not return
    the chunk [001]. The same values are attributes: `lexical_score`, `vector_rank`.
    """

    method: str
    fusion_score: float | None = None
    rerank_score: float | None = None
    retrievers: Mapping[str, ScoredChunk | None] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        mode, _, value = name.rpartition("_")
        if value not in ("score", "rank") or mode not in self.retrievers:
            raise AttributeError(f"Retrieval has no attribute {name!r}")
        chunk = self.retrievers[mode]
        return None if chunk is None else getattr(chunk, value)


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part of a search that did not work as requested, and why. No part fails silently."""

    part: str
    reason: str
    detail: str | int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage in the results, with everything needed to judge and to open it.

    `relevance` is the probability that the passage is about what the query asks: comparable between
    queries and stores, unlike `score`. None if it cannot be estimated.

    `duplicates` counts the other candidates with the same or nearly the same text, which have no
    separate hit; `duplicate_uris` cites the first 20. `more_in_document` counts the passages of the
    same document that come after the first ten hits, so that others have room. `text` is the whole
    passage, if the request includes texts.
    """

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
    relevance: float | None = None
    duplicates: int = 0
    duplicate_uris: tuple[str, ...] = ()
    more_in_document: int = 0
    text: str | None = None

    @property
    def others(self) -> str:
        """A description of the passages that have no separate hit; empty if there are none."""
        parts = []
        if self.duplicates:
            parts.append(f"and {self.duplicates} more with the same text")
        if self.more_in_document:
            parts.append(f"{self.more_in_document} more in this document")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Response:
    """The results of a search."""

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
