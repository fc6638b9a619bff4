"""Fusion: several ranked lists to one (spec 6). Pure functions over scores and ranks.

    rrf        sum of w / (k + rank): ranks only, so that no scale matters
    weighted   sum of w * score, on the retrievers' own scales [003]
    convex     sum of w * normalised score over all candidates, by z-score or min-max: keeps how far
               apart the scores are, and so a strong retriever is not dragged to a weak one

Every sum is `math.fsum`, which is exact: the order of the lists cannot change a result. Equal
scores are ordered by lexical rank, then by chunk id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import exp, fsum, inf, isnan, sqrt

from kb.errors import check_choice
from kb.types import ScoredChunk

FUSIONS = ("none", "rrf", "weighted", "convex")
NORMALISATIONS = ("zscore", "minmax")
OWN_KINDS = {"lexical": "bm25", "dense": "cosine", "sparse": "sparse"}

RRF_K = 60.0
_LARGEST = 1e6  # scores beyond it, and infinite ones, count as this
_KEYWORD_LEAST, _KEYWORD_REACH = 0.35, 0.64  # see `keyword_score`
_NEARLY_ONE = 0.999  # a substring hit may hold every word, and has a score of 1


@dataclass(frozen=True, slots=True)
class RankedList:
    """One retriever's list on its way into a fusion.

    `known` are true scores of candidates that only other lists hold. What is in neither counts as
    `absent` says: `zero` (a chunk without a word of the query has no BM25), `least` (as good as
    the last of the list, at most) or `half` of that (a list that was cut: some of what is missing
    would have followed). What is `unknown`, since no score can be had, is neither good nor bad. A
    list that was never made (`ran` is False) leaves its weight to the others.
    """

    name: str
    ranked: Sequence[ScoredChunk] = ()
    weight: float = 1.0
    known: Mapping[int, float] = field(default_factory=dict)
    unknown: Set[int] = frozenset()
    absent: str = "least"
    ran: bool = True

    def scores(self) -> dict[int, float]:
        """Every score there is, by chunk."""
        found = {one.chunk_id: _finite(one.score) for one in self.ranked}
        return {chunk: _finite(score) for chunk, score in self.known.items()} | found


@dataclass(frozen=True, slots=True)
class Fusion:
    """Which way to fuse, as a profile says it."""

    name: str
    k: float = RRF_K
    normalisation: str = "zscore"

    def __call__(self, lists: Sequence[RankedList]) -> list[ScoredChunk]:
        """One list of all that the lists hold, best first."""
        ran = [ranked_list for ranked_list in lists if ranked_list.ran]
        if self.name == "rrf":
            return rrf(ran, self.k)
        if self.name == "weighted":
            return weighted_sum(lists)
        if len(ran) == 1:
            (alone,) = ran
            return list(alone.ranked)
        return convex_sum(ran, self.normalisation)

    def kind(self, lists: Sequence[RankedList]) -> str:
        """The scale of the scores: the retriever's own, where there is nothing to fuse. RRF and
        weighted sums keep their scale even then, since thresholds are set for it."""
        if self.name in ("rrf", "weighted"):
            return self.name
        names = [ranked_list.name for ranked_list in lists if ranked_list.ran]
        return OWN_KINDS[names.pop()] if len(names) == 1 else "fused"

    def __repr__(self) -> str:
        inside = {"rrf": f"k={self.k:g}", "convex": self.normalisation}.get(self.name, "")
        return f"{self.name}({inside})"


# --- the sums -------------------------------------------------------------------------------------


def rrf(lists: Sequence[RankedList], k: float = RRF_K) -> list[ScoredChunk]:
    """Reciprocal rank fusion: `sum of w / (k + rank)`, ranks from 1."""
    parts: dict[int, list[float]] = {}
    for ranked_list in lists:
        for one in ranked_list.ranked:
            parts.setdefault(one.chunk_id, []).append(ranked_list.weight / (k + one.rank))
    return _rank({chunk: fsum(terms) for chunk, terms in parts.items()}, lists)


def weighted_sum(lists: Sequence[RankedList]) -> list[ScoredChunk]:
    """`sum of w * score` [003]. A candidate has 0 in a list that did not find it, and the weight of
    a list that never ran goes to those that did, in proportion."""
    ran = [ranked_list for ranked_list in lists if ranked_list.ran]
    weights = _scale([ranked_list.weight for ranked_list in ran], fsum(one.weight for one in lists))
    parts: dict[int, list[float]] = {}
    for ranked_list, weight in zip(ran, weights, strict=True):
        for chunk, score in ranked_list.scores().items():
            parts.setdefault(chunk, []).append(weight * _on_one_scale(ranked_list.name, score))
    return _rank({chunk: fsum(terms) for chunk, terms in parts.items()}, ran)


def _on_one_scale(retriever: str, score: float) -> float:
    """From 0 to 1. A product of sparse weights has no upper end: like BM25, it is bent to one."""
    if retriever == "lexical":
        return keyword_score(score)
    least = max(0.0, score)
    return least / (1.0 + least) if retriever == "sparse" else least


def keyword_score(score: float) -> float:
    """A lexical score as the weighted sum takes it. FTS5 gives almost nothing to a word that status
    in most chunks, and a `min_score` would silently delete such hits; from 0.35 upwards, a weight
    of 0.3 keeps every one of them above 0.1."""
    return _KEYWORD_LEAST + _KEYWORD_REACH * score


def spread(score: float) -> float:
    """A lexical score as the convex sum takes it: the BM25 that it came from. `b / (1 + b)` presses
    all good hits together just below 1, so that no mean of them and a zero says anything."""
    return score / (1.0 - min(score, _NEARLY_ONE))


def convex_sum(lists: Sequence[RankedList], normalisation: str = "zscore") -> list[ScoredChunk]:
    """Weighted mean of the scores, each list normalised over all candidates. By z-score it is
    brought to (0, 1) by the logistic function, so that boosts can multiply it."""
    check_choice("normalisation", normalisation, NORMALISATIONS)
    chunks = sorted({one.chunk_id for ranked_list in lists for one in ranked_list.ranked})
    weights = [ranked_list.weight for ranked_list in lists]
    columns = [
        _normalize_column(_column(ranked_list, chunks), normalisation) for ranked_list in lists
    ]
    totals = [_mean(values, weights) for values in zip(*columns, strict=True)]
    if normalisation == "zscore":
        totals = [1.0 / (1.0 + exp(-total)) for total in totals]
    return _rank(dict(zip(chunks, totals, strict=True)), lists)


# --- parts ----------------------------------------------------------------------------------------


def _column(ranked_list: RankedList, chunks: Iterable[int]) -> list[float | None]:
    """The list's score of every candidate; None where it cannot know it."""
    scores = ranked_list.scores()
    if ranked_list.name == "lexical":
        scores = {chunk: spread(score) for chunk, score in scores.items()}
    least = min(scores.values(), default=0.0)
    absent = {"zero": min(0.0, least), "half": min(least, least / 2)}.get(ranked_list.absent, least)
    return [None if chunk in ranked_list.unknown else scores.get(chunk, absent) for chunk in chunks]


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float:
    """By weight, over the lists that can know the candidate: a new note has its place by words
    until it has a vector."""
    known = [
        (value, weight) for value, weight in zip(values, weights, strict=True) if value is not None
    ]
    own = _scale([weight for _, weight in known], 1.0)
    return fsum(value * weight for (value, _), weight in zip(known, own, strict=True))


def _normalize_column(column: Sequence[float | None], normalisation: str) -> list[float | None]:
    """Where all are equal the list says nothing, and every candidate gets the same."""
    present = [value for value in column if value is not None]
    if not present:
        return list(column)
    if normalisation == "minmax":
        origin, middle = min(present), 0.5
        spread = max(present) - origin
    else:
        origin, middle = fsum(present) / len(present), 0.0
        spread = sqrt(fsum((value - origin) ** 2 for value in present) / len(present))
    if spread <= 1e-12 * max(1.0, abs(origin)):
        return [None if value is None else middle for value in column]
    return [None if value is None else (value - origin) / spread for value in column]


def _scale(weights: Sequence[float], total: float) -> list[float]:
    """The weights, scaled to sum up to `total`; equal ones where all are 0."""
    own = fsum(weights)
    if own <= 0.0:
        return [total / len(weights) for _ in weights]
    return [weight / own * total for weight in weights]


def _rank(scores: Mapping[int, float], lists: Sequence[RankedList]) -> list[ScoredChunk]:
    words = next((ranked_list.ranked for ranked_list in lists if ranked_list.name == "lexical"), ())
    lexical = {one.chunk_id: one.rank for one in words}
    order = sorted(scores, key=lambda chunk: (-scores[chunk], lexical.get(chunk, inf), chunk))
    return [ScoredChunk(chunk, scores[chunk], rank) for rank, chunk in enumerate(order, start=1)]


def _finite(score: float) -> float:
    return 0.0 if isnan(score) else max(-_LARGEST, min(_LARGEST, score))
