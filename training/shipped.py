"""The float weights of a shipped kb-mini, converted back from its int8 ONNX file.

The training of a new version starts from the shipped model, which is also the teacher. Its float
weights are not kept anywhere, so they are converted back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.model import Bert, Encoder


def load_encoder(folder: Path) -> Encoder:
    """The encoder of `folder/model.onnx`, which `training.export` has written."""
    return encoder_of(float_state(folder / "model.onnx"))


def encoder_of(state: dict[str, torch.Tensor]) -> Encoder:
    """The encoder with the weights of a complete state dict."""
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    bert = Bert(layers, vocabulary=len(state["bert.words.weight"]))
    width = len(state["token_vectors.weight"])
    encoder = Encoder(bert, state["idf"], state["continues"], width)
    encoder.load_state_dict(state)
    return encoder.eval()


def float_state(path: Path) -> dict[str, torch.Tensor]:
    """The state dict of `training.model.Encoder`. Smoothing (`training.export.SmoothedLinear`) is
    undone: it moves a factor from the weights to the input."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    tensors = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    state: dict[str, Any] = {}
    for name, value in tensors.items():
        is_weight = value.dtype == np.float32 and value.ndim
        if is_weight and name.startswith("encoder.") and not name.endswith((".smaller", "_scale")):
            state[name] = value
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            module = node.name.strip("/").replace("/", ".").removesuffix(".MatMul_quant")
            state[f"{module}.weight"] = _dequantize(node.input[1], tensors).T
        elif node.op_type == "Gather" and node.input[0].endswith("weight_quantized"):
            state[node.input[0].removesuffix("_quantized")] = _dequantize(node.input[0], tensors)
        elif node.op_type == "Add" and any(name.startswith("onnx::Add") for name in node.input):
            # The exporter has stored the embedding of the only kind of segment as a constant.
            segment = tensors[next(name for name in node.input if name.startswith("onnx::Add"))]
            state["encoder.bert.kinds.weight"] = np.stack([segment, np.zeros_like(segment)])
    for name in [name for name in tensors if name.endswith(".smaller")]:
        linear = name.replace(".smaller", ".linear").replace(".layer.", ".")
        state[f"{linear}.weight"] = state[f"{linear}.weight"] * tensors[name]
    return {
        _torch_name(name): torch.tensor(np.ascontiguousarray(value), dtype=torch.float32)
        for name, value in state.items()
    }


def _dequantize(name: str, tensors: dict[str, Any]) -> Any:
    stem = name.removesuffix("_quantized")
    zero, scale = tensors[f"{stem}_zero_point"], tensors[f"{stem}_scale"]
    return (tensors[name].astype("f4") - zero.astype("f4")) * scale


def _torch_name(name: str) -> str:
    """`encoder.bert.layers.0.layer.qkv.linear.bias` is `bert.layers.0.qkv.bias` in training, and
    `encoder.weight.weight.0.weight`, the name of a node's module, is `weight.0.weight`."""
    name = name.removeprefix("encoder.").replace(".layer.", ".").replace(".linear.", ".")
    for head in ("query_weight", "weight"):
        name = name.replace(f"{head}.{head}.", f"{head}.", 1) if name.startswith(head) else name
    return name
