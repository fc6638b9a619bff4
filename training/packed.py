"""Tokenized texts on the training device: a batch is gathered there, without work on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.terms import EACH


class Packed:
    """Token ids of many texts, one after another; optionally the buckets of each token's terms."""

    def __init__(self, rows: Sequence[Sequence[int]], device: str) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        flat = np.fromiter((i for row in rows for i in row), np.int32, int(offsets[-1]))
        self.device = device
        self.flat = torch.from_numpy(flat).to(device)
        self.offsets = torch.from_numpy(offsets[:-1]).to(device)
        self.counts = torch.from_numpy(self.lengths).to(device)
        self.terms: Tensor | None = None

    def add_terms(self, terms: Sequence[Any]) -> None:
        """`terms` holds, for each text, an array [tokens, EACH] of bucket numbers."""
        self.terms = torch.from_numpy(np.concatenate(terms)).to(self.device)
        if self.terms.shape != (len(self.flat), EACH):
            raise ValueError("every token needs its terms")

    def batch(self, rows: Any) -> tuple[Tensor, Tensor]:
        """Ids [n, longest], 0 where a text has ended, and the place of each id in the pack."""
        rows = torch.as_tensor(rows, device=self.device)
        counts = self.counts[rows]
        place = torch.arange(int(counts.max()), device=self.device)
        inside = place[None] < counts[:, None]
        at = (self.offsets[rows][:, None] + place[None]).clamp(max=len(self.flat) - 1)
        return torch.where(inside, self.flat[at], 0).long(), at

    def terms_at(self, ids: Tensor, at: Tensor) -> Tensor:
        """Bucket numbers [n, longest, EACH]; 0 where a text has ended."""
        if self.terms is None:
            raise ValueError("these texts have no terms")
        return self.terms[at].long() * (ids != 0).unsqueeze(-1)


def batches_by_length(
    lengths: np.ndarray, tokens: int, most: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Endless: rows of similar length together, at most `tokens` with padding and `most` rows."""
    while True:
        order = np.argsort(lengths + rng.random(len(lengths)) * 6)
        cuts, start = [], 0
        while start < len(order):
            longest = int(lengths[order[min(start + most, len(order)) - 1]])
            size = max(32, min(most, tokens // max(1, longest)))
            cuts.append(order[start : start + size])
            start += size
        for part in rng.permutation(len(cuts)):
            if len(cuts[part]) > 16:
                yield cuts[part]
