"""A GPU beside the CPU: speed, agreement of the vectors, and search quality.

    python -m bench.gpu DATA [--device cuda] [--model src/kb/models/kb_mini] [--seconds 80]

DATA contains collections in BEIR's layout (NAME/corpus.jsonl.gz, queries.jsonl.gz, qrels/test.tsv).
The CPU encodes a sample of each collection, as large as `--seconds` allow; the GPU encodes the same
sample. Queries are encoded on the CPU, as in kb. It needs torch, ONNX Runtime and tokenizers, and
none of kb's other dependencies.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from kb.models import manifest, tokenizer
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.torch_encoder import TorchEncoder
from kb.types import Encoding

PASSAGE_TOKENS = 190
SPEED_PASSAGES = {"cuda": 16384, "cpu": 32}
CPU_SPEED_PASSAGES = 1024
MAX_PASSAGES, MAX_QUERIES = 3000, 300
ALL = frozenset({"dense", "sparse", "tokens"})
CHUNK = 256


@dataclass(frozen=True)
class Collection:
    """A sample of a collection: all judged passages that fit, and others."""

    name: str
    passages: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.jsonl"
    if path.exists():
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with gzip.open(f"{path}.gz", "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def read_collection(folder: Path, max_passages: int) -> Collection:
    qrels: dict[str, dict[str, int]] = {}
    rows = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for row in rows:
        query, passage, grade = row.split("\t")
        if int(grade) > 0:
            qrels.setdefault(query, {})[passage] = int(grade)
    corpus = {
        row["_id"]: f"{row.get('title') or ''}\n{row['text']}".strip()
        for row in read_lines(folder, "corpus")
    }
    chosen = sorted(qrels)
    random.Random(1).shuffle(chosen)
    kept: dict[str, str] = {}
    asked: list[str] = []
    for query in chosen[:MAX_QUERIES]:
        judged = {passage: corpus[passage] for passage in qrels[query] if passage in corpus}
        if len(kept | judged) > max_passages // 2 and asked:
            break
        kept |= judged
        asked.append(query)
    others = sorted(set(corpus) - set(kept))
    random.Random(2).shuffle(others)
    kept |= {passage: corpus[passage] for passage in others[: max_passages - len(kept)]}
    texts = {row["_id"]: row["text"] for row in read_lines(folder, "queries")}
    return Collection(
        folder.name, kept, {query: texts[query] for query in asked}, {q: qrels[q] for q in asked}
    )


# --- speed ----------------------------------------------------------------------------------------


def passages_of(tokens: int, texts: Sequence[str], encoder: OnnxEncoder, count: int) -> list[str]:
    """Passages of about this many tokens, made of words of the texts."""
    tokenize = encoder.loaded().tokenizer.tokens
    words = [word for text in texts[:400] for word in text.split()]
    pieces = [words[at : at + 50] for at in range(0, min(len(words), 2000), 50)]
    total = sum(len(tokenize(" ".join(piece)).ids) for piece in pieces)
    size = max(1, round(tokens * sum(map(len, pieces)) / total))
    place = random.Random(3)
    starts = [place.randrange(max(1, len(words) - size)) for _ in range(count)]
    return [" ".join(words[start : start + size]) for start in starts]


def encode_all(
    encoder: OnnxEncoder, texts: Sequence[str], *, as_query: bool = False
) -> list[Encoding]:
    encodings: list[Encoding] = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        encodings += encoder.encode(chunk, as_query=as_query, want=ALL & encoder.spec.gives)
    return encodings


def rate(function: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    function()
    return count / (time.perf_counter() - start)


def network_rate(encoder: TorchEncoder, tokens: int, texts: int) -> float:
    """Texts per second of the network alone, without tokenization and copies."""
    import torch

    engine = encoder.load_engine()
    assert engine is not None
    network = engine.network
    batch = max(1, min(texts, engine.batch_tokens // tokens))
    ids = torch.randint(1000, 20000, (batch, tokens), device=network.device)
    mask = torch.ones((batch, tokens), device=network.device)

    def run(rounds: int) -> None:
        with torch.inference_mode():
            for _ in range(rounds):
                network.outputs(ids, mask)
        if network.device == "cuda":
            torch.cuda.synchronize()

    run(2)
    rounds = max(1, texts // batch)
    return rate(lambda: run(rounds), rounds * batch)


# --- agreement ------------------------------------------------------------------------------------


def dense_of(encodings: Sequence[Encoding]) -> Any:
    return np.stack([np.frombuffer(each.dense or b"", "f4") for each in encodings])


def agreement(first: Sequence[Encoding], second: Sequence[Encoding]) -> dict[str, float]:
    cosines = np.einsum("ij,ij->i", dense_of(first), dense_of(second))
    result = {"dense mean": float(cosines.mean()), "dense min": float(cosines.min())}
    weights, tokens = [], []
    for one, two in zip(first, second, strict=True):
        if one.sparse and two.sparse:
            terms = one.sparse.keys() | two.sparse.keys()
            a, b = (
                np.array([each.get(t, 0.0) for t in terms]) for each in (one.sparse, two.sparse)
            )
            weights.append(float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1.0)))
        if one.tokens is not None and two.tokens is not None and len(one.tokens):
            rows = [np.frombuffer(vectors.data, "f4").reshape(-1, vectors.dimension)
                    for vectors in (one.tokens, two.tokens)]  # fmt: skip
            tokens.append(float(np.einsum("ij,ij->i", *rows).mean()))
    for name, values in (("sparse", weights), ("tokens", tokens)):
        if values:
            result |= {f"{name} mean": float(np.mean(values)), f"{name} min": min(values)}
    return result


def ndcg(collection: Collection, queries: Any, passages: Any) -> tuple[float, list[list[int]]]:
    """nDCG@10 with the gain 2^rel - 1, and the ten best passages of each query."""
    names = list(collection.passages)
    scores = queries @ passages.T
    total, best = 0.0, []
    for row, query in zip(scores, collection.queries, strict=True):
        top = np.argsort(-row, kind="stable")[:10].tolist()
        best.append(top)
        grades = collection.qrels[query]
        gains = [2 ** grades.get(names[place], 0) - 1 for place in top]
        ideal = sorted((2**grade - 1 for grade in grades.values()), reverse=True)[:10]
        total += _dcg(gains) / _dcg(ideal)
    return total / len(best), best


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains))


# --- the run --------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", type=Path, default=Path("src/kb/models/kb_mini"))
    parser.add_argument("--half", action="store_true", help="half precision, not int8")
    parser.add_argument("--seconds", type=float, default=80.0, help="of the CPU, for collections")
    options = parser.parse_args()
    began = time.perf_counter()
    if find_spec("snowballstemmer") is None:
        from kb.text.stem import stem

        tokenizer._stemmer = cache(lambda: stem)  # the same terms on both sides
    model = manifest.read(options.model)
    cpu = OnnxEncoder(model, provider="cpu")
    gpu = TorchEncoder(model, device=options.device, required=True, exact=not options.half)
    folders = sorted(path.parent for path in options.data.glob("*/qrels"))
    print(f"model {model.spec.name} {model.spec.version}, device {_device(options.device)}")

    start = time.perf_counter()
    engine = gpu.load_engine()
    assert engine is not None  # it is required
    print(f"torch and the network load in {time.perf_counter() - start:.1f} s")
    print(f"tokens in a batch: {engine.batch_tokens:,}")

    texts = list(read_collection(folders[0], MAX_PASSAGES).passages.values())
    count = SPEED_PASSAGES.get(options.device, SPEED_PASSAGES["cuda"])
    passages = passages_of(PASSAGE_TOKENS, texts, cpu, count)
    lengths = [len(cpu.loaded().tokenizer.tokens(text).ids) for text in passages[:200]]
    print(f"passages have {np.mean(lengths):.0f} tokens (mean), from {folders[0].name}")
    encode_all(gpu, passages[:CHUNK])
    cpu_passages = passages[:CPU_SPEED_PASSAGES]
    encode_all(cpu, cpu_passages[:16])
    cpu_rate = rate(lambda: encode_all(cpu, cpu_passages), len(cpu_passages))
    gpu_rate = rate(lambda: encode_all(gpu, passages), len(passages))
    print(f"CPU: {cpu_rate:,.0f} passages/s with {cpu._threads} threads")
    print(f"GPU: {gpu_rate:,.0f} passages/s, from text to encodings")
    print(f"GPU: {network_rate(gpu, PASSAGE_TOKENS, count):,.0f} passages/s, the network alone")
    sys.stdout.flush()

    size = min(MAX_PASSAGES, max(32, int(cpu_rate * options.seconds / len(folders))))
    print(f"\nsamples of {size:,} passages; nDCG@10 of dense vectors\n")
    print("| collection | passages | queries | CPU | GPU | mixed | same top 10 | dense mean | "
          "dense min | sparse mean | sparse min | tokens mean | tokens min | s |")  # fmt: skip
    print("|---" * 14 + "|")
    for folder in folders:
        _measure(read_collection(folder, size), cpu, gpu)
    print(f"\n{time.perf_counter() - began:.0f} s in all")


def _measure(collection: Collection, cpu: OnnxEncoder, gpu: TorchEncoder) -> None:
    start = time.perf_counter()
    texts = list(collection.passages.values())
    queries = dense_of(encode_all(cpu, list(collection.queries.values()), as_query=True))
    on_cpu, on_gpu = encode_all(cpu, texts), encode_all(gpu, texts)
    first, second = dense_of(on_cpu), dense_of(on_gpu)
    mixed = np.where(np.arange(len(texts))[:, None] % 2 == 0, first, second)
    scores, tops = zip(*(ndcg(collection, queries, rows) for rows in (first, second, mixed)),
                       strict=True)  # fmt: skip
    same = np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(tops[0], tops[1], strict=True)])
    agrees = agreement(on_cpu, on_gpu)
    parts = [agrees.get(f"{part} {kind}", float("nan"))
             for part in ("dense", "sparse", "tokens") for kind in ("mean", "min")]  # fmt: skip
    cells = [f"{score:.4f}" for score in scores] + [f"{same:.3f}"]
    cells += [f"{value:.5f}" for value in parts] + [f"{time.perf_counter() - start:.0f}"]
    print(
        f"| {collection.name} | {len(texts)} | {len(queries)} | {' | '.join(cells)} |", flush=True
    )


def _device(name: str) -> str:
    import torch

    label = torch.cuda.get_device_name() if name == "cuda" else name
    return f"{label}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
