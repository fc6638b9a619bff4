"""Infers the manifest of a model folder without one, such as an export on a hub.

    model.onnx (and its external weights), tokenizer.json, config.json

The names of the graph's outputs show which vectors it computes, as in exports of BGE-M3 and similar
models; `config.json` has the maximum number of tokens. The version is a hash of the files, so that
vectors of different exports are never mixed. A `model.json` takes precedence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kb.errors import ModelBroken, ModelError, ModelMissing, to_unicode
from kb.models import onnx_file
from kb.models.checksums import cached_sha256
from kb.models.manifest import GRAPH, NAME, TOKENIZER, Manifest, ModelFile
from kb.models.onnx_file import GraphFile
from kb.regular_files import read_file
from kb.types import ModelSpec

CONFIG = "config.json"
_CONFIG_BYTES = 16 << 20
# The names of outputs in exports; the first one present is used.
_NAMES = {
    "dense": ("dense_vecs", "dense_embeddings", "sentence_embedding", "dense"),
    "sparse": ("sparse_vecs", "sparse_weights", "sparse"),
    "tokens": ("colbert_vecs", "colbert_embeddings", "colbert"),
}
_RANKS = {"dense": (2,), "sparse": (2, 3), "tokens": (3,)}
_VERSION_CHARS = 12
_HINT = f"write a {NAME} that describes the files: see docs/how-to/models.md"


def looks_like_export(folder: Path) -> bool:
    """Whether the folder has a graph or a `config.json`."""
    return any((folder / name).is_file() for name in (GRAPH, CONFIG))


def infer(folder: Path) -> Manifest:
    """Infer the manifest from the files. Raises `ModelMissing` or `ModelBroken`."""
    for name in (GRAPH, TOKENIZER, CONFIG):
        if not (folder / name).is_file():
            raise _missing(folder, name)
    try:
        graph = onnx_file.read(folder / GRAPH)
    except (OSError, ValueError) as error:
        raise ModelBroken(f"{folder / GRAPH} cannot be read: {error}", _HINT) from error
    files = _files(folder, graph)
    outputs = _outputs(folder, graph)
    spec = _spec(folder, graph, outputs, _version(files))
    return Manifest(folder, spec, outputs, files, licence="", summary="")


def _missing(folder: Path, name: str) -> ModelMissing:
    nested = folder / "onnx" / name
    hint = f"it is in {nested.parent}: copy all files there, and use that folder" \
        if nested.is_file() else _HINT  # fmt: skip
    return ModelMissing(f"the model in {folder} has neither a {NAME} nor a {name}", hint)


# --- outputs --------------------------------------------------------------------------------------


def _outputs(folder: Path, graph: GraphFile) -> dict[str, str]:
    outputs = {
        part: name
        for part, names in _NAMES.items()
        if (name := next((one for one in names if one in graph.outputs), None)) is not None
    }
    if "dense" not in outputs:
        names = ", ".join(graph.outputs) or "none"
        raise ModelBroken(
            f"{folder / GRAPH} has no dense output: its outputs are {names}, "
            f"and none of them is {', '.join(_NAMES['dense'])}",
            _HINT,
        )
    for part, name in outputs.items():
        shape = graph.outputs[name]
        if shape and len(shape) not in _RANKS[part]:
            raise ModelBroken(
                f"{folder / GRAPH}: {name} has {len(shape)} axes, too few or too many for {part}",
                _HINT,
            )
    return outputs


def _spec(folder: Path, graph: GraphFile, outputs: Mapping[str, str], version: str) -> ModelSpec:
    config = _config(folder)
    widths = {part: _width(folder, graph, name, config) for part, name in outputs.items()
              if part != "sparse"}  # fmt: skip
    return ModelSpec(
        name=to_unicode(folder.parent.name if folder.name == "onnx" else folder.name),
        version=version,
        dimension=widths["dense"],
        gives=frozenset(outputs),
        token_dimension=widths.get("tokens"),
        max_tokens=_max_tokens(folder, config),
    )


def _width(folder: Path, graph: GraphFile, name: str, config: Mapping[str, Any]) -> int:
    """The width that the graph declares, or else the width of its layers."""
    shape = graph.outputs[name]
    if shape and shape[-1]:
        return shape[-1]
    return _number(folder, config, "hidden_size")


def _max_tokens(folder: Path, config: Mapping[str, Any]) -> int:
    """The maximum number of tokens. The positions of RoBERTa models start after the id of the
    padding token."""
    positions = _number(folder, config, "max_position_embeddings")
    if "roberta" in str(config.get("model_type", "")):
        pad = config.get("pad_token_id")
        positions -= (pad if isinstance(pad, int) else 1) + 1
    if positions <= 0:
        raise ModelBroken(f"{folder / CONFIG}: max_position_embeddings is too small", _HINT)
    return positions


# --- files ----------------------------------------------------------------------------------------


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / CONFIG
    try:
        data = json.loads(read_file(path, _CONFIG_BYTES, links="follow"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelBroken(f"{path} cannot be read: {error}", _HINT) from error
    if not isinstance(data, dict):
        raise ModelBroken(f"{path} is not an object", _HINT)
    return data


def _number(folder: Path, config: Mapping[str, Any], key: str) -> int:
    number = config.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise ModelBroken(f"{folder / CONFIG} has no valid {key}: it is {number!r}", _HINT)
    return number


def _files(folder: Path, graph: GraphFile) -> tuple[ModelFile, ...]:
    for name in graph.external:
        if Path(name).name != name or "\\" in name or name == "..":
            raise ModelBroken(f"{folder / GRAPH} has weights outside its folder: {name!r}", _HINT)
        if not (folder / name).is_file():
            raise ModelMissing(f"the weights of {folder / GRAPH} are missing: {name}", _HINT)
    return tuple(_file(folder / name) for name in (GRAPH, *graph.external, TOKENIZER))


def _file(path: Path) -> ModelFile:
    try:
        return ModelFile(path.name, path.stat().st_size, cached_sha256(path))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}", "check the file") from error


def _version(files: Iterable[ModelFile]) -> str:
    from hashlib import sha256

    text = "".join(f"{file.name} {file.sha256}\n" for file in files)
    return sha256(text.encode()).hexdigest()[:_VERSION_CHARS]
