"""The network of kb-mini in torch, for a GPU, with the weights of the shipped int8 graph.

The graph processes one text at a time on a CPU; this network processes padded batches. The names of
the weights are those that `training/export.py` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.models.onnx_weights import Weights
from kb.models.torch_linear import HalfLinear, Int8Linear, LinearWeights, has_integer_kernels

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
    """kb-mini on a device of torch. With `exact`, the arithmetic is that of the int8 graph,
    otherwise half precision. Raises `KeyError` for the weights of another network."""

    def __init__(self, weights: Weights, device: str, *, exact: bool = True) -> None:
        import torch

        self.device = device
        self.dtype = torch.float32 if exact or device == "cpu" else torch.float16
        heads = {node.integers.get("num_heads", 0) for node in weights.nodes} - {0}
        if len(heads) != 1:
            raise KeyError("num_heads")
        (self.heads,) = heads
        state = float_state(weights)
        self._state = {
            name: torch.tensor(value, device=device).to(
                torch.float32 if name in ("idf", "continues") else self.dtype
            )
            for name, value in state.items()
        }
        integers = exact and has_integer_kernels(device)
        self._linears: dict[str, Int8Linear | HalfLinear] = {
            name: Int8Linear(linear, device, integers=integers)
            if exact
            else HalfLinear(linear, device, self.dtype)
            for name, linear in linear_weights(weights).items()
        }
        self.layers = 0
        while f"bert.layers.{self.layers}.qkv" in self._linears:
            self.layers += 1
        linears, names = _expected_names(self.layers)
        missing = {*linears} - {*self._linears} | {*names} - {*self._state}
        if missing:
            raise KeyError(sorted(missing)[0])
        self._inner = max(linear.weight.shape[1] for linear in linear_weights(weights).values())

    def token_bytes(self, length: int) -> int:
        """An upper bound on the memory for each token of a text of this length: activations of one
        layer, and attention scores if the device has no fused attention."""
        width = len(self._state["bert.norm.bias"])
        copies = 6 if self.dtype.itemsize == 4 else 3
        values = copies * (self._inner + 3 * width) + 2 * self.heads * length
        return int(values) * int(self.dtype.itemsize)

    def outputs(self, ids: Any, mask: Any) -> Outputs:
        """Compute the outputs for token ids and a mask, which is 0 where a text is padded. Both
        have the shape [texts, tokens]."""
        import torch
        from torch.nn import functional as nn

        column = mask[:, :, None].to(self.dtype)
        hidden = self._hidden_states(ids, column)
        rarity, pieces = self._rarity(ids, mask)
        features = torch.cat([hidden, rarity.to(self.dtype), pieces.to(self.dtype)], -1)
        counts = (rarity > 0).float() * mask[:, :, None]
        root = rarity.clamp(min=_MIN_RARITY).sqrt()
        passage, query = (
            nn.softplus(self._head(head, features, column).float())
            for head in ("weight", "query_weight")
        )
        tokens = self._linears["token_vectors"](hidden, column).float()
        dense = nn.normalize(hidden[:, 0].float(), dim=-1)
        return Outputs(dense, passage * counts * root, query * counts * rarity / root, tokens)

    def _hidden_states(self, ids: Any, column: Any) -> Any:
        state = self._state
        x = state["bert.words.weight"][ids] + state["bert.positions.weight"][: ids.shape[1]]
        x = self._norm("bert.norm", x + state["bert.kind"])
        bias = ((1 - column) * _MASKED)[:, None, None, :, 0]
        for number in range(self.layers):
            x = self._layer(f"bert.layers.{number}", x, column, bias)
        return x

    def _layer(self, name: str, x: Any, column: Any, bias: Any) -> Any:
        from torch.nn import functional as nn

        linears = self._linears
        texts, length, width = x.shape
        qkv = linears[f"{name}.qkv"](x, column).view(texts, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(texts, length, width)
        x = self._norm(f"{name}.norm_attention", x + linears[f"{name}.out"](mixed, column))
        inner = nn.gelu(linears[f"{name}.up"](x, column))
        return self._norm(f"{name}.norm_output", x + linears[f"{name}.down"](inner, column))

    def _norm(self, name: str, x: Any) -> Any:
        from torch.nn import functional as nn

        weight, bias = self._state[f"{name}.weight"], self._state[f"{name}.bias"]
        return nn.layer_norm(x, weight.shape, weight, bias, _NORM_EPSILON)

    def _head(self, name: str, features: Any, column: Any) -> Any:
        from torch.nn import functional as nn

        inner = nn.gelu(self._linears[f"{name}.0"](features, column))
        return self._linears[f"{name}.2"](inner, column)

    def _rarity(self, ids: Any, mask: Any) -> tuple[Any, Any]:
        """The rarity of each token's word, and whether the word has several pieces."""
        import torch
        from torch.nn import functional as nn

        continues = self._state["continues"][ids] * mask
        pieces = torch.maximum(continues, nn.pad(continues[:, 1:], (0, 1)))
        idf = self._state["idf"][ids]
        rarity = torch.maximum(idf, RARE * pieces * (idf > 0))
        return rarity[:, :, None], pieces[:, :, None]


def _expected_names(layers: int) -> tuple[list[str], list[str]]:
    """The names of all linear functions and other weights of a network with this many layers."""
    linears = [f"{head}.{number}" for head in ("weight", "query_weight") for number in (0, 2)]
    norms = ["bert.norm"]
    for number in range(max(layers, 1)):
        layer = f"bert.layers.{number}"
        linears += [f"{layer}.{part}" for part in ("qkv", "out", "up", "down")]
        norms += [f"{layer}.norm_attention", f"{layer}.norm_output"]
    names = [f"{norm}.{part}" for norm in norms for part in ("weight", "bias")]
    names += ["bert.words.weight", "bert.positions.weight", "bert.kind", "idf", "continues"]
    return [*linears, "token_vectors"], names


# --- from the graph -------------------------------------------------------------------------------


def linear_weights(weights: Weights) -> dict[str, LinearWeights]:
    """The linear functions of the graph, by the names of their modules. Raises `KeyError`."""
    arrays = weights.arrays
    plain = {_plain_name(name): value for name, value in arrays.items()}
    linears = {}
    for node in weights.nodes:
        if node.kind != "MatMulInteger":
            continue
        module = node.name.strip("/").replace("/", ".").removesuffix(".MatMul_quant")
        name = _plain_name(f"{module}.weight").removesuffix(".weight")
        stem = node.inputs[1].removesuffix("_quantized")
        if arrays[f"{stem}_zero_point"].any():
            raise KeyError(f"{name} has zero points other than 0")
        linears[name] = LinearWeights(
            arrays[node.inputs[1]],
            arrays[f"{stem}_scale"],
            plain.get(f"{name}.bias"),
            plain.get(f"{name}.smaller"),
        )
    return linears


def float_state(weights: Weights) -> dict[str, NDArray[Any]]:
    """The embeddings, normalizations and tables of the network, by the names of their modules."""
    import numpy as np

    arrays = weights.arrays
    state: dict[str, Any] = {
        _plain_name(name): value
        for name, value in arrays.items()
        if name.startswith(_PREFIX) and value.dtype == np.float32 and value.ndim
    }
    for node in weights.nodes:
        if node.kind == "Gather" and node.inputs[0].endswith(".weight_quantized"):
            name = node.inputs[0].removesuffix("_quantized")
            state[_plain_name(name)] = _dequantize(node.inputs[0], arrays)
        elif node.kind == "Add" and node.name == "/encoder/bert/Add_1":
            # The exporter stores the embedding of the single segment type as a constant.
            state["bert.kind"] = next(arrays[name] for name in node.inputs if name in arrays)
    return state


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
