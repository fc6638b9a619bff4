"""A tiny model in the layout of the real one: a graph with random weights, a tokenizer, a manifest.

For tests of what surrounds a model. Its vectors mean nothing, but they depend on every token and
its position, and the int8 graph computes its scales as the real one does: over the whole batch.

    python -m tests.models.tiny FOLDER     writes one there
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

HIDDEN, DIMENSION, TOKEN_DIMENSION, MAX_TOKENS = 32, 32, 8, 48
PREFIX = "search for: "
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "search for retry storm radio buoy battery sleep window slot salt water sensor drift clock "
    "hull guard copper wiper mooring the a of and in is was not it to dis ##solved ##ing ##s"
).split()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"
SIGNS = (*LETTERS, *".,:;!?()[]'\"-#", *(f"##{letter}" for letter in LETTERS))
VOCABULARY = tuple(dict.fromkeys((*SPECIAL, *WORDS, *SIGNS)))
OUTPUTS = {
    "dense": "dense_vecs",
    "sparse": "sparse_vecs",
    "query_sparse": "query_sparse_vecs",
    "tokens": "colbert_vecs",
}
_TEXT = ("batch", "seq")
_WIDTHS: dict[str, Sequence[str | int | None]] = {
    "dense_vecs": ("batch", DIMENSION),
    "colbert_vecs": (*_TEXT, TOKEN_DIMENSION),
}


def lay(
    folder: Path,
    *,
    int8: bool = True,
    token_types: bool = True,
    outputs: Mapping[str, str] = OUTPUTS,
    weights: Mapping[str, float] | None = None,
    **said: Any,
) -> Path:
    """Write a model to `folder`. `weights` fills the weights of that name with one value. `outputs`
    and `said` are values of the manifest, whatever the files contain."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = _graph(token_types=token_types, filled=weights or {})
    _save(graph, folder / "model.onnx", int8=int8)
    _tokenizer(folder / "tokenizer.json")
    manifest = {
        "format": 1,
        "name": "tiny",
        "version": "1",
        "dimension": DIMENSION,
        "token_dimension": TOKEN_DIMENSION,
        "max_tokens": MAX_TOKENS,
        "query_prefix": PREFIX,
        "passage_prefix": "",
        "outputs": dict(outputs),
        "files": {name: _facts(folder / name) for name in ("model.onnx", "tokenizer.json")},
        "licence": "MIT",
        "summary": "Random weights, for tests.",
    }
    write_manifest(folder, manifest | said)
    return folder


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    (folder / "model.json").write_text(json.dumps(manifest), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return data


def _facts(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _tokenizer(path: Path) -> None:
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    numbers = {token: number for number, token in enumerate(VOCABULARY)}
    made = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[(each, numbers[each]) for each in ("[CLS]", "[SEP]")]
    )
    # Tokenizers are often published with settings for truncation and padding, which kb ignores.
    made.enable_truncation(16)
    made.enable_padding(length=16)
    made.save(str(path))


# --- the graph ------------------------------------------------------------------------------------


def _graph(*, token_types: bool, filled: Mapping[str, float]) -> onnx.ModelProto:
    nodes, inputs = _nodes(token_types), ["input_ids", "attention_mask"]
    if token_types:
        inputs.append("token_type_ids")
    made = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(each, TensorProto.INT64, _TEXT) for each in inputs],
        [
            helper.make_tensor_value_info(each, TensorProto.FLOAT, _WIDTHS.get(each, (*_TEXT, 1)))
            for each in OUTPUTS.values()
        ],
        [numpy_helper.from_array(array, name) for name, array in _weights(filled).items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _weights(filled: Mapping[str, float]) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(7)
    shapes = {
        "words": (len(VOCABULARY), HIDDEN), "places": (MAX_TOKENS, HIDDEN), "kinds": (2, HIDDEN),
        "q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN),
        "up": (HIDDEN, 64), "down": (64, HIDDEN), "to_dense": (HIDDEN, DIMENSION),
        "to_sparse": (HIDDEN, 1), "to_query_sparse": (HIDDEN, 1),
        "to_tokens": (HIDDEN, TOKEN_DIMENSION),
    }  # fmt: skip
    made: dict[str, NDArray[Any]] = {
        name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()
    }
    made |= {name: np.full(shapes[name], value, np.float32) for name, value in filled.items()}
    made |= {"ones": np.ones(HIDDEN, np.float32), "zeros": np.zeros(HIDDEN, np.float32)}
    made |= {"one": np.array(1, np.float32), "far": np.array(-1e4, np.float32)}
    made |= {"first": np.array(0, np.int64)}
    made |= {"axis": np.array([1], np.int64), "start": np.array([0], np.int64)}
    return made


def _nodes(token_types: bool) -> list[onnx.NodeProto]:
    def op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], name=f"n_{output}", **attributes)

    kinds = [
        op("Gather", "kinds token_type_ids", "kind"),
        op("Add", "placed kind", "summed"),
    ] if token_types else [op("Identity", "placed", "summed")]  # fmt: skip
    return [
        op("Gather", "words input_ids", "word"),
        op("Shape", "input_ids", "length", start=1, end=2),
        op("Slice", "places start length start", "place"),
        op("Add", "word place", "placed"),
        *kinds,
        op("LayerNormalization", "summed ones zeros", "x", axis=-1),
        op("MatMul", "x q", "xq"), op("MatMul", "x k", "xk"), op("MatMul", "x v", "xv"),
        op("Transpose", "xk", "xkt", perm=[0, 2, 1]),
        op("MatMul", "xq xkt", "scores"),
        op("Cast", "attention_mask", "mask", to=TensorProto.FLOAT),
        op("Sub", "one mask", "unseen"),
        op("Mul", "unseen far", "hidden"),
        op("Unsqueeze", "hidden axis", "masked"),
        op("Add", "scores masked", "seen"),
        op("Softmax", "seen", "attention", axis=-1),
        op("MatMul", "attention xv", "attended"),
        op("Add", "x attended", "y_"),
        op("LayerNormalization", "y_ ones zeros", "y", axis=-1),
        op("MatMul", "y up", "wide"), op("Tanh", "wide", "bent"), op("MatMul", "bent down", "back"),
        op("Add", "y back", "z_"),
        op("LayerNormalization", "z_ ones zeros", "z", axis=-1),
        op("Gather", "z first", "cls", axis=1),
        op("MatMul", "cls to_dense", "dense_vecs"),
        op("MatMul", "z to_sparse", "s"), op("Relu", "s", "sparse_vecs"),
        op("MatMul", "z to_query_sparse", "qs"), op("Relu", "qs", "query_sparse_vecs"),
        op("MatMul", "z to_tokens", "colbert_vecs"),
    ]  # fmt: skip


def _save(model: onnx.ModelProto, path: Path, *, int8: bool) -> None:
    onnx.checker.check_model(model)
    if not int8:
        onnx.save(model, str(path))
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    add_pre_process_metadata(model)  # avoids a warning; preprocessing would not help here
    quantize_dynamic(model, str(path), weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])


if __name__ == "__main__":
    lay(Path(sys.argv[1]))
