"""Quality: nDCG@10 of every retriever and fusion, on judged collections.

    python -m training.measure MODEL_FOLDER DATA [--base FOLDER]
    python -m training.measure MODEL_FOLDER DATA --float WORK/NAME.pt

MODEL_FOLDER is an output of `training.export` (`src/kb/models/kb_mini` is the shipped one), run as
in kb: int8, one text at a time. DATA contains collections in BEIR's layout. Vectors are cached by
model and collection, so a second run takes seconds. The weights of the best fusion are chosen on
queries of `train` and `dev` that were held out of training; the table is for `test`.

Gain 2^rel - 1. Keyword scores are those of a plain FTS5 table (porter unicode61, OR).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kb.models import manifest
from kb.models.onnx_encoder import OnnxEncoder
from training import data
from training.scores import Collection, Runs, rankings, runs_of

SETS = ("scifact", "nfcorpus", "cranfield", "cosqa")
ALL = frozenset({"dense", "sparse", "tokens"})


@dataclass(frozen=True)
class Encoded:
    dense: Any  # [n, 384]
    sparse: list[dict[str, float]]
    tokens: list[Any]  # [tokens, width] each


def encoded(encoder: OnnxEncoder, texts: list[str], cache: Path, *, as_query: bool) -> Encoded:
    if not cache.exists():
        want = ALL & encoder.spec.gives
        encodings = []
        for start in range(0, len(texts), 64):
            encodings += encoder.encode(texts[start : start + 64], as_query=as_query, want=want)
            print(f"\r{cache.stem} {len(encodings)}/{len(texts)}", end="", flush=True)
        print()
        width = encoder.spec.token_dimension or 1
        rows = [
            np.frombuffer(e.tokens.data if e.tokens else b"", "f4").reshape(-1, width)
            for e in encodings
        ]
        np.savez(
            cache,
            dense=np.stack([np.frombuffer(e.dense or b"", "f4") for e in encodings]),
            sparse=np.array(json.dumps([e.sparse or {} for e in encodings])),
            lengths=np.array([len(row) for row in rows]),
            tokens=np.concatenate(rows).astype("f2"),
        )
    arrays = np.load(cache)
    ends = np.cumsum(arrays["lengths"])[:-1]
    tokens = np.split(arrays["tokens"].astype("f4"), ends)
    return Encoded(arrays["dense"], json.loads(str(arrays["sparse"])), tokens)


def kb_passage(row: dict[str, str]) -> str:
    """A passage as kb passes it to an encoder: its heading, a newline, its text."""
    return f"{row['title']}\n{row['text']}" if row.get("title") else row["text"]


def collection(folder: Path, encoder: OnnxEncoder, cache: Path, split: str) -> Collection:
    corpus = list(data.lines(folder / "corpus.jsonl.gz"))
    texts = {row["_id"]: row["text"] for row in data.lines(folder / "queries.jsonl.gz")}
    judged = data.judgments(folder, split)
    if split != "test":
        judged = {query: encodings for query, encodings in judged.items() if data.held_out(query)}
    name = f"{encoder.spec.name}-{encoder.spec.version}-{folder.name}"
    passages = [kb_passage(row) for row in corpus]
    encodings = encoded(encoder, passages, cache / f"{name}.npz", as_query=False)
    query_encodings = encoded(
        encoder, [texts[q] for q in judged], cache / f"{name}-{split}.npz", as_query=True
    )
    return Collection(
        [row["_id"] for row in corpus],
        passages,
        [texts[q] for q in judged],
        list(judged.values()),
        encodings,
        query_encodings,
        keywords(corpus, [texts[q] for q in judged]),
    )


def keywords(corpus: list[dict[str, str]], queries: list[str]) -> list[dict[int, float]]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE f USING fts5(t, x, tokenize = 'porter unicode61')")
    rows = [(i, row.get("title") or "", row["text"]) for i, row in enumerate(corpus)]
    database.executemany("INSERT INTO f(rowid, t, x) VALUES (?, ?, ?)", rows)
    return [dict(data.keyword_scores(database, query, 100, stop=False)) for query in queries]


# --- the best fusion ------------------------------------------------------------------------------

GRID = {
    "fts": (0.0, 0.25, 0.5, 1.0),
    "dense": (1.0, 2.0),
    "sparse": (0.0, 0.5, 1.0),
    "maxsim": (0.0, 1.0, 2.0),
}


ONES = dict.fromkeys(GRID, 1.0)


def chosen_weights(development: list[list[Runs]]) -> dict[str, float]:
    """The weights with the best mean over the development collections."""
    names = list(GRID)
    best: tuple[float, dict[str, float]] = (0.0, {})
    for values in itertools.product(*GRID.values()):
        weights = dict(zip(names, values, strict=True))
        mean = float(
            np.mean([np.mean([run.ndcg_of_sum(weights) for run in runs]) for runs in development])
        )
        best = max(best, (mean, weights), key=lambda encodings: encodings[0])
    return best[1]


def table(rows: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(rows.values())))
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [
        f"| {row} | " + " | ".join(f"{encodings[n]:.3f}" for n in names) + " |"
        for row, encodings in rows.items()
    ]
    return "\n".join(lines)


def measured(folder: Path, options: Any) -> None:
    encoder = OnnxEncoder(manifest.read(folder))
    options.cache.mkdir(parents=True, exist_ok=True)
    development = [
        runs_of(collection(options.data / name, encoder, options.cache, split))
        for name, split in data.JUDGED.items()
    ]
    weights = chosen_weights(development)
    print(f"\n{encoder.spec.name} {encoder.spec.version}: weights chosen on development {weights}")
    columns = {}
    for name, runs in zip(data.JUDGED, development, strict=True):
        columns[f"{name} (held out)"] = rankings(runs, weights)
    if not options.development:
        for name in options.sets:
            runs = runs_of(collection(options.data / name, encoder, options.cache, "test"))
            columns[name] = rankings(runs, weights)
    methods = list(next(iter(columns.values())))
    print(table({m: {name: encodings[m] for name, encodings in columns.items()} for m in methods}))


def compare_with_float(weights: Path, options: Any) -> None:
    """Compare int8 with float: the mean cosine of the passages' vectors, and nDCG@10 of both.
    `weights` is a file in its training folder."""
    from training.plain import PlainEncoder

    plainly = PlainEncoder(options.model, weights.parent, weights)
    encoders = [OnnxEncoder(manifest.read(options.model)), plainly]
    options.cache.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        int8, plain = (collection(options.data / name, e, options.cache, "test") for e in encoders)
        cosine = float(
            (int8.passage_encodings.dense * plain.passage_encodings.dense).sum(-1).mean()
        )
        print(f"\n{name}: mean cosine of int8 to float {cosine:.4f}")
        both = {
            e.spec.name: rankings(runs_of(c), ONES)
            for e, c in zip(encoders, (int8, plain), strict=True)
        }
        print(table(both))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("build/measure"))
    parser.add_argument("--base", type=Path, help="the unchanged base model, for comparison")
    parser.add_argument(
        "--float", type=Path, help="the weights before quantization, to measure what int8 costs"
    )
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--development", action="store_true", help="do not measure the test splits")
    options = parser.parse_args()
    if options.float:
        compare_with_float(options.float, options)
        return
    for folder in filter(None, (options.base, options.model)):
        measured(folder, options)


if __name__ == "__main__":
    main()
