"""Before training: tokens, hard negatives and the teachers' scores.

    python -m training.prepare WORK [--few N]

WORK contains `encoder.npz`, `teacher.npz`, `tokenizer.json` (training.base), `pairs.jsonl.gz` and,
under `judged/`, the collections used for training. Writes `prepared.pt`: for every source its
tokens, and for every example 16 candidates (the right passage first, then some that are similar in
meaning and some in words), the base model's vectors, and the teacher's logits.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor

from training import base, data
from training.model import cross_encoder, from_base
from training.terms import Terms

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QUERY_TOKENS, PASSAGE_TOKENS, CANDIDATES = 64, 256, 16
NEAR_BY_MEANING, NEAR_BY_WORDS = 60, 30  # the ranks from which negatives are drawn
PREFIX = "Represent this sentence for searching relevant passages:"


def tokenise(tokenizer: Tokenizer, texts: list[str], limit: int) -> list[list[int]]:
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def padded(rows: list[list[Any]], fill: Any = 0) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows]).to(DEVICE)


def by_length(rows: list[Any], size: int) -> list[list[int]]:
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


@torch.no_grad()
def base_vectors(bert: Any, rows: list[list[int]]) -> Tensor:
    values = torch.zeros(len(rows), 384, device=DEVICE)
    for part in by_length(rows, 512):
        ids = padded([rows[i] for i in part])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            values[part] = F.normalize(bert(ids, (ids != 0).long())[:, 0].float(), dim=-1)
    return values


@torch.no_grad()
def teacher_logits(teacher: Any, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    joined = [query + passage[1:] for query, passage in pairs]
    values = torch.zeros(len(pairs), device=DEVICE)
    for part in by_length(joined, 1024):
        ids = padded([joined[i] for i in part])
        kinds = padded([[0] * len(pairs[i][0]) + [1] * (len(pairs[i][1]) - 1) for i in part])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            values[part] = teacher(ids, (ids != 0).long(), kinds).float()
    return values


def keyword_share(job: tuple[data.Source, list[str]]) -> list[list[int]]:
    return data.keyword_lists(job[0], job[1], NEAR_BY_WORDS)


def by_words(source: data.Source, queries: list[str]) -> list[list[int]]:
    """`data.keyword_lists`, distributed over the cores."""
    cores = max(1, multiprocessing.cpu_count() - 1)
    step = -(-len(queries) // cores)
    jobs = [(source, queries[start : start + step]) for start in range(0, len(queries), step)]
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        return [row for share in pool.map(keyword_share, jobs) for row in share]


def by_meaning(queries: Tensor, passages: Tensor) -> list[list[int]]:
    depth = min(NEAR_BY_MEANING, len(passages))
    return [
        row
        for start in range(0, len(queries), 2048)
        for row in (queries[start : start + 2048] @ passages.T).topk(depth).indices.tolist()
    ]


def fitted_blend(logits: Tensor, cosines: Tensor) -> Tensor:
    """The weights of the cross-encoder's logit and the base's cosine that make the right candidates
    (column 0) most likely."""
    weights = torch.tensor([0.5, 10.0], requires_grad=True)
    parts = torch.stack([logits, cosines], -1).cpu()
    solver = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        gold = torch.zeros(len(parts), dtype=torch.long)
        loss = F.cross_entropy(parts @ weights, gold)
        loss.backward()
        return loss

    solver.step(closure)
    # Negatives were drawn by cosine, which makes it look worse than it is, so it keeps some weight.
    return torch.maximum(weights.detach(), torch.tensor([0.1, 5.0]))


def prepare(source: data.Source, tools: dict[str, Any], words: list[list[int]]) -> dict[str, Any]:
    tokenizer, rng = tools["tokenizer"], random.Random(0)
    passages = tokenise(tokenizer, source.passages, PASSAGE_TOKENS)
    plain = tokenise(tokenizer, [example.query for example in source.examples], QUERY_TOKENS)
    queries = [[row[0], *tools["prefix"], *row[1:]] for row in plain]
    query_base, passage_base = (base_vectors(tools["bert"], rows) for rows in (queries, passages))
    meaning = by_meaning(query_base, passage_base)
    rows = []  # one for each example of an epoch: (query, right passage, negatives)
    for _ in range(data.REPEAT.get(source.name, 1)):
        for number, example in enumerate(source.examples):
            right, avoid = rng.choice(example.right), set(example.right)
            near = data.sample(rng, meaning[number], 10, avoid)
            near += data.sample(rng, words[number], 15 - len(near), avoid | set(near))
            spare = rng.sample(range(len(passages)), min(64, len(passages)))
            near += data.sample(rng, spare, CANDIDATES - 1 - len(near), avoid | set(near))
            rows.append((number, [right, *near]))
    pairs = [(plain[number], passages[c]) for number, values in rows for c in values]
    logits = teacher_logits(tools["teacher"], pairs).view(-1, CANDIDATES)
    owner = torch.tensor([number for number, _ in rows], device=DEVICE)
    candidates = torch.tensor([values for _, values in rows], device=DEVICE)
    cosines = (query_base[owner][:, None] * passage_base[candidates]).sum(-1)
    blend = fitted_blend(logits, cosines)
    chance = (torch.stack([logits, cosines], -1).cpu() @ blend).softmax(-1)
    print(
        f"{source.name}: {len(rows)} examples, blend {[round(x, 2) for x in blend.tolist()]}, "
        f"right one first: cross-encoder {_first(logits):.3f}, base {_first(cosines):.3f}, "
        f"blend {_first(chance):.3f}",
        flush=True,
    )
    return {
        "name": source.name,
        "passages": passages,
        "passage_terms": [tools["terms"](row) for row in passages],
        "plain": plain,
        "queries": queries,
        "query_terms": [tools["terms"](row) for row in queries],
        "owner": owner.cpu(),
        "candidates": candidates.cpu(),
        "chance": chance,
        "logits": logits.cpu(),
        "query_base": query_base.half().cpu(),
        "passage_base": passage_base.half().cpu(),
    }


def _first(scores: Tensor) -> float:
    return (scores.argmax(-1) == 0).float().mean().item()


def rehearsal(source: data.Source, few: int) -> data.Source:
    """A small sample of a source, for a run that only tests that everything works."""
    examples = source.examples[:few]
    kept = sorted({i for e in examples for i in e.right[:4]} | set(range(4 * few)))
    place = {old: new for new, old in enumerate(kept)}
    examples = [data.Example(e.query, tuple(place[i] for i in e.right[:4])) for e in examples]
    return data.Source(source.name, [source.passages[i] for i in kept], examples)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--few", type=int, help="examples per source, for a trial run")
    options = parser.parse_args()
    start = time.time()
    tokenizer = Tokenizer.from_file(str(options.work / "tokenizer.json"))
    sources = data.pair_sources(options.work / "pairs.jsonl.gz")
    sources += [data.judged_source(options.work / "judged" / name) for name in data.JUDGED]
    if options.few:
        sources = [rehearsal(source, options.few) for source in sources]
    # Fork before the GPU is initialized.
    words = [by_words(source, [e.query for e in source.examples]) for source in sources]
    print(f"keywords {time.time() - start:.0f} s", flush=True)
    tools = {
        "tokenizer": tokenizer,
        "terms": Terms(tokenizer),
        "prefix": tokenise(tokenizer, [PREFIX], QUERY_TOKENS)[0][1:-1],
        "bert": from_base(base.load(options.work / "encoder.npz"), range(12)).to(DEVICE).eval(),
        "teacher": cross_encoder(base.load(options.work / "teacher.npz"), range(12))
        .to(DEVICE)
        .eval(),
    }
    prepared = [
        prepare(source, tools, values) for source, values in zip(sources, words, strict=True)
    ]
    torch.save({"sources": prepared, "prefix": tools["prefix"]}, options.work / "prepared.pt")
    print(f"prepared {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
