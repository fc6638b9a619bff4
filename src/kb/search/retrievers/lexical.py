"""The lexical retriever: tiers over the store's indexes (spec 4).

    a single-quoted expression     as it status
    match any                      chunks with any word that has content, by BM25; if there is
                                   none, chunks with any word at all
    match all                      chunks with every term
    match auto                     those with every term first, then as any
    nothing found at all           substrings of words and runs

Scores fall with the rank across tiers: a hit of a later tier never shows a higher score than the
last one of the tier before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kb.errors import QuerySyntax, StoreError
from kb.search.query.analysis import Analysis
from kb.search.retrievers.base import Candidates
from kb.types import Degraded, Filters, ScoredChunk

if TYPE_CHECKING:
    from kb.ports import Store

_ALONE = Degraded("query", "expression", "an FTS5 expression is looked for by words alone")


class LexicalRetriever:
    """Finds chunks by their words. `match` is `any`, `all` or `auto`. In `company`, others would be
    asked too, or a reranker: not so for an expression, which is told."""

    name = "lexical"

    def __init__(self, store: Store, *, match: str, warn_expression: bool = False) -> None:
        self._store = store
        self._warn_expression = warn_expression
        self._match = match

    def __repr__(self) -> str:
        return f"lexical(match={self._match})"

    def index_version(self) -> str:
        return self._store.index_version()

    def search(self, analysis: Analysis, filters: Filters, now: str, limit: int) -> Candidates:
        if analysis.empty or limit < 1:
            return Candidates()
        try:
            return self._indexed(analysis, filters, now, limit)
        except QuerySyntax:
            raise
        except StoreError as error:
            return self._unindexed(analysis, filters, now, limit, error)

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> None:
        """To score single chunks, FTS5 reads as much as for all of them."""

    def _indexed(self, analysis: Analysis, filters: Filters, now: str, limit: int) -> Candidates:
        if analysis.expression is not None:
            found = self._store.match_expression(
                analysis.expression, filters=filters, now=now, limit=limit
            )
            return Candidates(
                tuple(found.chunks),
                ("expression",),
                degraded=(_ALONE,) if self._warn_expression else (),
            )
        ranked: list[ScoredChunk] = []
        tiers: list[str] = []
        dropped: list[str] = []
        for tier in self._tiers(analysis):
            # Function words alone only count where no word with content is found at all.
            if len(ranked) >= limit or (ranked and tiers[-1] == "content"):
                break
            terms = analysis.content if tier == "content" else analysis.lexical
            found = self._store.match(
                terms, every=tier == "all", filters=filters, now=now, limit=limit
            )
            grown = _append(ranked, found.chunks)[:limit]
            if len(grown) > len(ranked):
                tiers.append(tier)
                dropped += found.dropped_terms
            ranked = grown
        if ranked or self._match == "all":
            return Candidates(tuple(ranked), tuple(tiers), tuple(dict.fromkeys(dropped)))
        return self._substrings(analysis, filters, now, limit)

    def _tiers(self, analysis: Analysis) -> list[str]:
        """What is asked, in order, until the list is full."""
        if self._match == "all":
            return ["all"]
        one_word = len(analysis.lexical.words) == 1 and not analysis.lexical.runs
        tiers = ["all"] if self._match == "auto" and not one_word else []
        if analysis.content != analysis.lexical:
            tiers.append("content")
        return [*tiers, "any"]

    def _substrings(
        self, analysis: Analysis, filters: Filters, now: str, limit: int, *, indexed: bool = True
    ) -> Candidates:
        # A run of unspaced script was found by its pieces already, if it status anywhere.
        if not (terms := analysis.substrings() if not indexed else analysis.long_words()):
            return Candidates()
        found = self._store.match_substrings(
            terms, filters=filters, now=now, limit=limit, indexed=indexed
        )
        return Candidates(tuple(found.chunks), ("substring",) if found.chunks else ())

    def _unindexed(
        self, analysis: Analysis, filters: Filters, now: str, limit: int, error: StoreError
    ) -> Candidates:
        """FTS5 is missing or its tables are damaged: read every chunk, and say so [003]."""
        found = self._substrings(analysis, filters, now, limit, indexed=False)
        note = Degraded("lexical", "failed", f"substring search instead: {error.message}")
        return Candidates(found.ranked, found.tiers, degraded=(note,))


def _append(first: list[ScoredChunk], second: list[ScoredChunk]) -> list[ScoredChunk]:
    """`second` behind `first`, without its repetitions, and with scores that do not rise again."""
    seen = {hit.chunk_id for hit in first}
    ceiling = first[-1].score if first else 1.0
    fresh = [hit for hit in second if hit.chunk_id not in seen]
    return first + [
        ScoredChunk(hit.chunk_id, min(hit.score, ceiling), rank)
        for rank, hit in enumerate(fresh, start=len(first) + 1)
    ]
