"""Diversity: no document fills the first hits. Pure.

Among the first ten hits, a document has at most `limit`. Its other passages follow below, in their
order. They are moved only for passages with at least half their score: if nothing else is relevant,
the document keeps its places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kb.types import ScoredChunk

FIRST = 10
_RELEVANT = 0.5  # the share of a moved passage's score that another one must have


@dataclass(frozen=True, slots=True)
class DiverseRanking:
    """The new order, and how many passages were moved below the first hits, by document."""

    ranked: list[ScoredChunk]
    moved: Mapping[int, int] = field(default_factory=dict)


def limit_per_document(
    ranked: Sequence[ScoredChunk], documents: Mapping[int, int], limit: int
) -> DiverseRanking:
    """Move all but the best `limit` passages of a document below the first hits. `documents` maps
    each chunk to its document."""
    first: list[ScoredChunk] = []
    moved: list[ScoredChunk] = []
    rest: Sequence[ScoredChunk] = ()
    counts: Counter[int] = Counter()
    for at, one in enumerate(ranked):
        document = documents[one.chunk_id]
        irrelevant = moved and one.score < _RELEVANT * moved[0].score
        if len(first) == FIRST or irrelevant:
            rest = ranked[at:]
            break
        if counts[document] < limit:
            counts[document] += 1
            first.append(one)
        else:
            moved.append(one)
    below = moved[max(0, FIRST - len(first)) :]
    return DiverseRanking(
        non_increasing([*first, *moved, *rest]),
        Counter(documents[one.chunk_id] for one in below),
    )


def non_increasing(ranked: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Lower each score that exceeds the one before it, so that scores never rise along the
    ranking."""
    capped: list[ScoredChunk] = []
    for one in ranked:
        exceeds = capped and one.score > capped[-1].score
        capped.append(one._replace(score=capped[-1].score) if exceeds else one)
    return capped
