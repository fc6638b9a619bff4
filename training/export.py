"""From trained weights to the files that are shipped.

    python -m training.export WORK NAME.pt FOLDER [--version 1]
    python -m training.export WORK base FOLDER

writes `model.onnx` (int8), `tokenizer.json`, `terms.txt` and `model.json` into FOLDER, and beside
it `FOLDER.float/`, the same before quantisation, to compare with. `base` is the untouched base
model with its dense vectors alone, to compare with too.

int8 is dynamic, by channel, and in seven bits (`reduce_range`): processors without VNNI add two
products of eight bits in sixteen, which overflows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor, nn

from training import base
from training.model import Encoder, from_base
from training.prepare import PREFIX
from training.terms import terms

PARTS = ("dense", "sparse", "query_sparse", "tokens")
OUTPUTS = ("dense_vecs", "sparse_vecs", "query_sparse_vecs", "colbert_vecs")


def trained(work: Path, weights: Path) -> Encoder:
    """The network with its weights; word embeddings come from the base."""
    state = torch.load(weights, weights_only=True)
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    bert = from_base(base.load(work / "encoder.npz"), range(layers))
    encoder = Encoder(bert, state["idf"].float(), state["token_vectors.weight"].shape[0])
    state["bert.words.weight"] = bert.words.weight.detach()
    encoder.load_state_dict({name: value.float() for name, value in state.items()})
    return encoder.eval()


class Balanced(nn.Module):
    """The encoder, with the rarity of terms shared out evenly between queries and passages. In
    training queries bear all of it; the products are the same, and either side can be read: a
    passage's heaviest terms are not its articles."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dense, passage, query, tokens = self.encoder(ids, mask)
        root = self.encoder.idf[ids].unsqueeze(-1).clamp(min=1e-3).sqrt()
        return dense, passage * root, query / root, tokens


class Untouched(nn.Module):
    """The base model, as it came: a dense vector."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.bert = from_base(base.load(work / "encoder.npz"), range(12))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return F.normalize(self.bert(ids, mask)[:, 0], dim=-1)


def to_onnx(
    model: nn.Module, inputs: dict[str, torch.Tensor], outputs: list[str], path: Path
) -> None:
    tokens = {0: "batch", 1: "tokens"}
    axes: dict[str, dict[int, str]] = dict.fromkeys(inputs, tokens)
    axes |= {name: {0: "batch"} if name in ("dense_vecs", "scores") else tokens for name in outputs}
    torch.onnx.export(
        model,
        tuple(inputs.values()),
        str(path),
        input_names=list(inputs),
        output_names=outputs,
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )


def to_int8(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(source).graph
    wide = {tensor.name for tensor in graph.initializer if len(tensor.dims) > 1}
    plain = [
        node.name for node in graph.node if node.op_type == "Gather" and node.input[0] not in wide
    ]
    quantize_dynamic(
        source,
        target,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul", "Gather"],
        nodes_to_exclude=plain,
    )


def describe(folder: Path, facts: dict[str, Any], names: list[str]) -> None:
    files = {}
    for name in names:
        content = (folder / name).read_bytes()
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    text = json.dumps({"format": 1, **facts, "files": files}, indent=2)
    (folder / "model.json").write_text(text + "\n", encoding="utf-8")


def lay(work: Path, model: nn.Module, folder: Path, version: str, *, int8: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    outputs = dict(zip(PARTS, OUTPUTS, strict=True))
    name, width = "bge-small", 1
    if isinstance(model, Balanced):
        name, width = "kb-mini", model.encoder.token_vectors.out_features
    else:
        outputs = {"dense": outputs["dense"]}
    ids = torch.tensor([[101, 7953, 2003, 102]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "model.onnx"
        to_onnx(model, inputs, list(outputs.values()), plain)
        if int8:
            to_int8(plain, folder / "model.onnx")
        else:
            shutil.copy(plain, folder / "model.onnx")
    shutil.copy(work / "tokenizer.json", folder / "tokenizer.json")
    words = terms(Tokenizer.from_file(str(work / "tokenizer.json")))
    (folder / "terms.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    facts = {
        "name": name if int8 else f"{name}-float",
        "version": version,
        "dimension": 384,
        "token_dimension": width,
        "max_tokens": 512,
        "query_prefix": f"{PREFIX} ",
        "passage_prefix": "",
        "outputs": outputs,
        "licence": "MIT",
        "summary": "dense, sparse and token vectors from one small English model",
    }
    describe(folder, facts, ["model.onnx", "tokenizer.json", "terms.txt"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="1")
    given = parser.parse_args()
    untouched = str(given.weights) == "base"
    model = (
        Untouched(given.work).eval() if untouched else Balanced(trained(given.work, given.weights))
    )
    for folder, int8 in ((given.folder, True), (Path(f"{given.folder}.float"), False)):
        lay(given.work, model, folder, given.version, int8=int8)
        print(folder, f"{(folder / 'model.onnx').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
