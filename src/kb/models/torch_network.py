"""The network of kb-mini in torch, for a GPU, with the weights of the shipped int8 graph.

The graph computes one text at a time on a CPU. Here a padded batch is computed in half precision;
`training/export.py` describes the network. The weights are the graph's int8 weights times their
scales, so that both compute the same, up to the rounding of activations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.models.onnx_weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

RARE = 0.75  # the minimum rarity of a word with several pieces
_MIN_RARITY = 1e-3
_NORM_EPSILON = 1e-12
_MASKED = -1e4
_PREFIX = "encoder."


class Outputs(NamedTuple):
    """Tensors with a row per text, and a row per token."""

    dense: Any
    sparse: Any
    query_sparse: Any
    tokens: Any


class Network:
    """kb-mini on a device of torch. Raises `KeyError` for the weights of another network."""

    def __init__(self, weights: Weights, device: str, dtype: Any) -> None:
        import torch

        state = float_state(weights)
        self.heads = next(
            n.integers["num_heads"] for n in weights.nodes if "num_heads" in n.integers
        )
        self.device, self.dtype = device, dtype
        self._state = {
            name: torch.tensor(value, device=device).to(
                torch.float32 if name in ("idf", "continues") else dtype
            )
            for name, value in state.items()
        }
        self.layers = 0
        while f"bert.layers.{self.layers}.qkv.weight" in self._state:
            self.layers += 1
        for name in _expected(self.layers):
            self._state[name]

    def token_bytes(self, length: int) -> int:
        """An upper estimate of the memory that a token of a text of this length takes: activations
        of one layer, and attention scores where the device has no fused attention."""
        inner, width = self._state["bert.layers.0.up.weight"].shape
        values = 2 * inner + 10 * width + 2 * self.heads * length
        return int(values) * self._state["bert.norm.bias"].element_size()

    def outputs(self, ids: Any, mask: Any) -> Outputs:
        """Compute the outputs for token ids and a mask, which is 0 where a text is padded. Both
        have the shape [texts, tokens]."""
        from torch.nn import functional as nn

        hidden = self._hidden(ids, mask)
        rarity, pieces = self._rarity(ids, mask)
        features = _cat([hidden, rarity.to(hidden.dtype), pieces.to(hidden.dtype)])
        counts = (rarity > 0).float() * mask[:, :, None]
        root = rarity.clamp(min=_MIN_RARITY).sqrt()
        sparse = nn.softplus(self._head("weight", features).float()) * counts * root
        query = nn.softplus(self._head("query_weight", features).float()) * counts * rarity / root
        tokens = nn.linear(hidden, self._state["token_vectors.weight"]).float()
        return Outputs(nn.normalize(hidden[:, 0].float(), dim=-1), sparse, query, tokens)

    def _hidden(self, ids: Any, mask: Any) -> Any:
        state = self._state
        x = state["bert.words.weight"][ids] + state["bert.positions.weight"][: ids.shape[1]]
        x = self._norm("bert.norm", x + state["bert.kind"])
        bias = ((1 - mask.to(x.dtype)) * _MASKED)[:, None, None, :]
        for number in range(self.layers):
            x = self._layer(f"bert.layers.{number}", x, bias)
        return x

    def _layer(self, name: str, x: Any, bias: Any) -> Any:
        from torch.nn import functional as nn

        texts, length, width = x.shape
        qkv = self._linear(f"{name}.qkv", x).view(texts, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(texts, length, width)
        x = self._norm(f"{name}.norm_attention", x + self._linear(f"{name}.out", mixed))
        inner = nn.gelu(self._linear(f"{name}.up", x))
        return self._norm(f"{name}.norm_output", x + self._linear(f"{name}.down", inner))

    def _linear(self, name: str, x: Any) -> Any:
        from torch.nn import functional as nn

        return nn.linear(x, self._state[f"{name}.weight"], self._state[f"{name}.bias"])

    def _norm(self, name: str, x: Any) -> Any:
        from torch.nn import functional as nn

        weight, bias = self._state[f"{name}.weight"], self._state[f"{name}.bias"]
        return nn.layer_norm(x, weight.shape, weight, bias, _NORM_EPSILON)

    def _head(self, name: str, features: Any) -> Any:
        from torch.nn import functional as nn

        return self._linear(f"{name}.2", nn.gelu(self._linear(f"{name}.0", features)))

    def _rarity(self, ids: Any, mask: Any) -> tuple[Any, Any]:
        """The rarity of each token's word, and whether the word has several pieces."""
        import torch
        from torch.nn import functional as nn

        continues = self._state["continues"][ids] * mask
        pieces = torch.maximum(continues, nn.pad(continues[:, 1:], (0, 1)))
        idf = self._state["idf"][ids]
        rarity = torch.maximum(idf, RARE * pieces * (idf > 0))
        return rarity[:, :, None], pieces[:, :, None]


def _cat(tensors: list[Any]) -> Any:
    import torch

    return torch.cat(tensors, -1)


def _expected(layers: int) -> list[str]:
    """The names of all weights of a network with this number of layers."""
    linear = [f"{head}.{number}" for head in ("weight", "query_weight") for number in (0, 2)]
    for number in range(max(layers, 1)):
        parts = ("qkv", "out", "norm_attention", "up", "down", "norm_output")
        linear += [f"bert.layers.{number}.{part}" for part in parts]
    names = [f"{name}.{kind}" for name in (*linear, "bert.norm") for kind in ("weight", "bias")]
    single = ("bert.words.weight", "bert.positions.weight", "bert.kind", "token_vectors.weight")
    return [*names, *single, "idf", "continues"]


# --- from the graph -------------------------------------------------------------------------------


def float_state(weights: Weights) -> dict[str, NDArray[Any]]:
    """The weights of the network by the names of their modules, in float32. The graph scales some
    inputs down and the weights for them up; here the weights are scaled back."""
    import numpy as np

    arrays = weights.arrays
    state: dict[str, Any] = {
        _plain_name(name): value
        for name, value in arrays.items()
        if name.startswith(_PREFIX) and value.dtype == np.float32 and value.ndim
    }
    for node in weights.nodes:
        if node.kind == "MatMulInteger":
            module = node.name.strip("/").replace("/", ".").removesuffix(".MatMul_quant")
            state[_plain_name(f"{module}.weight")] = _dequantize(node.inputs[1], arrays).T
        elif node.kind == "Gather" and node.inputs[0].endswith(".weight_quantized"):
            name = node.inputs[0].removesuffix("_quantized")
            state[_plain_name(name)] = _dequantize(node.inputs[0], arrays)
        elif node.kind == "Add" and node.name == "/encoder/bert/Add_1":
            # The exporter stores the embedding of the only kind of segment as a constant.
            state["bert.kind"] = next(arrays[name] for name in node.inputs if name in arrays)
    for name in [name for name in state if name.endswith(".smaller")]:
        weight = name.replace(".smaller", ".weight")
        state[weight] = state[weight] * state.pop(name)
    return {name: np.ascontiguousarray(value) for name, value in state.items()}


def _dequantize(name: str, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    stem = name.removesuffix("_quantized")
    zero, scale = arrays[f"{stem}_zero_point"], arrays[f"{stem}_scale"]
    values: NDArray[Any] = (arrays[name].astype("f4") - zero.astype("f4")) * scale
    return values


def _plain_name(name: str) -> str:
    """The exporter's wrappers of layers and linear functions add parts to the names, and names from
    nodes repeat those of a sequence: `encoder.bert.layers.0.layer.qkv.linear.bias` is
    `bert.layers.0.qkv.bias`, and `encoder.weight.weight.0.weight` is `weight.0.weight`."""
    name = name.removeprefix(_PREFIX).replace(".layer.", ".").replace(".linear.", ".")
    for head in ("query_weight", "weight"):
        if name.startswith(f"{head}.{head}."):
            return name.removeprefix(f"{head}.")
    return name
