"""The quality of rerankers: nDCG@10 of the same candidates in another order.

    python -m training.judge_quality ENCODER_FOLDER JUDGE_FOLDER DATA [--queries 100]

The candidates are the first 50 and the first 100 of words and meaning in the fusion of the profile
`default`: the z-score sum of FTS5 (0.3) and dense (0.7). They are ordered by the judge, by MaxSim
over token vectors in each storage format, and by blends of either with the fused score: `blend *
z(reranker) + (1 - blend) * z(fused)`, over the candidates. The blend is chosen on queries of
`train` and `dev` that were held out of training; the table is for `test`.

Vectors come from the cache of `training.measure`; the judge's scores are cached beside them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kb.index import token_codes
from kb.models import manifest
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.onnx_judge import OnnxJudge
from training import data
from training.heldout import ndcg, rrf
from training.measure import SETS, collection, table
from training.scores import Collection, standard

WEIGHTS = {"fts": 0.3, "dense": 0.7}
DEPTHS = (50, 100)
BLENDS = [step / 10 for step in range(11)]
FORMATS = ("float16", "int8", "2-bit", "1-bit")


@dataclass(frozen=True)
class RankedQuery:
    """One query: its candidates, best first, and every reranker's score of each."""

    ids: list[str]
    judged: dict[str, int]
    fused: Any
    scores: dict[str, Any]

    def ndcg(self, depth: int, name: str, blend: float) -> float:
        total = (1 - blend) * standard(self.fused[:depth])
        if blend:
            total = total + blend * standard(self.scores[name][:depth])
        order = np.argsort(-total, kind="stable")
        return ndcg([self.ids[i] for i in order], self.judged)


def candidates(part: Collection, number: int) -> tuple[list[int], Any]:
    """The first candidates of the fused list, with their fused scores."""
    dense = part.passage_encodings.dense @ part.query_encodings.dense[number]
    words = part.keywords[number]
    nearest = np.argsort(-dense, kind="stable")[:100].tolist()
    pool = rrf(list(words), nearest)
    fused = WEIGHTS["dense"] * standard(dense[pool])
    fused = fused + WEIGHTS["fts"] * standard(np.array([words.get(i, 0.0) for i in pool]))
    order = np.argsort(-fused, kind="stable")[: max(DEPTHS)]
    return [pool[i] for i in order], fused[order]


def maxsim(query: Any, passage: Any) -> float:
    return float((query @ passage.T).max(-1).mean()) if len(passage) and len(query) else 0.0


def stored(rows: Any, form: str) -> Any:
    """Token vectors after a round trip through this storage format."""
    from kb.types import TokenVectors

    vectors = TokenVectors(rows.shape[1], np.ascontiguousarray(rows, "f4"))  # type: ignore[arg-type]
    return token_codes.decode_rows(token_codes.encode(vectors, form))


def judged_by(judge: OnnxJudge, part: Collection, lists: list[list[int]], cache: Path) -> list[Any]:
    if not cache.exists():
        rows, started = [], time.perf_counter()
        for number, row in enumerate(lists):
            rows.append(judge.scores(part.queries[number], [part.passages[i] for i in row]))
            pace = (time.perf_counter() - started) / len(rows)
            print(f"\r{cache.stem} {len(rows)}/{len(lists)}, {pace:.2f} s each", end="", flush=True)
        print()
        np.savez(cache, lengths=[len(row) for row in rows], scores=np.concatenate(rows))
    arrays = np.load(cache)
    return np.split(arrays["scores"], np.cumsum(arrays["lengths"])[:-1])


def ranked_queries(
    part: Collection, judge: OnnxJudge, cache: Path, limit: int
) -> list[RankedQuery]:
    rows_by_query = [candidates(part, number) for number in range(min(limit, len(part.queries)))]
    judged = judged_by(judge, part, [ids for ids, _ in rows_by_query], cache)
    every = []
    for number, (places, fused) in enumerate(rows_by_query):
        query = part.query_encodings.tokens[number]
        scores = {"judge": judged[number]}
        for form in FORMATS:
            rows = [stored(part.passage_encodings.tokens[i], form) for i in places]
            scores[form] = np.array([maxsim(query, row) for row in rows])
        ids = [part.ids[i] for i in places]
        every.append(RankedQuery(ids, part.judged[number], fused, scores))
    return every


def mean(queries: list[RankedQuery], depth: int, name: str, blend: float) -> float:
    return float(np.mean([query.ndcg(depth, name, blend) for query in queries]))


def chosen(development: dict[str, list[RankedQuery]], depth: int, name: str) -> float:
    """The blend with the best mean over the development collections."""
    return max(
        BLENDS,
        key=lambda blend: np.mean([mean(q, depth, name, blend) for q in development.values()]),
    )


def report(development: dict[str, list[RankedQuery]], test: dict[str, list[RankedQuery]]) -> None:
    columns = {
        f"{name} (held out)": rows_by_query for name, rows_by_query in development.items()
    } | test
    rows: dict[str, dict[str, float]] = {}
    for depth in DEPTHS:
        rows[f"{depth}: fused order"] = {n: mean(q, depth, "", 0.0) for n, q in columns.items()}
        for name in ("judge", *FORMATS):
            best = chosen(development, depth, name)
            label = name if name == "judge" else f"MaxSim {name}"
            for blend in sorted({best, 1.0}):
                row = f"{depth}: {label}, blend {blend:g}"
                rows[row] = {n: mean(q, depth, name, blend) for n, q in columns.items()}
    print(table(rows))
    print("\nBy blend, 100 candidates:")
    print(
        table(
            {
                f"{name} {blend:g}": {n: mean(q, 100, name, blend) for n, q in columns.items()}
                for name in ("judge", "2-bit")
                for blend in BLENDS
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path)
    parser.add_argument("judge", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("build/measure"))
    parser.add_argument(
        "--queries", type=int, default=100, help="maximum number of queries of each test set"
    )
    parser.add_argument(
        "--held-out", type=int, default=60, help="maximum number of queries to choose the blend by"
    )
    parser.add_argument("--sets", nargs="*", default=SETS)
    options = parser.parse_args()
    encoder = OnnxEncoder(manifest.read(options.encoder))
    judge = OnnxJudge(manifest.read(options.judge))

    def read(name: str, split: str, limit: int) -> list[RankedQuery]:
        part = collection(options.data / name, encoder, options.cache, split)
        kind = f"{judge.spec.name}-{judge.spec.version}-of-{encoder.spec.version}"
        return ranked_queries(
            part, judge, options.cache / f"{kind}-{name}-{split}-{limit}.npz", limit
        )

    development = {name: read(name, split, options.held_out) for name, split in data.JUDGED.items()}
    report(development, {name: read(name, "test", options.queries) for name in options.sets})


if __name__ == "__main__":
    main()
