"""Fit the detector of English texts in Latin script (`kb.text.english`): weights of letter groups.

    python -m training.english_letters WORK

reads `parallel.tsv.xz`, `retrieval.jsonl.gz`, `english.jsonl.gz` and `pairs.jsonl.gz` of WORK, and
writes `src/kb/text/english_letters.bin`. Half of the texts are cut to a few words, since queries
are short. Prints, for some thresholds, the share of held-out texts that are taken for another
language: short ones and others, by language. The thresholds of `kb.text.english` were chosen from
this table.
"""

from __future__ import annotations

import argparse
import random
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from kb.text.english import BUCKETS, SAMPLE_CHARS, WEIGHTS, letter_groups
from training.multilingual import lines
from training.vocabulary import parallel_rows

LATIN = frozenset("es de fr pt pl nl cs sv it id tr vi fi hu ro da nb ca".split())
PENALTY = 1e-6
THRESHOLDS = (200, 275, 350, 425)


def texts_of(work: Path) -> dict[str, list[str]]:
    """Texts by language; `en` has code, questions and passages too."""
    texts: dict[str, list[str]] = defaultdict(list)
    for number, (english, language, text) in enumerate(parallel_rows(work / "parallel.tsv.xz")):
        if language in LATIN and text != english:
            texts[language].append(text)
            if number % 6 == 0:
                texts["en"].append(english)
    for row in lines(work / "retrieval.jsonl.gz"):
        if row["lang"] in LATIN:
            texts[row["lang"]] += (row["query"], row["positive"])
    for name in ("english", "pairs"):
        for number, row in enumerate(lines(work / f"{name}.jsonl.gz")):
            if number % 2 == 0:
                texts["en"] += (row["query"], row["positive"])
    return texts


def samples(texts: dict[str, list[str]], rng: random.Random) -> list[tuple[str, str]]:
    """Pairs of language and text. Half of the texts are cut to at most six words."""
    chosen = []
    for language, each in texts.items():
        rng.shuffle(each)
        for number, text in enumerate(each[: 150_000 if language == "en" else 14_000]):
            words = text[:1000].split()
            if number % 2 and len(words) > 2:
                start = rng.randrange(len(words))
                text = " ".join(words[start : start + rng.randint(1, 6)])
            if any(map(str.isalpha, text)):
                chosen.append((language, text))
    rng.shuffle(chosen)
    return chosen


def groups_of(chosen: list[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [letter_groups(text[:SAMPLE_CHARS]) for _, text in chosen]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])[:-1]])
    flat = np.fromiter((group for row in rows for group in row), np.int64)
    return torch.from_numpy(flat), torch.from_numpy(offsets)


def fit(flat: torch.Tensor, offsets: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Weights of a logistic regression over the sums of the groups' weights."""
    weights = torch.zeros(BUCKETS, 1, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.02)
    ends = torch.cat([offsets[1:], torch.tensor([len(flat)])])
    count, size = len(labels), 4096
    for epoch in range(6):
        optimizer.param_groups[0]["lr"] = 0.02 * 0.6**epoch
        for start in range(0, count, size):
            stop = min(count, start + size)
            part = flat[offsets[start] : ends[stop - 1]]
            sums = F.embedding_bag(part, weights, offsets[start:stop] - offsets[start], mode="sum")
            loss = F.binary_cross_entropy_with_logits(sums[:, 0], labels[start:stop])
            loss = loss + PENALTY * (weights**2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    return weights.detach()[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    work = parser.parse_args().work
    chosen = samples(texts_of(work), random.Random(0))
    held = [pair for pair in chosen if zlib.crc32(pair[1].encode()) % 10 == 0]
    learned = [pair for pair in chosen if zlib.crc32(pair[1].encode()) % 10]
    labels = torch.tensor([float(language != "en") for language, _ in learned])
    weights = fit(*groups_of(learned), labels)
    scale = weights.abs().max() / 127
    levels = (weights / scale).round().clamp(-127, 127)
    flat, offsets = groups_of(held)
    scores = F.embedding_bag(flat, levels[:, None], offsets, mode="sum")[:, 0].numpy()
    languages = np.array([language for language, _ in held])
    short = np.array([len(text.split()) <= 5 for _, text in held])
    for language in sorted(set(languages)):
        for name, kind in (("short", short), ("long", ~short)):
            own = scores[(languages == language) & kind]
            shares = [f"{(own > threshold).mean():.4f}" for threshold in THRESHOLDS]
            print(language, name, len(own), *shares)
    Path(WEIGHTS).write_bytes(levels.to(torch.int8).numpy().tobytes())


if __name__ == "__main__":
    main()
