"""The mean of several trained models, measured on the held-out queries.

    python -m training.soup WORK NAME FIRST.pt SECOND.pt ... [--base 0.2]

Runs that start from the same weights end in the same basin of the loss: their mean is often better
than each of them, especially on unfamiliar text. `--base` also mixes in the body of the unchanged
base model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training import base
from training.heldout import held_out_quality
from training.model import Encoder, from_base
from training.prepare import DEVICE, PREFIX, tokenise
from training.train import Trainer


def mean(states: list[dict[str, Any]], untouched: dict[str, Any], share: float) -> dict[str, Any]:
    mixed = {
        name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]
    }
    for name, value in untouched.items():
        if f"bert.{name}" in mixed:
            mixed[f"bert.{name}"] = (1 - share) * mixed[f"bert.{name}"] + share * value
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("name")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--base", type=float, default=0.0, help="share of the base in the body")
    options = parser.parse_args()
    states = [torch.load(path, weights_only=True) for path in options.models]
    bert = from_base(base.load(options.work / "encoder.npz"), range(12))
    mixed = mean(states, bert.state_dict(), options.base)
    encoder = Encoder(bert, mixed["idf"], mixed["continues"], len(mixed["token_vectors.weight"]))
    encoder.load_state_dict({**mixed, "bert.words.weight": bert.words.weight.detach()})
    torch.save(
        {name: value.half() for name, value in mixed.items()}, options.work / f"{options.name}.pt"
    )
    prefix = tokenise(Tokenizer.from_file(str(options.work / "tokenizer.json")), [PREFIX], 64)
    trainer = Trainer(encoder, prefix[0][1:-1]).to(DEVICE).eval()
    quality = held_out_quality(trainer, options.work)
    summary = {"models": [path.stem for path in options.models], "base": options.base}
    (options.work / f"{options.name}.json").write_text(json.dumps({**summary, "quality": quality}))
    print(options.name, summary, json.dumps(quality), flush=True)


if __name__ == "__main__":
    main()
