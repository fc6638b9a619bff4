"""Exports trained weights as the files that are shipped.

    python -m training.export WORK NAME.pt FOLDER [--version 1]
    python -m training.export WORK base FOLDER
    python -m training.export WORK NAME.pt FOLDER --cross
    python -m training.export WORK NAME.pt FOLDER --multilingual --shipped-share 0.2

writes `model.onnx` (int8), `tokenizer.json` and `model.json` into FOLDER, and the same before
quantization into `FOLDER.float/`, for comparison. `base` is the unchanged base model with dense
vectors only, also for comparison; `--cross` is for the weights of `training.cross`,
`--multilingual` for those of `training.multilingual`, mixed with a share of the shipped weights.

int8 is dynamic, and per channel of the weights. A few channels of the activations are many times
larger than the rest, and all share one int8 scale. So they are scaled down before a layer, and the
layer's weights for them are scaled up (`SmoothedLinear`).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor, nn

from training import base, data
from training.measure_languages import load_student
from training.model import (
    HEADS,
    WIDTH,
    Bert,
    CrossEncoder,
    Encoder,
    Layer,
    cross_encoder,
    from_base,
)
from training.optimize_graph import optimize
from training.prepare import PREFIX, tokenise
from training.shipped import load_encoder

ENGLISH: dict[str, Any] = {
    "name": "kb-mini",
    "scripts": ["Latin"],
    "languages": ["en"],
    "summary": "dense, sparse and token vectors from one small English model",
}
MULTILINGUAL: dict[str, Any] = {
    "name": "kb-mini-multilingual",
    "scripts": [
        "Latin", "CJK", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Arabic", "Thai",
        "Devanagari",
    ],
    "languages": (
        "en ar cs de es fr hi id it ja ko nl pl pt ru sv th tr uk vi zh".split()
    ),
    "summary": "dense, sparse and token vectors from one small model for 21 languages",
}  # fmt: skip
PARTS = ("dense", "sparse", "query_sparse", "tokens")
SHARE = 0.65  # of the difficulty that moves to the weights
OUTPUTS = ("dense_vecs", "sparse_vecs", "query_sparse_vecs", "colbert_vecs")


def trained(work: Path, weights: Path) -> Encoder:
    """The network with its weights; word embeddings come from the base."""
    state = torch.load(weights, weights_only=True)
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    bert = from_base(base.load(work / "encoder.npz"), range(layers))
    width = state["token_vectors.weight"].shape[0]
    encoder = Encoder(bert, state["idf"].float(), state["continues"].float(), width)
    state["bert.words.weight"] = bert.words.weight.detach()
    encoder.load_state_dict({name: value.float() for name, value in state.items()})
    return encoder.eval()


class BalancedEncoder(nn.Module):
    """The encoder, with the rarity weight of terms divided evenly between queries and passages. In
    training, only queries are weighted by rarity. The dot products are the same, but articles are
    no longer among the heaviest terms of a passage."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dense, passage, query, tokens = self.encoder(ids, mask)
        root = self.encoder.rarity(ids)[0].clamp(min=1e-3).sqrt()
        return dense, passage * root, query / root, tokens


class SmoothedLinear(nn.Module):
    """An equivalent Linear whose input has no channels far larger than the others."""

    def __init__(self, linear: nn.Linear, scale: Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(linear.in_features, linear.out_features)
        self.linear.weight.data = linear.weight.data * scale
        self.linear.bias.data = linear.bias.data
        self.register_buffer("smaller", 1 / scale)

    def forward(self, x: Tensor) -> Tensor:
        options: Tensor = self.linear(x * self.smaller)
        return options


def smooth(bert: Bert, rows: list[list[int]]) -> None:
    """Smooth the readers of a layer's input (qkv and up) by its magnitude for `rows`."""
    peaks: dict[nn.Module, Tensor] = {}

    def look(module: nn.Module, options: tuple[Tensor]) -> None:
        largest = options[0].abs().amax(dim=(0, 1))
        peaks[module] = torch.maximum(peaks.get(module, largest), largest)

    linears = [(layer, name) for layer in bert.layers for name in ("qkv", "up")]
    hooks = [getattr(*each).register_forward_pre_hook(look) for each in linears]
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row])
            bert(ids, torch.ones_like(ids))
    for hook in hooks:
        hook.remove()
    for layer, name in linears:
        linear = getattr(layer, name)
        weights = linear.weight.data.abs().amax(0)
        scale = peaks[linear] ** SHARE / weights ** (1 - SHARE)
        setattr(layer, name, SmoothedLinear(linear, (scale / scale.median()).clamp(min=0.01)))


class Attention(torch.autograd.Function):
    """Attention as one node of ONNX Runtime instead of eight ONNX nodes. It has no mask: kb runs
    one text at a time, without padding."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # noqa: ARG004
        batch, length, _ = query.shape
        parts = [x.view(batch, length, HEADS, -1).transpose(1, 2) for x in (query, key, value)]
        mixed = F.scaled_dot_product_attention(*parts)
        return mixed.transpose(1, 2).reshape(batch, length, WIDTH)

    @staticmethod
    def symbolic(graph: Any, query: Any, key: Any, value: Any) -> Any:
        node = "com.microsoft::MultiHeadAttention"
        return graph.op(node, query, key, value, num_heads_i=HEADS).setType(query.type())


class FusedLayer(nn.Module):
    """A layer whose attention is one node."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, _mask: Tensor) -> Tensor:
        layer = self.layer
        mixed = Attention.apply(*layer.qkv(x).chunk(3, -1))
        x = layer.norm_attention(x + layer.out(mixed))
        options: Tensor = layer.norm_output(x + layer.down(F.gelu(layer.up(x))))
        return options


def fuse(bert: Bert) -> None:
    bert.layers = nn.ModuleList(map(FusedLayer, bert.layers))


class BaseEncoder(nn.Module):
    """The unchanged base model: a dense vector."""

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
        op_types_to_quantize=["MatMul", "Gather"],
        nodes_to_exclude=plain,
    )
    optimize(target)


def describe(folder: Path, facts: dict[str, Any], names: list[str]) -> None:
    files = {}
    for name in names:
        content = (folder / name).read_bytes()
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    text = json.dumps({"format": 1, **facts, "files": files}, indent=2)
    (folder / "model.json").write_text(text + "\n", encoding="utf-8")


def lay(
    tokenizer: Path, model: nn.Module, folder: Path, about: dict[str, Any], *, int8: bool
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    outputs, width = dict(zip(PARTS, OUTPUTS, strict=True)), 1
    if isinstance(model, BalancedEncoder):
        width = model.encoder.token_vectors.out_features
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
    shutil.copy(tokenizer, folder / "tokenizer.json")
    facts = {
        **about,
        "name": about["name"] if int8 else f"{about['name']}-float",
        "dimension": 384,
        "token_dimension": width,
        "max_tokens": 512,
        "query_prefix": f"{PREFIX} ",
        "passage_prefix": "",
        "terms": "stems",
        "outputs": outputs,
        "licence": "MIT",
    }
    describe(folder, facts, ["model.onnx", "tokenizer.json"])


def trained_cross(work: Path, weights: Path) -> CrossEncoder:
    state = torch.load(weights, weights_only=True)
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    model = cross_encoder(base.load(work / "teacher.npz"), range(layers))
    state["bert.words.weight"] = model.bert.words.weight.detach()
    model.load_state_dict({name: value.float() for name, value in state.items()})
    return model.eval()


def lay_cross(work: Path, model: CrossEncoder, folder: Path, version: str, *, int8: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ids = torch.tensor([[101, 7953, 102, 2003, 102]])
    kinds = torch.tensor([[0, 0, 0, 1, 1]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": kinds}
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "model.onnx"
        to_onnx(model, inputs, ["scores"], plain)
        (to_int8 if int8 else shutil.copy)(plain, folder / "model.onnx")
    shutil.copy(work / "tokenizer.json", folder / "tokenizer.json")
    facts = {
        "name": "kb-judge" if int8 else "kb-judge-float",
        "version": version,
        "max_tokens": 512,
        "scripts": ["Latin"],
        "outputs": {"score": "scores"},
        "licence": "Apache-2.0",
        "summary": "a small cross-encoder: a score for a query and a passage read together",
    }
    describe(folder, facts, ["model.onnx", "tokenizer.json"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="1")
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--multilingual", action="store_true")
    parser.add_argument("--shipped-share", type=float, default=0.0)
    options = parser.parse_args()
    extended = "tokenizer-extended.json" if options.multilingual else "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(options.work / extended))
    samples = {"pairs": 800, "retrieval": 2500} if options.multilingual else {"pairs": 800}
    texts = [
        row["positive"]
        for name, step in samples.items()
        for row in itertools.islice(data.lines(options.work / f"{name}.jsonl.gz"), 0, None, step)
    ]
    rows = tokenise(tokenizer, texts, 256)
    if options.cross:
        judge = trained_cross(options.work, options.weights)
        smooth(judge.bert, rows)
        for folder, int8 in ((options.folder, True), (Path(f"{options.folder}.float"), False)):
            lay_cross(options.work, judge, folder, options.version, int8=int8)
        return
    about = MULTILINGUAL if options.multilingual else ENGLISH
    if str(options.weights) == "base":
        model: nn.Module = BaseEncoder(options.work).eval()
        about = ENGLISH | {"name": "bge-small"}
    else:
        if options.multilingual:
            shipped = load_encoder(options.work / "shipped")
            encoder = load_student(shipped, options.weights, options.shipped_share)
        else:
            encoder = trained(options.work, options.weights)
        smooth(encoder.bert, rows)
        fuse(encoder.bert)
        model = BalancedEncoder(encoder)
    for folder, int8 in ((options.folder, True), (Path(f"{options.folder}.float"), False)):
        facts = about | {"version": options.version}
        lay(options.work / extended, model, folder, facts, int8=int8)
        print(folder, f"{(folder / 'model.onnx').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
