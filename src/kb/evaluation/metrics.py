"""Measures of one ranking: nDCG, Recall, Precision, MRR and Success. Pure.

Each measure is a function of the ranked document ids and the judgments of a query, and a value with
a name: `parse_measure("nDCG@10")`. The conventions are those of trec_eval and ir-measures:

- A document is relevant if its grade is 1 or more. A negative grade counts as 0, like no grade.
- Precision divides by k, even if fewer than k documents are returned.
- A mean includes every query in the judgments. A query counts as 0 if it has no results or no
  relevant documents. Queries without judgments are left out.

If a ranking repeats a document, only the first occurrence counts, and later documents move up. An
unjudged document is not relevant. Documents with equal scores stay in the order of the ranking;
trec_eval would order them by id, last id first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import log2

from kb.errors import InvalidRequest, check_choice

Judgments = Mapping[str, int]  # document id -> grade

# The gain of a grade above 0 in nDCG. Published BEIR results are linear.
_GAINS: Mapping[str, Callable[[int], float]] = {
    "linear": float,
    "exp": lambda grade: 2.0**grade - 1.0,
}
GAINS = tuple(_GAINS)


# --- measures as functions ------------------------------------------------------------------------


def ndcg(
    ranked_ids: Iterable[str], judgments: Judgments, k: int | None = None, gain: str = "linear"
) -> float:
    """Discounted gain of the first k documents (of all documents if k is None), divided by the best
    possible."""
    gain_of = _GAINS[check_choice("gain", gain, GAINS)]
    gains = {doc_id: gain_of(judgments[doc_id]) for doc_id in _relevant(judgments)}
    gained = _discounted_gain(gains.get(doc_id, 0.0) for doc_id in _top(ranked_ids, k))
    ideal = _discounted_gain(sorted(gains.values(), reverse=True)[:k])
    return gained / ideal if ideal else 0.0


def recall(ranked_ids: Iterable[str], judgments: Judgments, k: int) -> float:
    """The share of the relevant documents among the first k."""
    relevant = _relevant(judgments)
    hits = relevant.intersection(_top(ranked_ids, k))
    return len(hits) / len(relevant) if relevant else 0.0


def precision(ranked_ids: Iterable[str], judgments: Judgments, k: int) -> float:
    """The share of the first k ranks that hold a relevant document."""
    return len(_relevant(judgments).intersection(_top(ranked_ids, k))) / k


def reciprocal_rank(ranked_ids: Iterable[str], judgments: Judgments, k: int | None = None) -> float:
    """1 / rank of the first relevant document; 0 if none is among the first k."""
    relevant = _relevant(judgments)
    for rank, doc_id in enumerate(_top(ranked_ids, k), start=1):
        if doc_id in relevant:
            return 1 / rank
    return 0.0


def success(ranked_ids: Iterable[str], judgments: Judgments, k: int) -> float:
    """1 if a relevant document is among the first k, else 0."""
    return 0.0 if _relevant(judgments).isdisjoint(_top(ranked_ids, k)) else 1.0


def distinct(ids: Iterable[str]) -> list[str]:
    """Each id once, in the order of first appearance."""
    return list(dict.fromkeys(ids))


def _relevant(judgments: Judgments) -> set[str]:
    return {doc_id for doc_id, grade in judgments.items() if grade > 0}


def _top(ranked_ids: Iterable[str], k: int | None) -> list[str]:
    if k is not None and k < 1:
        raise InvalidRequest(f"a cut-off cannot be {k}", "k starts at 1")
    return distinct(ranked_ids)[:k]


def _discounted_gain(gains: Iterable[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


# --- measures as values ---------------------------------------------------------------------------

# Accepted names, in lower case; the short ones are those of trec_eval and ir-measures.
_NAMES: Mapping[str, str] = {
    "ndcg": "nDCG",
    "recall": "Recall",
    "r": "Recall",
    "precision": "Precision",
    "p": "Precision",
    "mrr": "MRR",
    "rr": "MRR",
    "success": "Success",
}
_WITH_CUTOFF: Mapping[str, Callable[[Iterable[str], Judgments, int], float]] = {
    "Recall": recall,
    "Precision": precision,
    "Success": success,
}
_TEXT = re.compile(r"([A-Za-z]+)(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure and its cut-off: `str(Measure("nDCG", 10))` is `nDCG@10`."""

    name: str
    k: int | None = None

    def __post_init__(self) -> None:
        known = self.name in _NAMES.values()
        cut = self.name not in _WITH_CUTOFF if self.k is None else self.k >= 1
        if not (known and cut):
            raise _unknown(str(self))

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    def score(self, ranked_ids: Iterable[str], judgments: Judgments, gain: str = "linear") -> float:
        """The value for one query, in [0, 1]. Only nDCG uses `gain`."""
        if self.name == "nDCG":
            return ndcg(ranked_ids, judgments, self.k, gain)
        if self.name == "MRR":
            return reciprocal_rank(ranked_ids, judgments, self.k)
        assert self.k is not None  # see `__post_init__`
        return _WITH_CUTOFF[self.name](ranked_ids, judgments, self.k)


def parse_measure(text: str) -> Measure:
    """Parse `nDCG@10`, `Recall@100`, `P@10`, `Precision@10`, `MRR` or `success@5`, in any case."""
    match = _TEXT.fullmatch(text.strip())
    name = _NAMES.get(match[1].lower()) if match else None
    if match is None or name is None:
        raise _unknown(text)
    return Measure(name, int(match[2]) if match[2] else None)


def _unknown(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text!r} is not a measure",
        "measures: nDCG, nDCG@k, Recall@k, Precision@k (or P@k), MRR, MRR@k, Success@k, "
        "with k from 1",
    )


# --- many queries ---------------------------------------------------------------------------------


def per_query(
    measure: Measure,
    rankings: Mapping[str, Iterable[str]],
    qrels: Mapping[str, Judgments],
    gain: str = "linear",
) -> dict[str, float]:
    """The value of the measure for every judged query."""
    return {
        query_id: measure.score(rankings.get(query_id, ()), judgments, gain)
        for query_id, judgments in qrels.items()
    }
