"""A tiny model of BGE-M3's architecture, in the files that its exports have. Random weights.

XLM-RoBERTa with two layers: positions counted from after the padding token, a norm after every
part, several heads, GELU. On top of it are the three heads of BGE-M3: the first token's normalized
vector; a weight per token, never negative; and a normalized vector per token except the first. Its
tokens are those of a unigram model with `▁` for spaces, and its weights are in a separate file.
There is no model.json: exports on hubs have none.

    python -m tests.models.make_tiny_m3 FOLDER     writes one there
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.models import torch_files

HIDDEN, HEADS, LAYERS, INNER = 32, 4, 2, 64
PLACES, PAD = 66, 1  # 64 tokens, and two places that are never used
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = (
    "▁the ▁radio ▁slot s ▁were ▁made ▁wide r ▁battery ▁in ▁salt ▁water ing ed ▁ "
    "数据 备份 データ 서버"
)
LETTERS = (
    "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?-数据库备份每天凌晨三点自动会議のメモ来週서버를"
)
PIECES = (*WORDS.split(), *dict.fromkeys(LETTERS))
VOCABULARY = (*SPECIAL, *PIECES, "<mask>")
OUTPUTS = ("dense_vecs", "sparse_vecs", "colbert_vecs")
CONFIG = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": PLACES,
    "pad_token_id": PAD,
    "vocab_size": len(VOCABULARY),
    "type_vocab_size": 1,
}


def lay(
    folder: Path,
    *,
    external: bool = True,
    outputs: tuple[str, ...] = OUTPUTS,
    names: Mapping[str, str] | None = None,
    graph: str = "model.onnx",
) -> Path:
    """Write the export to `folder`, with its weights beside the graph or inside it. `names` are
    other names for outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    model = _model(outputs, names or {})
    onnx.checker.check_model(model)
    path = str(folder / graph)
    if external:
        onnx.save(model, path, save_as_external_data=True, location=f"{graph}_data",
                  size_threshold=1024)  # fmt: skip
    else:
        onnx.save(model, path)
    _tokenizer(folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    told = {"model_max_length": PLACES - 2, "tokenizer_class": "XLMRobertaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def lay_heads(folder: Path) -> None:
    """Write the heads of the graph as the files that BGE-M3 has beside its network."""
    weights = _weights()
    for head in ("sparse", "colbert"):
        weight, bias = weights[f"to_{head}"].T.copy(), weights[f"{head}_bias"]
        torch_files.write(folder / f"{head}_linear.pt", {"weight": weight, "bias": bias})


def _tokenizer(path: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    def weight(piece: str) -> float:
        return 0.0 if piece in (*SPECIAL, "<mask>") else -10.0 / len(piece)

    made = Tokenizer(models.Unigram([(piece, weight(piece)) for piece in VOCABULARY], unk_id=3))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    made.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    made.add_special_tokens([AddedToken(each, special=True) for each in (*SPECIAL, "<mask>")])
    made.post_processor = TemplateProcessing(
        "<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.save(str(path))


# --- the graph ------------------------------------------------------------------------------------


def _model(outputs: tuple[str, ...], names: Mapping[str, str]) -> onnx.ModelProto:
    text = ("batch", "seq")
    shapes: dict[str, tuple[str | int, ...]] = {
        "dense_vecs": ("batch", HIDDEN),
        "sparse_vecs": (*text, 1),
        "colbert_vecs": ("batch", "seq_but_one", HIDDEN),
    }
    graph = helper.make_graph(
        [*_nodes(), *(_op("Identity", name, other) for name, other in names.items())],
        "tiny_m3",
        [helper.make_tensor_value_info(each, TensorProto.INT64, text)
         for each in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info(names.get(each, each), TensorProto.FLOAT,
                                       shapes.get(each, (*text, HIDDEN)))
         for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in _weights().items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _weights() -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {
        "words": (len(VOCABULARY), HIDDEN), "places": (PLACES, HIDDEN), "kind": (HIDDEN,),
        "to_sparse": (HIDDEN, 1), "to_colbert": (HIDDEN, HIDDEN), "colbert_bias": (HIDDEN,),
    }  # fmt: skip
    for layer in range(LAYERS):
        shapes |= {f"{name}{layer}": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "o")}
        shapes |= {f"up{layer}": (HIDDEN, INNER), f"down{layer}": (INNER, HIDDEN)}
    made: dict[str, NDArray[Any]] = {
        name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()
    }
    scalars = {
        "one": 1,
        "half": 0.5,
        "far": -1e4,
        "root2": 2**0.5,
        "scale": (HIDDEN / HEADS) ** 0.5,
    }
    made |= {name: np.array(value, np.float32) for name, value in scalars.items()}
    made |= {"sparse_bias": np.full(1, 2, np.float32)}
    made |= {"ones": np.ones(HIDDEN, np.float32), "zeros": np.zeros(HIDDEN, np.float32)}
    ints = {
        "pad": PAD, "first": 0, "along": 1, "split": [0, 0, HEADS, HIDDEN // HEADS],
        "joined": [0, 0, HIDDEN], "heads": [1, 2], "second": [1], "end": [2**31],
        "second_axis": [1], "heads_last": [2],
    }  # fmt: skip
    return made | {name: np.array(value, np.int64) for name, value in ints.items()}


def _op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name=f"n_{output}", **attributes)


def _nodes() -> list[onnx.NodeProto]:
    """XLM-RoBERTa's positions: the number of tokens up to here that are not padding, plus the id of
    the padding token."""
    begin = [
        _op("Equal", "input_ids pad", "is_pad"), _op("Not", "is_pad", "is_word"),
        _op("Cast", "is_word", "counted", to=TensorProto.INT64),
        _op("CumSum", "counted along", "summed"), _op("Mul", "summed counted", "nth"),
        _op("Add", "nth pad", "place_ids"),
        _op("Gather", "words input_ids", "word"), _op("Gather", "places place_ids", "place"),
        _op("Add", "word place", "placed"), _op("Add", "placed kind", "kinded"),
        _op("LayerNormalization", "kinded ones zeros", "x0", axis=-1),
        _op("Cast", "attention_mask", "mask", to=TensorProto.FLOAT),
        _op("Sub", "one mask", "unseen"), _op("Mul", "unseen far", "hidden"),
        _op("Unsqueeze", "hidden heads", "masked"),
    ]  # fmt: skip
    layers = [node for layer in range(LAYERS) for node in _layer(layer)]
    return [*begin, *layers, *_heads(f"x{LAYERS}")]


def _layer(n: int) -> list[onnx.NodeProto]:
    x = f"x{n}"
    split = [
        node
        for each in "qkv"
        for node in (
            _op("MatMul", f"{x} {each}{n}", f"{each}_{n}"),
            _op("Reshape", f"{each}_{n} split", f"{each}s{n}"),
            _op("Transpose", f"{each}s{n}", f"{each}h{n}",
                perm=[0, 2, 3, 1] if each == "k" else [0, 2, 1, 3]),
        )
    ]  # fmt: skip
    return [
        *split,
        _op("MatMul", f"qh{n} kh{n}", f"raw{n}"), _op("Div", f"raw{n} scale", f"scaled{n}"),
        _op("Add", f"scaled{n} masked", f"seen{n}"), _op("Softmax", f"seen{n}", f"att{n}", axis=-1),
        _op("MatMul", f"att{n} vh{n}", f"mixed{n}"),
        _op("Transpose", f"mixed{n}", f"back{n}", perm=[0, 2, 1, 3]),
        _op("Reshape", f"back{n} joined", f"flat{n}"), _op("MatMul", f"flat{n} o{n}", f"out{n}"),
        _op("Add", f"{x} out{n}", f"y_{n}"),
        _op("LayerNormalization", f"y_{n} ones zeros", f"y{n}", axis=-1),
        _op("MatMul", f"y{n} up{n}", f"wide{n}"),
        _op("Div", f"wide{n} root2", f"part{n}"), _op("Erf", f"part{n}", f"erf{n}"),
        _op("Add", f"erf{n} one", f"gate{n}"), _op("Mul", f"wide{n} gate{n}", f"bent_{n}"),
        _op("Mul", f"bent_{n} half", f"bent{n}"), _op("MatMul", f"bent{n} down{n}", f"z_{n}"),
        _op("Add", f"y{n} z_{n}", f"z{n}"),
        _op("LayerNormalization", f"z{n} ones zeros", f"x{n + 1}", axis=-1),
    ]  # fmt: skip


def _heads(last: str) -> list[onnx.NodeProto]:
    return [
        _op("Identity", last, "last_hidden_state"),
        _op("Gather", f"{last} first", "cls", axis=1),
        _op("LpNormalization", "cls", "dense_vecs", axis=-1, p=2),
        _op("MatMul", f"{last} to_sparse", "s_"), _op("Add", "s_ sparse_bias", "s"),
        _op("Relu", "s", "sparse_vecs"),
        _op("Slice", f"{last} second end second_axis", "rest"),
        _op("MatMul", "rest to_colbert", "c_"), _op("Add", "c_ colbert_bias", "c"),
        _op("Slice", "mask second end second_axis", "rest_mask_"),
        _op("Unsqueeze", "rest_mask_ heads_last", "rest_mask"),
        _op("Mul", "c rest_mask", "c_masked"),
        _op("LpNormalization", "c_masked", "colbert_vecs", axis=-1, p=2),
    ]  # fmt: skip


if __name__ == "__main__":
    lay(Path(sys.argv[1]))
