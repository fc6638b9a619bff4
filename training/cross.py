"""Train the small cross-encoder: a few layers learn the scores of twelve.

    python -m training.cross WORK NAME [--layers 0,3,7,11] [--epochs 2]

Learns the teacher's logits (and, listwise, their blend with the base encoder's scores) on the same
candidates as the encoder. Writes `NAME.pt` without the word embeddings, which are the teacher's.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from training import base
from training.model import cross_encoder
from training.prepare import DEVICE, by_length, padded
from training.train import batches


def scores(model: Any, queries: list[list[int]], passages: list[list[int]]) -> Tensor:
    joined = [query + passage[1:] for query, passage in zip(queries, passages, strict=True)]
    logits: list[Tensor] = []
    order: list[int] = []
    for part in by_length(joined, 128):
        ids = padded([joined[i] for i in part])
        kinds = padded([[0] * len(queries[i]) + [1] * (len(passages[i]) - 1) for i in part])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            logits.append(model(ids, (ids != 0).long(), kinds).float())
        order += part
    return torch.cat(logits)[torch.tensor(order, device=DEVICE).argsort()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("name")
    parser.add_argument("--layers", default="0,4,7,11")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    sources = torch.load(options.work / "prepared.pt", weights_only=False)["sources"]
    model = cross_encoder(
        base.load(options.work / "teacher.npz"), [int(x) for x in options.layers.split(",")]
    )
    model = model.to(DEVICE)
    model.bert.words.weight.requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad]
    steps = options.epochs * sum(1 for _ in batches(sources, options.batch, random.Random(0)))
    optimiser = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 1e-4, total_steps=steps + 1, pct_start=0.1
    )
    start, done = time.time(), 0
    for _ in range(options.epochs):
        for source, rows in batches(sources, options.batch, rng):
            keep = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(15)[:7]])
            candidates = source["candidates"][rows][:, keep]
            queries = [source["plain"][i] for i in source["owner"][rows].tolist() for _ in range(8)]
            passages = [source["passages"][i] for i in candidates.flatten().tolist()]
            mine = scores(model, queries, passages).view(-1, 8)
            theirs = source["logits"][rows][:, keep].to(DEVICE)
            chance = source["chance"][rows][:, keep].to(DEVICE)
            chance = chance / chance.sum(-1, keepdim=True)
            listwise = F.kl_div(
                F.log_softmax(mine, -1),
                0.5 * chance + 0.5 * theirs.softmax(-1),
                reduction="batchmean",
            )
            loss = F.mse_loss(mine, theirs) * 0.1 + listwise
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            done += 1
            if done % 100 == 0:
                seconds = time.time() - start
                print(
                    f"{options.name} {done}/{steps} loss {loss.item():.3f} {seconds:.0f} s",
                    flush=True,
                )
    torch.save(
        {n: v.half().cpu() for n, v in model.state_dict().items() if n != "bert.words.weight"},
        options.work / f"{options.name}.pt",
    )


if __name__ == "__main__":
    main()
