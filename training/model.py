"""The networks: a small BERT, the encoder with three outputs on top of it, and a cross-encoder.

BERT is written out here, in sixty lines, so that the exported network is the trained one, without
a library in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # as torch's own documentation has it
from torch import Tensor, nn

WIDTH, HEADS, INNER, VOCABULARY, POSITIONS = 384, 12, 1536, 30522, 512
RARE = 0.75  # the minimum rarity of a word with several pieces


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_attention = nn.LayerNorm(WIDTH, eps=1e-12)
        self.up = nn.Linear(WIDTH, INNER)
        self.down = nn.Linear(INNER, WIDTH)
        self.norm_output = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=mask)
        x = self.norm_attention(x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))
        return self.norm_output(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Token ids to hidden states. Id 0 is padding."""

    def __init__(self, layers: int, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        kind = self.kinds.weight[0] if kinds is None else self.kinds(kinds)
        x = self.norm(self.words(ids) + self.positions(places) + kind)
        bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask == 0, -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias.to(x.dtype))
        return x


def from_base(state: Mapping[str, Any], keep: Sequence[int]) -> Bert:
    """A Bert with the layers `keep` of a base model's state dict."""
    bert = Bert(len(keep))
    take = {name: torch.tensor(value) for name, value in state.items()}
    mine = {
        "words.weight": take["embeddings.word_embeddings.weight"],
        "positions.weight": take["embeddings.position_embeddings.weight"],
        "kinds.weight": take["embeddings.token_type_embeddings.weight"],
        "norm.weight": take["embeddings.LayerNorm.weight"],
        "norm.bias": take["embeddings.LayerNorm.bias"],
    }
    places = {
        "out": "attention.output.dense",
        "norm_attention": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm_output": "output.LayerNorm",
    }
    for number, source in enumerate(keep):
        theirs = f"encoder.layer.{source}"
        for part in ("weight", "bias"):
            three = [
                take[f"{theirs}.attention.self.{name}.{part}"] for name in ("query", "key", "value")
            ]
            mine[f"layers.{number}.qkv.{part}"] = torch.cat(three)
            for place, name in places.items():
                mine[f"layers.{number}.{place}.{part}"] = take[f"{theirs}.{name}.{part}"]
    bert.load_state_dict(mine)
    return bert


class Encoder(nn.Module):
    """One pass, three outputs: a dense vector (CLS), a weight and a small vector for each token.

    A token's weight is learned from its hidden state, its rarity, and whether it is a piece of a
    longer word; queries have their own head. `idf` is indexed by token id and 0 for a token without
    weight; `continues` is 1 for tokens that continue a word.
    """

    def __init__(self, bert: Bert, idf: Tensor, continues: Tensor, token_width: int) -> None:
        super().__init__()
        self.bert = bert
        self.token_vectors = nn.Linear(WIDTH, token_width, bias=False)
        self.weight = _weight_head()
        self.query_weight = _weight_head()
        self.register_buffer("idf", idf)
        self.register_buffer("continues", continues)

    def rarity(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The rarity of each token's word, in [0, 1], and whether the word has several pieces: such
        words are rare, however common a piece is."""
        goes_on = self.continues[ids]
        pieces = torch.maximum(goes_on, F.pad(goes_on[:, 1:], (0, 1)))
        idf = self.idf[ids]
        known = (idf > 0).to(idf.dtype)
        rare = torch.maximum(idf, RARE * pieces * known)
        return rare.unsqueeze(-1), pieces.unsqueeze(-1)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """dense [b, 384], passage and query weights [b, s, 1], token vectors [b, s, w]: the
        outputs of the exported file, with token vectors not yet normalized."""
        return self.outputs(self.bert(ids, mask), ids, mask)

    def outputs(
        self, hidden: Tensor, ids: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The outputs for given hidden states."""
        rarity, pieces = self.rarity(ids)
        seen = torch.cat([hidden, rarity.to(hidden.dtype), pieces.to(hidden.dtype)], -1)
        counts = (rarity > 0).to(hidden.dtype) * mask.unsqueeze(-1).to(hidden.dtype)
        passage = F.softplus(self.weight(seen)) * counts
        query = F.softplus(self.query_weight(seen)) * rarity * counts
        return F.normalize(hidden[:, 0], dim=-1), passage, query, self.token_vectors(hidden)


def _weight_head() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH + 2, 128), nn.GELU(), nn.Linear(128, 1))


class CrossEncoder(nn.Module):
    """A score for a query and a passage read together."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self.pooler = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> Tensor:
        hidden = self.bert(ids, mask, kinds)
        score: Tensor = self.score(torch.tanh(self.pooler(hidden[:, 0]))).squeeze(-1)
        return score


def cross_encoder(state: Mapping[str, Any], keep: Sequence[int]) -> CrossEncoder:
    bert = {name.removeprefix("bert."): value for name, value in state.items()}
    model = CrossEncoder(from_base(bert, keep))
    model.pooler.weight.data = torch.tensor(bert["pooler.dense.weight"])
    model.pooler.bias.data = torch.tensor(bert["pooler.dense.bias"])
    model.score.weight.data = torch.tensor(state["classifier.weight"]).reshape(1, WIDTH)
    model.score.bias.data = torch.tensor(state["classifier.bias"]).reshape(1)
    return model
