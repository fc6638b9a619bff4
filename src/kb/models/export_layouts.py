"""The layouts of exported encoders: names of graph files and of outputs, as found on model hubs.

BAAI/bge-m3                   onnx/model.onnx: sentence_embedding, token_embeddings; its heads
                              are sparse_linear.pt and colbert_linear.pt in the folder above
aapot/bge-m3-onnx             dense_vecs, sparse_vecs, colbert_vecs
gpahal/bge-m3-onnx-int8       the same in model_quantized.onnx
yuniko-software/bge-m3-onnx   bge_m3_model.onnx: dense_embeddings, sparse_weights,
                              colbert_vectors
newtechstudio/bge-m3-3head    dense, sparse, colbert, none of them normalized
Xenova/bge-m3                 onnx/model.onnx, onnx/model_quantized.onnx
exports by transformers       last_hidden_state, whose first row is the dense vector of BGE
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from kb.errors import ModelBroken
from kb.models.linear_head import HEAD_FILES, HEAD_SOURCE
from kb.models.manifest import NAME
from kb.models.onnx_file import GraphFile

GRAPH_FILES = (
    "model.onnx",
    "bge_m3_model.onnx",
    "model_quantized.onnx",
    "model_int8.onnx",
    "model_uint8.onnx",
    "model_optimized.onnx",
)
# The names of outputs; the first one present is used.
NAMES = {
    "dense": ("dense_vecs", "dense_embeddings", "dense_embedding", "sentence_embedding", "dense"),
    "sparse": ("sparse_vecs", "sparse_weights", "sparse_embeddings", "lexical_weights", "sparse"),
    "tokens": ("colbert_vecs", "colbert_vectors", "colbert_embeddings", "colbert"),
}
HIDDEN = ("token_embeddings", "last_hidden_state")
_RANKS = {"dense": (2,), "sparse": (2, 3), "tokens": (3,)}
_HINT = f"write a {NAME} that describes the files: see docs/how-to/models.md"


@dataclass(frozen=True, slots=True)
class ExportOutputs:
    """The graph's output for each part, and the parts that a separate head computes from it. With
    `first_token`, the dense vector is the first row of its output."""

    names: Mapping[str, str]
    heads: tuple[str, ...]
    first_token: bool


def recognize(
    path: Path, graph: GraphFile, heads: Set[str], *, pools_first_token: bool
) -> ExportOutputs:
    """Map the parts to outputs of the graph. `heads` are the parts whose heads are available.
    Hidden states contain the dense vector if the model is known to use that of its first token.
    Raises `ModelBroken` if there is no dense vector."""
    names = {
        part: name
        for part, known in NAMES.items()
        if (name := next((one for one in known if one in graph.outputs), None)) is not None
    }
    for part, name in names.items():
        shape = graph.outputs[name]
        if shape and len(shape) not in _RANKS[part]:
            raise ModelBroken(
                f"{path}: {name} has {len(shape)} axes, too few or too many for {part}", _HINT
            )
    hidden = hidden_states(graph)
    first_token = "dense" not in names and hidden is not None and (
        pools_first_token or bool(heads)
    )  # fmt: skip
    if hidden is not None and first_token:
        names["dense"] = hidden
    if "dense" not in names:
        raise _without_dense(path, graph, hidden)
    used: tuple[str, ...] = ()
    if hidden is not None:
        used = tuple(part for part in HEAD_FILES if part in heads and part not in names)
        names |= dict.fromkeys(used, hidden)
    return ExportOutputs({part: names[part] for part in NAMES if part in names}, used, first_token)


def hidden_states(graph: GraphFile) -> str | None:
    """The output with a hidden state for each token, which separate heads read."""
    return next(
        (
            name
            for name in HIDDEN
            if name in graph.outputs and len(graph.outputs[name] or (0, 0, 0)) == 3
        ),
        None,
    )


def missing_parts(graph: GraphFile, parts: Set[str]) -> list[str]:
    """What an export lacks to compute sparse vectors and token vectors, and how to get it."""
    lacking = [part for part in HEAD_FILES if part not in parts]
    if not lacking:
        return []
    labels = " and ".join({"sparse": "sparse vectors", "tokens": "token vectors"}[part]
                          for part in lacking)  # fmt: skip
    files = " and ".join(HEAD_FILES[part] for part in lacking)
    if hidden_states(graph) is not None:
        return [
            f"{labels}: for BGE-M3, copy {files} from {HEAD_SOURCE} into the folder of the graph"
        ]
    outputs = ", ".join(graph.outputs)
    return [f"{labels}: the graph computes only {outputs}; use an export with more outputs"]


def _without_dense(path: Path, graph: GraphFile, hidden: str | None) -> ModelBroken:
    message = (
        f"{path} has no dense output: its outputs are {', '.join(graph.outputs) or 'none'}, "
        f"and none of them is {', '.join(NAMES['dense'])}"
    )
    if hidden is None:
        return ModelBroken(message, _HINT)
    return ModelBroken(
        message,
        "if the first token has the dense vector, as in BGE models, copy "
        f"1_Pooling/config.json of the original model into its folder; otherwise {_HINT}",
    )
