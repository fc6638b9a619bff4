"""Train the encoder: three outputs, one pass.

    python -m training.train WORK NAME [--layers 0,1,...] [--epochs 2] [--zero-shot] ...

Each head learns, listwise, the teachers' scores of 8 candidates per query, and to tell its passage
from all others in the batch; so does the sum of the three, so that they complement each other. The
dense vectors are kept near the base model's. Word embeddings do not change. Writes `NAME.pt` (half
precision, without the word embeddings) and `NAME.json`: quality on the held-out queries.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor, nn

from training import base
from training.heldout import held_out_quality
from training.model import Encoder, from_base
from training.prepare import DEVICE, by_length, padded
from training.terms import BUCKETS, EACH, Terms


@dataclass
class Encoded:
    dense: Tensor  # [n, 384]
    sparse: Tensor  # [n, BUCKETS]
    tokens: Tensor  # [n, longest, w], zero for tokens without weight
    counts: Tensor  # [n, longest]


class Trainer(nn.Module):
    def __init__(self, encoder: Encoder, prefix: list[int]) -> None:
        super().__init__()
        self.encoder = encoder
        self.scales = nn.Parameter(torch.tensor([30.0, 1.0, 30.0]).log())  # dense, sparse, tokens
        self.prefix = len(prefix)

    def encode(
        self,
        rows: list[list[int]],
        terms: list[list[list[int]]],
        *,
        query: bool,
        used: Tensor | None = None,
        group: int = 128,
    ) -> Encoded:
        """Encode rows of similar length together, to save computation on padding."""
        longest = max(map(len, rows))
        parts_by_batch: list[tuple[list[int], tuple[Tensor, ...]]] = []
        for part in by_length(rows, group):
            ids = padded([rows[i] for i in part])
            with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
                dense, passage, query_weights, vectors = self.encoder(ids, (ids != 0).long())
            weights = (query_weights if query else passage).squeeze(-1).float()
            counts = (self.encoder.idf[ids] > 0) & (ids != 0)
            if query:  # the prefix is read, but has no weight
                counts[:, 1 : 1 + self.prefix] = False
            named = padded([terms[i] for i in part], [0] * EACH)  # [n, longest, EACH]
            sparse = torch.zeros(len(part), BUCKETS if used is None else len(used), device=DEVICE)
            if used is not None:
                named = torch.searchsorted(used, named)
            each = ((weights * counts).unsqueeze(-1) * (named > 0)).flatten(1)
            sparse = sparse.scatter_reduce(1, named.flatten(1), each, "amax")
            vectors = F.normalize(vectors.float(), dim=-1) * counts.unsqueeze(-1)
            wide = longest - ids.shape[1]
            parts_by_batch.append(
                (
                    part,
                    (
                        dense.float(),
                        sparse,
                        F.pad(vectors, (0, 0, 0, wide)),
                        F.pad(counts, (0, wide)),
                    ),
                )
            )
        order = torch.tensor([i for part, _ in parts_by_batch for i in part]).argsort().to(DEVICE)
        return Encoded(
            *(torch.cat([parts[k] for _, parts in parts_by_batch])[order] for k in range(4))
        )

    def scores(self, queries: Encoded, passages: Encoded) -> list[Tensor]:
        """dense, sparse, tokens: [queries, passages] each, on the learned scale."""
        dense, sparse, tokens = self.scales.exp()
        late = late_interaction(queries, passages)
        return [
            queries.dense @ passages.dense.T * dense,
            queries.sparse @ passages.sparse.T * sparse,
            late * tokens,
        ]


def late_interaction(queries: Encoded, passages: Encoded) -> Tensor:
    """MaxSim, as a mean over the query's tokens."""
    alike = torch.einsum("aid,bjd->abij", queries.tokens.bfloat16(), passages.tokens.bfloat16())
    alike = alike.masked_fill(~passages.counts[None, :, None, :], -1).amax(-1).float()
    return (alike * queries.counts[:, None]).sum(-1) / queries.counts.sum(-1).clamp(min=1)[:, None]


def batches(sources: list[dict[str, Any]], size: int, rng: random.Random) -> Iterator[Any]:
    """One epoch, in random order; each batch is from one source."""
    parts = []
    for source in sources:
        order = list(range(len(source["owner"])))
        rng.shuffle(order)
        parts += [(source, order[start : start + size]) for start in range(0, len(order), size)]
    rng.shuffle(parts)
    return iter([(source, rows) for source, rows in parts if len(rows) > 4])


def loss_of(trainer: Trainer, source: dict[str, Any], rows: list[int], options: Any) -> Tensor:
    owner = source["owner"][rows].tolist()
    keep = torch.cat(
        [torch.zeros(1, dtype=torch.long), 1 + torch.randperm(15)[: options.width - 1]]
    )
    candidates = source["candidates"][rows][:, keep]
    flat = candidates.flatten().tolist()
    both = [source["query_terms"][i] for i in owner] + [source["passage_terms"][i] for i in flat]
    used = torch.tensor(sorted({b for row in both for each in row for b in each} | {0})).to(DEVICE)
    queries = trainer.encode(
        [source["queries"][i] for i in owner],
        [source["query_terms"][i] for i in owner],
        query=True,
        used=used,
    )
    passages = trainer.encode(
        [source["passages"][i] for i in flat],
        [source["passage_terms"][i] for i in flat],
        query=False,
        used=used,
    )
    chance = source["chance"][rows][:, keep].to(DEVICE)
    chance = chance / chance.sum(-1, keepdim=True)
    target = (1 - options.gold) * chance
    target[:, 0] += options.gold
    gold = torch.arange(len(owner), device=DEVICE) * options.width
    own = gold[:, None] + torch.arange(options.width, device=DEVICE)
    # Another query's right passage, or a duplicate, is not a negative.
    ids, firsts = candidates.flatten().to(DEVICE), candidates[:, 0].to(DEVICE)
    same = (ids[None] == firsts[:, None]).scatter(1, own, False)
    scores = trainer.scores(queries, passages)
    loss = torch.zeros((), device=DEVICE)
    for score, weight in zip(
        [*scores, scores[0] + scores[1] + scores[2]], options.weights, strict=True
    ):
        listwise = F.kl_div(F.log_softmax(score.gather(1, own), -1), target, reduction="batchmean")
        batch = F.cross_entropy(score.masked_fill(same, -1e4), gold)
        loss = loss + weight * (listwise + options.batch_weight * batch)
    far = 1 - (passages.dense * source["passage_base"][flat].to(DEVICE).float()).sum(-1).mean()
    far = far + 1 - (queries.dense * source["query_base"][owner].to(DEVICE).float()).sum(-1).mean()
    return (
        loss
        + options.anchor * far
        + 1e-4 * (passages.sparse.sum(-1).mean() + queries.sparse.sum(-1).mean())
    )


def optimiser_for(trainer: Trainer, steps: int, rate: float) -> tuple[Any, Any]:
    trainer.encoder.bert.words.weight.requires_grad_(False)
    body = [p for n, p in trainer.named_parameters() if ".bert." in n and p.requires_grad]
    heads = [p for n, p in trainer.named_parameters() if ".bert." not in n]
    groups = [{"params": body, "lr": rate}, {"params": heads, "lr": 1e-3}]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, [rate, 1e-3], total_steps=steps + 1, pct_start=0.1
    )
    return optimiser, schedule


def train(trainer: Trainer, sources: list[dict[str, Any]], options: Any) -> None:
    rng = random.Random(options.seed)
    per_epoch = sum(1 for _ in batches(sources, options.batch, random.Random(0)))
    optimiser, schedule = optimiser_for(trainer, options.epochs * per_epoch, options.rate)
    start, done, recent = time.time(), 0, 0.0
    for _ in range(options.epochs):
        for source, rows in batches(sources, options.batch, rng):
            loss = loss_of(trainer, source, rows, options)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(trainer.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done, recent = done + 1, 0.98 * recent + 0.02 * loss.item()
            if done % 100 == 0:
                mean = recent / (1 - 0.98**done)
                print(
                    f"{options.name} {done}/{options.epochs * per_epoch} loss {mean:.3f} "
                    f"{time.time() - start:.0f} s",
                    flush=True,
                )


def follow(trainer: Trainer, reference: Any, sources: list[dict[str, Any]], options: Any) -> None:
    """Train a shallower model to reproduce the hidden states of the whole base model, before
    anything else."""
    rng = random.Random(1)
    parameters = [
        p for p in trainer.encoder.bert.parameters() if p is not trainer.encoder.bert.words.weight
    ]
    optimiser = torch.optim.AdamW(parameters, lr=2e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 2e-4, total_steps=options.follow + 1, pct_start=0.1
    )
    start = time.time()
    for step in range(options.follow):
        source = rng.choices(sources, [len(s["passages"]) for s in sources])[0]
        kind = "queries" if step % 5 == 4 else "passages"
        rows = rng.sample(source[kind], min(384, len(source[kind])))
        rows = sorted(rows, key=len)[(step % 3) * (len(rows) // 3) :][: len(rows) // 3]
        ids = padded(rows)
        mask = (ids != 0).long()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            with torch.no_grad():
                theirs = reference(ids, mask).float()
            mine = trainer.encoder.bert(ids, mask).float()
        alike = 1 - F.cosine_similarity(mine, theirs, dim=-1)
        loss = (alike * mask).sum() / mask.sum() + alike[:, 0].mean() + F.mse_loss(mine, theirs)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        if step % 200 == 199:
            print(
                f"{options.name} follow {step + 1}/{options.follow} loss {loss.item():.4f} "
                f"{time.time() - start:.0f} s",
                flush=True,
            )


def rarity(prepared: dict[str, Any], terms: Terms) -> Tensor:
    """The rarity of each token in the pairs' passages, in (0, 1], counted by stem; 0 for tokens
    that are not terms."""
    words = [row[0][0] for row in map(terms, ([number] for number in range(len(terms.texts))))]
    term = torch.tensor(words)
    frequency, documents = torch.zeros(BUCKETS), 0
    for source in prepared["sources"][:4]:
        for row in source["passages"]:
            frequency[term[row].unique()] += 1
        documents += len(source["passages"])
    idf = torch.log(1 + documents / (1 + frequency)) / math.log(1 + documents)
    return torch.where(term > 0, idf[term], 0.0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("name")
    parser.add_argument("--layers", default="0,1,2,3,4,5,6,7,8,9,10,11")
    parser.add_argument("--token-width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=8, help="candidates per query")
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--anchor", type=float, default=5.0)
    parser.add_argument("--gold", type=float, default=0.3, help="share of the label in the target")
    parser.add_argument("--batch-weight", type=float, default=0.3)
    parser.add_argument("--weights", default="0.5,1,1,0.5", help="dense, sparse, tokens, their sum")
    parser.add_argument("--follow", type=int, default=0, help="steps of distillation first")
    parser.add_argument("--zero-shot", action="store_true", help="train without judged collections")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.weights = [float(weight) for weight in options.weights.split(",")]
    return options


def main() -> None:
    options = arguments()
    torch.manual_seed(0)  # heads with the same start can be averaged later
    prepared = torch.load(options.work / "prepared.pt", weights_only=False)
    sources = prepared["sources"][: 4 if options.zero_shot else None]
    state = base.load(options.work / "encoder.npz")
    bert = from_base(state, [int(layer) for layer in options.layers.split(",")])
    terms = Terms(Tokenizer.from_file(str(options.work / "tokenizer.json")))
    idf = rarity(prepared, terms)
    encoder = Encoder(bert, idf, torch.tensor(terms.continues).float(), options.token_width)
    trainer = Trainer(encoder, prepared["prefix"]).to(DEVICE)
    torch.manual_seed(options.seed)
    if options.follow:
        follow(trainer, from_base(state, range(12)).to(DEVICE).eval(), sources, options)
    train(trainer, sources, options)
    state_dict = {
        name: value.half().cpu()
        for name, value in encoder.state_dict().items()
        if name != "bert.words.weight"
    }
    torch.save(state_dict, options.work / f"{options.name}.pt")
    quality = held_out_quality(trainer.eval(), options.work)
    settings = {key: str(value) for key, value in vars(options).items() if key != "work"}
    (options.work / f"{options.name}.json").write_text(
        json.dumps({"settings": settings, "quality": quality}, indent=1)
    )
    print(options.name, json.dumps(quality), flush=True)


if __name__ == "__main__":
    main()
