"""Fusion: several ranked lists become one. Pure functions over scores and ranks.

    rrf        sum of w / (k + rank): uses ranks only, so the scales of scores do not matter
    weighted   sum of w * score, with each score mapped to [0, 1] [003]
    convex     sum of w * normalized score over all candidates, by z-score or min-max: keeps the
               distances between scores, so that a weak retriever cannot drag down a strong one

Every sum is `math.fsum`, which is exact: the order of the lists cannot change a result. Ties are
broken by lexical rank, then by chunk id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import exp, fsum, inf, isnan, sqrt
from operator import mul

from kb.errors import check_choice
from kb.search.ranking.calibration import identity
from kb.search.retrievers import registry
from kb.search.retrievers.registry import LEXICAL
from kb.types import ScoredChunk, rank_chunks
from kb.values import dataclass, field

FUSIONS = ("none", "rrf", "weighted", "convex")
NORMALISATIONS = ("zscore", "minmax")

RRF_K = 60.0
_LARGEST = 1e6  # larger and infinite scores count as this


@dataclass(frozen=True, slots=True)
class RankedList:
    """The list of one retriever as input of a fusion.

    `known` holds the true scores of candidates that only other lists contain. Other candidates
    get the score that `absent` names: `zero` (a chunk without a word of the query has no BM25
    score), `least` (the lowest score in the list), or `half` of the lowest score (the list was cut,
    and some of the missing chunks would have followed). Candidates in `unknown` cannot be scored,
    and count neither for nor against. If the retriever did not run (`ran` is False), the other
    lists share its weight.
    """

    name: str
    ranked: Sequence[ScoredChunk] = ()
    weight: float = 1.0
    known: Mapping[int, float] = field(default_factory=dict)
    unknown: Set[int] = frozenset()
    absent: str = "least"
    ran: bool = True

    def scores(self) -> dict[int, float]:
        """All known scores, by chunk id."""
        ranked = _finite((chunk, score) for chunk, score, _ in self.ranked)
        return _finite(self.known.items()) | ranked if self.known else ranked


@dataclass(frozen=True, slots=True)
class Fusion:
    """The fusion method of a profile."""

    name: str
    k: float = RRF_K
    normalisation: str = "zscore"

    def __call__(self, lists: Sequence[RankedList]) -> list[ScoredChunk]:
        """Fuse the lists into one, best first."""
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
        """The kind of the fused scores. A single list keeps the scores of its retriever, except
        with RRF and weighted sums, because thresholds are set for their scale."""
        if self.name in ("rrf", "weighted"):
            return self.name
        names = [ranked_list.name for ranked_list in lists if ranked_list.ran]
        return registry.get(names.pop()).score_kind if len(names) == 1 else "fused"

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
    """`sum of w * score` [003]. A list adds nothing to candidates that it does not contain. The
    weight of a list that did not run is shared by the others, in proportion."""
    ran = [ranked_list for ranked_list in lists if ranked_list.ran]
    weights = _scale([ranked_list.weight for ranked_list in ran], fsum(one.weight for one in lists))
    parts: dict[int, list[float]] = {}
    for ranked_list, weight in zip(ran, weights, strict=True):
        for chunk, score in ranked_list.scores().items():
            parts.setdefault(chunk, []).append(weight * _unit_score(ranked_list.name, score))
    return _rank({chunk: fsum(terms) for chunk, terms in parts.items()}, ran)


def _unit_score(retriever: str, score: float) -> float:
    spec = registry.find(retriever)
    return max(0.0, score) if spec is None else spec.unit_score(score)


def convex_sum(lists: Sequence[RankedList], normalisation: str = "zscore") -> list[ScoredChunk]:
    """Weighted mean of the scores, each list normalized over all candidates. With z-scores, the
    logistic function maps the mean to (0, 1), so that boosts can multiply it."""
    check_choice("normalisation", normalisation, NORMALISATIONS)
    chunks = sorted({one.chunk_id for ranked_list in lists for one in ranked_list.ranked})
    weights = [ranked_list.weight for ranked_list in lists]
    columns = [
        _normalize_column(_column(ranked_list, chunks), normalisation) for ranked_list in lists
    ]
    shares = _scale(weights, 1.0)
    totals = [
        _mean(values, weights) if None in values else fsum(map(mul, values, shares))
        for values in zip(*columns, strict=True)
    ]
    if normalisation == "zscore":
        totals = [1.0 / (1.0 + exp(-total)) for total in totals]
    return _rank(dict(zip(chunks, totals, strict=True)), lists)


# --- parts ----------------------------------------------------------------------------------------


def _column(ranked_list: RankedList, chunks: Iterable[int]) -> list[float | None]:
    """The score of each candidate in this list; None if it is unknown."""
    scores = ranked_list.scores()
    spec = registry.find(ranked_list.name)
    if spec is not None and spec.linear_score is not identity:
        linear = spec.linear_score
        scores = {chunk: linear(score) for chunk, score in scores.items()}
    least = min(scores.values(), default=0.0)
    absent = {"zero": min(0.0, least), "half": min(least, least / 2)}.get(ranked_list.absent, least)
    if unknown := ranked_list.unknown:
        return [None if chunk in unknown else scores.get(chunk, absent) for chunk in chunks]
    return [scores.get(chunk, absent) for chunk in chunks]


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float:
    """The weighted mean over the lists that can score the candidate. A new note is ranked by its
    words until it has a vector."""
    known = [
        (value, weight) for value, weight in zip(values, weights, strict=True) if value is not None
    ]
    shares = _scale([weight for _, weight in known], 1.0)
    return fsum(value * weight for (value, _), weight in zip(known, shares, strict=True))


def _normalize_column(column: Sequence[float | None], normalisation: str) -> list[float | None]:
    """Normalize the scores. If all are equal, every candidate gets the same value."""
    present = [value for value in column if value is not None]
    if not present:
        return list(column)
    if normalisation == "minmax":
        origin, middle = min(present), 0.5
        spread = max(present) - origin
    else:
        origin, middle = fsum(present) / len(present), 0.0
        spread = sqrt(fsum([(value - origin) ** 2 for value in present]) / len(present))
    if spread <= 1e-12 * max(1.0, abs(origin)):
        return [None if value is None else middle for value in column]
    if len(present) == len(column):
        return [(value - origin) / spread for value in present]
    return [None if value is None else (value - origin) / spread for value in column]


def _scale(weights: Sequence[float], total: float) -> list[float]:
    """Scale the weights so that their sum is `total`; equal weights if all are 0."""
    current = fsum(weights)
    if current <= 0.0:
        return [total / len(weights) for _ in weights]
    return [weight / current * total for weight in weights]


def _rank(scores: Mapping[int, float], lists: Sequence[RankedList]) -> list[ScoredChunk]:
    words = next((ranked_list.ranked for ranked_list in lists if ranked_list.name == LEXICAL), ())
    lexical = {chunk: rank for chunk, _, rank in words}
    order = sorted((-score, lexical.get(chunk, inf), chunk) for chunk, score in scores.items())
    return rank_chunks([chunk for *_, chunk in order], [-score for score, *_ in order])


def _finite(scores: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The scores by chunk id, limited to `_LARGEST`. A NaN becomes 0."""
    return {
        chunk: score if -_LARGEST <= score <= _LARGEST else _limit(score) for chunk, score in scores
    }


def _limit(score: float) -> float:
    return 0.0 if isnan(score) else max(-_LARGEST, min(_LARGEST, score))
