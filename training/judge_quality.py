"""How good the rerankers are: nDCG@10 of the same candidates in another order.

    python -m training.judge_quality ENCODER_FOLDER JUDGE_FOLDER DATA [--queries 100]

Candidates are the first 50 and the first 100 of words and meaning as the profile `default` fuses
them: the z-score sum of FTS5 (0.3) and dense (0.7). They are put in the order of the judge, of
MaxSim over token vectors as they are stored (in each format), and of blends of either with the
fused score: `blend * z(reranker) + (1 - blend) * z(fused)`, over the candidates. The blend is
chosen on queries of `train` and `dev` that were held out of training; the table is of `test`.

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
class Asked:
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
    """The first ones of the fused list, and their fused scores."""
    dense = part.found.dense @ part.asked.dense[number]
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
    """Token vectors as they come back from a store that keeps them in this format."""
    from kb.types import TokenVectors

    vectors = TokenVectors(rows.shape[1], np.ascontiguousarray(rows, "f4"))  # type: ignore[arg-type]
    return token_codes.decoded(token_codes.encode(vectors, form))


def judged_by(judge: OnnxJudge, part: Collection, lists: list[list[int]], cache: Path) -> list[Any]:
    if not cache.exists():
        rows, started = [], time.perf_counter()
        for number, found in enumerate(lists):
            rows.append(judge.scores(part.queries[number], [part.passages[i] for i in found]))
            pace = (time.perf_counter() - started) / len(rows)
            print(f"\r{cache.stem} {len(rows)}/{len(lists)}, {pace:.2f} s each", end="", flush=True)
        print()
        np.savez(cache, lengths=[len(row) for row in rows], scores=np.concatenate(rows))
    arrays = np.load(cache)
    return np.split(arrays["scores"], np.cumsum(arrays["lengths"])[:-1])


def asked(part: Collection, judge: OnnxJudge, cache: Path, limit: int) -> list[Asked]:
    found = [candidates(part, number) for number in range(min(limit, len(part.queries)))]
    judged = judged_by(judge, part, [ids for ids, _ in found], cache)
    every = []
    for number, (places, fused) in enumerate(found):
        query = part.asked.tokens[number]
        scores = {"judge": judged[number]}
        for form in FORMATS:
            rows = [stored(part.found.tokens[i], form) for i in places]
            scores[form] = np.array([maxsim(query, row) for row in rows])
        ids = [part.ids[i] for i in places]
        every.append(Asked(ids, part.judged[number], fused, scores))
    return every


def mean(queries: list[Asked], depth: int, name: str, blend: float) -> float:
    return float(np.mean([query.ndcg(depth, name, blend) for query in queries]))


def chosen(development: dict[str, list[Asked]], depth: int, name: str) -> float:
    """The blend with the best mean over the development collections."""
    return max(
        BLENDS,
        key=lambda blend: np.mean([mean(q, depth, name, blend) for q in development.values()]),
    )


def report(development: dict[str, list[Asked]], test: dict[str, list[Asked]]) -> None:
    columns = {f"{name} (held out)": found for name, found in development.items()} | test
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
    parser.add_argument("--queries", type=int, default=100, help="at most so many of each test set")
    parser.add_argument("--held-out", type=int, default=60, help="at most so many to choose by")
    parser.add_argument("--sets", nargs="*", default=SETS)
    given = parser.parse_args()
    encoder = OnnxEncoder(manifest.read(given.encoder))
    judge = OnnxJudge(manifest.read(given.judge))

    def read(name: str, split: str, limit: int) -> list[Asked]:
        part = collection(given.data / name, encoder, given.cache, split)
        kind = f"{judge.spec.name}-{judge.spec.version}-of-{encoder.spec.version}"
        return asked(part, judge, given.cache / f"{kind}-{name}-{split}-{limit}.npz", limit)

    development = {name: read(name, split, given.held_out) for name, split in data.JUDGED.items()}
    report(development, {name: read(name, "test", given.queries) for name in given.sets})


if __name__ == "__main__":
    main()
