"""Quality on the queries held out of training, to choose between runs."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training import data
from training.prepare import PREFIX, tokenise
from training.terms import Terms

DEPTH = 100
T = TypeVar("T")


def ndcg(ranked: list[str], judged: dict[str, int], k: int = 10) -> float:
    gains = [2 ** judged.get(document, 0) - 1 for document in ranked[:k]]
    ideal = sorted((2**grade - 1 for grade in judged.values()), reverse=True)[:k]
    total = [sum(g / math.log2(r + 2) for r, g in enumerate(row)) for row in (gains, ideal)]
    return total[0] / total[1]


def rrf(*lists: list[T], k: int = 60) -> list[T]:
    score: dict[T, float] = {}
    for ranked in lists:
        for rank, item in enumerate(ranked, start=1):
            score[item] = score.get(item, 0.0) + 1 / (k + rank)
    return sorted(score, key=lambda item: -score[item])


def standard(values: Tensor) -> Tensor:
    return (values - values.mean()) / values.std().clamp(min=1e-9)


@torch.no_grad()
def held_out_quality(trainer: Any, work: Path) -> dict[str, dict[str, float]]:
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    return {
        name: _collection(trainer, tokenizer, work / "judged" / name, split)
        for name, split in data.JUDGED.items()
    }


def _collection(trainer: Any, tokenizer: Any, folder: Path, split: str) -> Any:
    prefix, terms = tokenise(tokenizer, [PREFIX], 64)[0][1:-1], Terms(tokenizer)
    corpus = list(data.lines(folder / "corpus.jsonl.gz"))
    texts = {row["_id"]: row["text"] for row in data.lines(folder / "queries.jsonl.gz")}
    judged = {q: grades for q, grades in data.judgments(folder, split).items() if data.held_out(q)}
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE f USING fts5(t, tokenize = 'porter unicode61')")
    passages = [data.passage_text(row) for row in corpus]
    database.executemany("INSERT INTO f(rowid, t) VALUES (?, ?)", enumerate(passages))
    rows = tokenise(tokenizer, passages, 512)
    parts = [
        trainer.encode(some, [terms(row) for row in some], query=False)
        for some in (rows[start : start + 256] for start in range(0, len(rows), 256))
    ]
    dense, sparse = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("dense", "sparse")
    )
    late = [
        part.tokens[i][part.counts[i]].half() for part in parts for i in range(len(part.tokens))
    ]
    total: dict[str, float] = {"terms": (sparse > 0.01).sum(-1).float().mean().item()}
    for query, grades in judged.items():
        ids = tokenise(tokenizer, [texts[query]], 64)[0]
        ids = [ids[0], *prefix, *ids[1:]]
        encoded_query = trainer.encode([ids], [terms(ids)], query=True)
        keyword = dict(data.keyword_scores(database, texts[query], DEPTH, stop=False))
        d, s = (encoded_query.dense @ dense.T)[0], (encoded_query.sparse @ sparse.T)[0]
        lists = [list(keyword), d.topk(DEPTH).indices.tolist(), s.topk(DEPTH).indices.tolist()]
        pool = rrf(*lists)
        stack = torch.nn.utils.rnn.pad_sequence([late[i] for i in pool], batch_first=True).float()
        m = (
            torch.einsum("id,bjd->bij", encoded_query.tokens[0][encoded_query.counts[0]], stack)
            .amax(-1)
            .mean(-1)
        )
        k = torch.tensor([keyword.get(i, 0.0) for i in pool], device=d.device)
        zk, zd, zs, zm = standard(k), standard(d[pool]), standard(s[pool]), standard(m)

        def by(values: Tensor, pool: list[int] = pool) -> list[int]:
            return [pool[i] for i in values.argsort(descending=True, stable=True).tolist()]

        runs = {
            "fts": lists[0],
            "dense": lists[1],
            "sparse": lists[2],
            "maxsim": by(m),
            "two": rrf(*lists[:2]),
            "three": pool,
            "z2": by(zk + zd),
            "z3": by(zk + zd + zs),
            "z4": by(zk + 2 * zd + zs + 2 * zm),
            "zd": by(0.5 * zk + 3 * zd + zs + 2 * zm),
        }
        for name, ranked in runs.items():
            gain = ndcg([corpus[i]["_id"] for i in ranked], grades) / len(judged)
            total[name] = total.get(name, 0.0) + gain
    return {name: round(value, 4) for name, value in total.items()}
