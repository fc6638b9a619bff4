"""Collapsing, the last stage that changes the order. Duplicates become part of a better hit, texts
that many documents repeat move below the others, a synopsis moves below the explanation, and the
number of first hits from one document is limited.

The order does not depend on the number of hits requested, so that a longer list starts with the
shorter one. Only the first 60 candidates change their order; later ones only lose their duplicates,
and only if the list is long enough to show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.search.ranking.diversity import FIRST, limit_per_document, non_increasing
from kb.search.ranking.duplicates import NEAR, DuplicateFinder
from kb.search.ranking.prose import is_prose, put_prose_first
from kb.search.ranking.repetition import MIN_DOCUMENTS, demote, words_in
from kb.types import ScoredChunk

if TYPE_CHECKING:
    from kb.search.query.analysis import Analysis
    from kb.search.results.hits import CandidateCache
    from kb.types import ChunkText, Hit

WINDOW = 60  # how many candidates may change their order
SHOWN = 20  # how many duplicates a hit cites


@dataclass(frozen=True, slots=True)
class Collapse:
    """The settings of a profile: whether duplicates collapse and repeated texts are demoted, and
    how many passages of a document may be among the first hits; 0 means any number."""

    duplicates: bool = False
    per_document: int = 0

    def start(self, analysis: Analysis) -> CollapsedRanking:
        """The empty list at the start of a search."""
        return CollapsedRanking(self, analysis)

    def __repr__(self) -> str:
        parts = ["duplicates"] * self.duplicates
        parts += [f"{self.per_document} per document"] * (self.per_document > 0)
        return f"collapse({', '.join(parts)})"


@dataclass(slots=True)
class CollapsedRanking:
    """The ranked list of one search without duplicates. `duplicates` has the chunks that became
    part of a hit; `moved` has the number of passages below the first hits, by document."""

    stage: Collapse
    analysis: Analysis
    ranked: list[ScoredChunk] = field(default_factory=list)
    duplicates: dict[int, list[int]] = field(default_factory=dict)
    moved: Mapping[int, int] = field(default_factory=dict)
    _finder: DuplicateFinder = field(default_factory=DuplicateFinder)

    def add(self, batch: Sequence[ScoredChunk], cache: CandidateCache, top: int) -> None:
        """Append a batch of candidates, of which the list needs up to `top`."""
        if not self.ranked:
            self.ranked += self._arrange(batch[:WINDOW], cache)
            batch = batch[WINDOW:]
        if self.stage.duplicates and len(self.ranked) < top and batch:
            batch = self._without_duplicates(batch, cache.texts(batch))
        self.ranked += batch

    def with_duplicates(self, chunk_ids: Sequence[int]) -> list[int]:
        """These chunks, and those of their duplicates that a hit cites."""
        return [*chunk_ids] + [
            each for chunk_id in chunk_ids for each in self.duplicates.get(chunk_id, [])[:SHOWN]
        ]

    @property
    def count(self) -> int:
        """How many candidates became part of another hit."""
        return sum(map(len, self.duplicates.values()))

    def annotate(self, hits: Sequence[Hit], cache: CandidateCache) -> tuple[Hit, ...]:
        """Hits with their duplicates. The last of a document's first hits also gets
        `more_in_document`: how many of its passages were moved below the first hits."""
        shown = Counter(hit.doc_id for hit in hits[:FIRST])
        last = {hit.doc_id: hit.chunk_id for hit in hits[:FIRST]}
        annotated = []
        for hit in hits:
            duplicates = self.duplicates.get(hit.chunk_id, [])
            full = shown[hit.doc_id] >= self.stage.per_document
            is_last = full and last.get(hit.doc_id) == hit.chunk_id
            moved = self.moved.get(hit.doc_id, 0) if is_last else 0
            if duplicates or moved:
                uris = tuple(cache.citation(each).uri for each in duplicates[:SHOWN])
                hit = replace(
                    hit, duplicates=len(duplicates), duplicate_uris=uris, more_in_document=moved
                )
            annotated.append(hit)
        return tuple(annotated)

    def _arrange(self, batch: Sequence[ScoredChunk], cache: CandidateCache) -> list[ScoredChunk]:
        ranked, texts = list(batch), cache.texts(batch)
        documents = {chunk_id: text.doc_id for chunk_id, text in texts.items()}
        if self.stage.duplicates:
            ranked = self._without_duplicates(ranked, texts)
            ranked = self._demote(ranked, texts)
            ranked = self._put_prose_first(ranked, texts, documents)
        if self.stage.per_document:
            diverse = limit_per_document(ranked, documents, self.stage.per_document)
            ranked, self.moved = diverse.ranked, diverse.moved
        return non_increasing(ranked)

    def _without_duplicates(
        self, batch: Sequence[ScoredChunk], texts: Mapping[int, ChunkText]
    ) -> list[ScoredChunk]:
        kept = []
        for one in batch:
            better = self._finder.add(one.chunk_id, texts[one.chunk_id].text)
            if better is None:
                kept.append(one)
            else:
                self.duplicates.setdefault(better, []).append(one.chunk_id)
        return kept

    def _demote(
        self, ranked: list[ScoredChunk], texts: Mapping[int, ChunkText]
    ) -> list[ScoredChunk]:
        first, rest = ranked[:NEAR], ranked[NEAR:]
        repeated = {one.chunk_id for one in first if texts[one.chunk_id].copies >= MIN_DOCUMENTS}
        if not repeated:
            return ranked
        words = self._words()
        counts = {one.chunk_id: words_in(texts[one.chunk_id].text, words) for one in first}
        return demote(first, repeated, counts) + rest

    def _put_prose_first(
        self,
        ranked: list[ScoredChunk],
        texts: Mapping[int, ChunkText],
        documents: Mapping[int, int],
    ) -> list[ScoredChunk]:
        first, rest = ranked[:FIRST], ranked[FIRST:]
        shared = Counter(documents[one.chunk_id] for one in first)
        words = self._words()
        prose = {
            one.chunk_id: is_prose(texts[one.chunk_id].text)
            for one in first
            if shared[documents[one.chunk_id]] > 1
            and words_in(texts[one.chunk_id].text, words) == len(words)
        }
        return put_prose_first(first, documents, prose) + rest

    def _words(self) -> list[str]:
        content = self.analysis.content
        return [word[0].casefold() for word in content.words] + list(content.runs)
