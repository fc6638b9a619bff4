"""The retriever protocol, its request and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from kb.errors import DeadlineExceeded, KbError, to_unicode
from kb.search.query.analysis import Analysis
from kb.types import Degraded, Filters, ScoredChunk, TermFrequencies
from kb.values import NamedTuple, Protocol, dataclass, field

_NO_FREQUENCIES = TermFrequencies()


class RetrievalRequest(NamedTuple):
    """The query that all retrievers of a search receive, and how many candidates to return."""

    analysis: Analysis
    filters: Filters
    now: str
    limit: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked list of one retriever. `ran` is False if the retriever could not work, so that an
    empty list has no meaning. `partial` means that its index does not contain all chunks yet.
    `idf` holds the inverse document frequencies of words that a lexical lookup counted."""

    ranked: tuple[ScoredChunk, ...] = ()
    tiers: tuple[str, ...] = ()
    dropped_terms: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    ran: bool = True
    partial: bool = False
    backend: str | None = None
    model: str | None = None
    encoding_ms: float = 0.0  # part of the retrieval time
    idf: Mapping[str, float] = field(default_factory=dict)
    frequencies: TermFrequencies = _NO_FREQUENCIES  # of the query's words


class Retriever(Protocol):
    """Finds candidates in one way. Its registry entry calls the class with a `SearchContext`."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def is_slow(self) -> bool:
        """Whether to run it in a thread, because of a large index or a remote encoder."""

    def search(self, request: RetrievalRequest) -> Candidates:
        """The best chunks for the query."""

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        """The scores of chunks that other retrievers found; None if that is too slow."""

    def missing(self, chunk_ids: Iterable[int]) -> Set[int]:
        """Which of these chunks its index does not contain, so that they cannot be scored. Called
        only if its candidates are `partial`."""


def failure(part: str, error: Exception) -> Degraded:
    """Describe an error of a part of the search."""
    if isinstance(error, TimeoutError | DeadlineExceeded):
        return Degraded(part, "timeout", to_unicode(str(error)))
    message = error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
    return Degraded(part, "failed", to_unicode(message))
