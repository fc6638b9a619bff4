"""The lexical retriever: tiers of lookups in the full-text index. Also finds literal matches there
(see `ranking.literal`).

    a single-quoted expression     matched as it is
    match any                      chunks with any content word, by BM25; if there are none, chunks
                                   with any word
    match all                      chunks with every term
    match auto                     chunks with every term, then as `any`
    if nothing matches             substrings of words and runs

Scores never rise from one tier to the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from kb.errors import IndexUnusable
from kb.search.context import SearchContext
from kb.search.query.analysis import Analysis
from kb.search.ranking.literal import NONE, Evidence, evidence, literal_query
from kb.search.retrievers.base import Candidates, RetrievalRequest
from kb.types import Degraded, ScoredChunk, TermFrequencies
from kb.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from kb.ports import Store

_MAX_LITERAL = 100  # passages to read; those that a retriever returned come first
_LEXICAL_ONLY = Degraded("query", "expression", "an FTS5 expression is searched by words only")


class LexicalRetriever:
    """Finds chunks by their words. If the search has other stages, warns that they do not use an
    FTS5 expression."""

    name = "lexical"
    is_slow = False

    def __init__(self, context: SearchContext) -> None:
        self._store = context.store
        self._match = context.query.match
        self._warns = context.uses_meaning

    def __repr__(self) -> str:
        return f"lexical(match={self._match})"

    def search(self, request: RetrievalRequest) -> Candidates:
        """Search the index, or scan all chunks if the index cannot be used."""
        if request.analysis.empty or request.limit < 1:
            return Candidates()
        try:
            return self._search_index(request)
        except IndexUnusable as error:
            return self._scan(request, error)

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> None:
        """Return None: to score a single chunk, FTS5 reads as much as for all chunks."""

    def missing(self, chunk_ids: Iterable[int]) -> frozenset[int]:  # noqa: ARG002  # the protocol's
        """Return no chunk: the index always contains all of them."""
        return frozenset()

    def _search_index(self, request: RetrievalRequest) -> Candidates:
        analysis, filters, now, limit = request
        if analysis.expression is not None:
            matches = self._store.fulltext.match_expression(
                analysis.expression, filters=filters, now=now, limit=limit
            )
            warnings = (_LEXICAL_ONLY,) if self._warns else ()
            return Candidates(tuple(matches.chunks), ("expression",), degraded=warnings)
        ranked: list[ScoredChunk] = []
        tiers: list[str] = []
        dropped: list[str] = []
        idf: dict[str, float] = {}
        counts: dict[str, int] = {}
        total = 0
        for tier in self._tiers(analysis):
            # Function words alone count only if no content word matches.
            if len(ranked) >= limit or (ranked and tiers[-1] == "content"):
                break
            terms = analysis.content if tier == "content" else analysis.lexical
            matches = self._store.fulltext.match(
                terms, every=tier == "all", filters=filters, now=now, limit=limit
            )
            idf |= matches.idf
            counts |= matches.frequencies.counts
            total = max(total, matches.frequencies.chunks)
            extended = _append(ranked, matches.chunks)[:limit]
            if len(extended) > len(ranked):
                tiers.append(tier)
                dropped += matches.dropped_terms
            ranked = extended
        frequencies = TermFrequencies(counts, total)
        if ranked or self._match == "all":
            return Candidates(
                tuple(ranked), tuple(tiers), tuple(dict.fromkeys(dropped)),
                idf=idf, frequencies=frequencies,
            )  # fmt: skip
        return replace(self._match_substrings(request), idf=idf, frequencies=frequencies)

    def _tiers(self, analysis: Analysis) -> list[str]:
        """The lookups to try, in order, until the list is full."""
        if self._match == "all":
            return ["all"]
        one_word = len(analysis.lexical.words) == 1 and not analysis.lexical.runs
        tiers = ["all"] if self._match == "auto" and not one_word else []
        if analysis.content != analysis.lexical:
            tiers.append("content")
        return [*tiers, "any"]

    def _match_substrings(self, request: RetrievalRequest, *, indexed: bool = True) -> Candidates:
        analysis, filters, now, limit = request
        # The pieces of a run in an unspaced script are in the index, and did not match.
        if not (terms := analysis.substrings() if not indexed else analysis.long_words()):
            return Candidates()
        fulltext = self._store.fulltext
        match = fulltext.match_substrings if indexed else fulltext.scan_substrings
        matches = match(terms, filters=filters, now=now, limit=limit)
        return Candidates(tuple(matches.chunks), ("substring",) if matches.chunks else ())

    def _scan(self, request: RetrievalRequest, error: IndexUnusable) -> Candidates:
        """Read every chunk, because FTS5 is missing or its tables are damaged [003]."""
        candidates = self._match_substrings(request, indexed=False)
        note = Degraded("lexical", "failed", f"substring search instead: {error.message}")
        return Candidates(candidates.ranked, candidates.tiers, degraded=(note,))


def _append(first: list[ScoredChunk], second: list[ScoredChunk]) -> list[ScoredChunk]:
    """Append `second` without the chunks of `first`, with scores that do not rise again."""
    seen = {one.chunk_id for one in first}
    ceiling = first[-1].score if first else 1.0
    fresh = [one for one in second if one.chunk_id not in seen]
    return first + [
        ScoredChunk(one.chunk_id, min(one.score, ceiling), rank)
        for rank, one in enumerate(fresh, start=len(first) + 1)
    ]


def find_literal(
    store: Store, request: RetrievalRequest, lexical: Candidates, prefer: Iterable[int]
) -> dict[int, Evidence]:
    """The passages that contain the query or a part of it, by chunk id. `lexical` holds the
    candidates by words, and `prefer` those of all retrievers. Empty for FTS5 expressions, and if
    the index cannot be used."""
    analysis = request.analysis
    if analysis.empty or analysis.expression is not None:
        return {}
    query = literal_query(analysis.text, lexical.idf, lexical.frequencies.chunks)
    try:
        texts = store.fulltext.match_phrases(
            query.phrases(),
            prefer=prefer,
            filters=request.filters,
            now=request.now,
            limit=_MAX_LITERAL,
        )
    except IndexUnusable:  # the lexical retriever reports it
        return {}
    found = {chunk_id: evidence(query, text) for chunk_id, text in texts.items()}
    return {chunk_id: one for chunk_id, one in found.items() if one != Evidence(NONE)}
