"""Rankings of one collection from precomputed vectors: every retriever, and sums of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from training.heldout import ndcg, rrf

DEPTH = 100


@dataclass(frozen=True)
class Collection:
    ids: list[str]
    passages: list[str]
    queries: list[str]
    judged: list[dict[str, int]]
    passage_encodings: Any  # measure.Encoded
    query_encodings: Any
    keywords: list[dict[int, float]]


@dataclass(frozen=True)
class Runs:
    """One query: the candidates of all retrievers pooled, and the score of each from every
    retriever."""

    ids: list[str]  # of the pool
    judged: dict[str, int]
    lists: dict[str, list[str]]
    z: dict[str, Any]  # standard scores over the pool

    def by(self, values: Any) -> list[str]:
        return [self.ids[i] for i in np.argsort(-values, kind="stable")]

    def ndcg_of_sum(self, weights: dict[str, float]) -> float:
        return ndcg(self.by(sum(w * self.z[name] for name, w in weights.items())), self.judged)


def standard(values: Any) -> Any:
    return (values - values.mean()) / max(float(values.std()), 1e-9)


def runs_of(part: Collection) -> list[Runs]:
    postings = _postings(part.passage_encodings.sparse)
    return [_run(part, number, postings) for number in range(len(part.queries))]


def _run(part: Collection, number: int, postings: dict[str, Any]) -> Runs:
    dense = part.passage_encodings.dense @ part.query_encodings.dense[number]
    sparse = np.zeros(len(part.ids), "f4")
    for term, weight in part.query_encodings.sparse[number].items():
        if term in postings:
            rows, weights = postings[term]
            sparse[rows] += weight * weights
    keyword = part.keywords[number]
    lists = {"fts": list(keyword), "dense": _top(dense), "sparse": _top(sparse)}
    pool = rrf(*lists.values())
    query = part.query_encodings.tokens[number]
    late = np.array(
        [
            (query @ part.passage_encodings.tokens[i].T).max(-1).mean()
            if len(part.passage_encodings.tokens[i])
            else 0.0
            for i in pool
        ]
    )
    words = np.array([keyword.get(i, 0.0) for i in pool])
    named = {name: [part.ids[i] for i in ranked] for name, ranked in lists.items()}
    z = {
        "fts": standard(words),
        "dense": standard(dense[pool]),
        "sparse": standard(sparse[pool]),
        "maxsim": standard(late),
    }
    return Runs([part.ids[i] for i in pool], part.judged[number], named, z)


def _top(scores: Any) -> list[int]:
    order = np.argsort(-scores, kind="stable")[:DEPTH]
    return [int(i) for i in order if scores[i] > 0]


def _postings(rows: list[dict[str, float]]) -> dict[str, Any]:
    postings: dict[str, tuple[list[int], list[float]]] = {}
    for number, weights in enumerate(rows):
        for term, weight in weights.items():
            places = postings.setdefault(term, ([], []))
            places[0].append(number)
            places[1].append(weight)
    return {term: (np.array(r), np.array(w, "f4")) for term, (r, w) in postings.items()}


def rankings(runs: list[Runs], weights: dict[str, float]) -> dict[str, float]:
    """Mean nDCG@10 by method."""
    sums = {
        "z2: fts + dense": {"fts": 1.0, "dense": 1.0},
        "z3: + sparse": {"fts": 1.0, "dense": 1.0, "sparse": 1.0},
        "z4: + MaxSim": {"fts": 1.0, "dense": 2.0, "sparse": 1.0, "maxsim": 2.0},
        "best sum": weights,
    }
    table: dict[str, list[float]] = {}
    for run in runs:
        lists = run.lists
        ranked: dict[str, list[str]] = {
            "FTS5": lists["fts"],
            "dense": lists["dense"],
            "sparse": lists["sparse"],
            "MaxSim": run.by(run.z["maxsim"]),
            "two-way RRF": rrf(lists["fts"], lists["dense"]),
            "three-way RRF": rrf(*lists.values()),
        }
        for name, ids in ranked.items():
            table.setdefault(name, []).append(ndcg(ids, run.judged))
        for name, weights_of_sum in sums.items():
            table.setdefault(name, []).append(run.ndcg_of_sum(weights_of_sum))
    return {name: float(np.mean(values)) for name, values in table.items()}
