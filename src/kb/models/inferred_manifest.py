"""Infers the manifest of a model folder without one, such as an export on a hub.

    model.onnx (and its external weights), tokenizer.json, config.json,
    sparse_linear.pt and colbert_linear.pt if the graph lacks the heads of BGE-M3

The graph may have another name, or be in a folder `onnx`, with the other files beside it or above
it. The names of its outputs show which vectors it computes (`export_layouts`); `config.json` has
the maximum number of tokens. The version is a hash of the files, so that vectors of different
exports are never mixed. A `model.json` takes precedence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kb.errors import ModelBroken, ModelError, ModelMissing, to_unicode
from kb.models import export_layouts, onnx_file
from kb.models.checksums import cached_sha256
from kb.models.linear_head import HEAD_FILES
from kb.models.manifest import GRAPH, NAME, TOKENIZER, Manifest, ModelFile
from kb.models.onnx_file import GraphFile
from kb.regular_files import read_file
from kb.types import ModelSpec

CONFIG = "config.json"
_CONFIG_BYTES = 16 << 20
_SUBFOLDER = "onnx"
_POOLING_FOLDER = "1_Pooling"
_VERSION_CHARS = 12
_HINT = f"write a {NAME} that describes the files: see docs/how-to/models.md"


def looks_like_export(folder: Path) -> bool:
    """Whether the folder has a graph or a `config.json`."""
    return (folder / CONFIG).is_file() or _graph_file(folder) is not None


def infer(folder: Path) -> Manifest:
    """Infer the manifest from the files. Raises `ModelMissing` or `ModelBroken`."""
    path = _graph_file(folder)
    if path is None:
        raise _missing(folder, GRAPH)
    tokenizer, config = (_locate(folder, name) for name in (TOKENIZER, CONFIG))
    for name, place in ((TOKENIZER, tokenizer), (CONFIG, config)):
        if place is None:
            raise _missing(folder, name)
    assert tokenizer is not None
    assert config is not None
    try:
        graph = onnx_file.read(path)
    except (OSError, ValueError) as error:
        raise ModelBroken(f"{path} cannot be read: {error}", _HINT) from error
    heads = {part: place for part, name in HEAD_FILES.items()
             if (place := _locate(folder, name)) is not None}  # fmt: skip
    outputs = export_layouts.recognize(
        path, graph, frozenset(heads), pools_first_token=pools_first_token(folder)
    )
    used = [heads[part] for part in outputs.heads]
    files = tuple(
        _file(folder, place) for place in (path, *_external(path, graph), tokenizer, *used)
    )
    return Manifest(
        folder,
        _spec(folder, config, graph, outputs.names, _version(files)),
        outputs.names,
        files,
        licence="",
        summary="",
        graph=path.name,
        heads={part: HEAD_FILES[part] for part in outputs.heads},
        first_token=outputs.first_token,
    )


def _missing(folder: Path, name: str) -> ModelMissing:
    hint = _HINT
    if name == TOKENIZER and _locate(folder, "bge_m3_tokenizer.onnx") is not None:
        hint = f"kb cannot use a tokenizer in ONNX format: add the {name} of the original model"
    return ModelMissing(f"the model in {folder} has neither a {NAME} nor a {name}", hint)


# --- places ---------------------------------------------------------------------------------------


def _folders(folder: Path) -> list[Path]:
    """The folders of an export: graphs are often in a folder `onnx`, with other files above it."""
    above = [folder.parent] if folder.name == _SUBFOLDER else []
    return [folder, folder / _SUBFOLDER, *above]


def _locate(folder: Path, name: str) -> Path | None:
    places = (place / name for place in _folders(folder))
    return next((place for place in places if place.is_file()), None)


def _graph_file(folder: Path) -> Path | None:
    """The first known graph in the folder or its folder `onnx`."""
    places = (
        place / name
        for place in (folder, folder / _SUBFOLDER)
        for name in export_layouts.GRAPH_FILES
    )
    return next((place for place in places if place.is_file()), None)


def pools_first_token(folder: Path) -> bool:
    """Whether the configuration of sentence-transformers takes the vector of the first token."""
    path = _locate(folder, f"{_POOLING_FOLDER}/{CONFIG}")
    return path is not None and _config(path).get("pooling_mode_cls_token") is True


# --- the specification ----------------------------------------------------------------------------


def _spec(
    folder: Path, path: Path, graph: GraphFile, outputs: Mapping[str, str], version: str
) -> ModelSpec:
    config = _config(path)
    widths = {part: _width(path, graph, name, config) for part, name in outputs.items()
              if part != "sparse"}  # fmt: skip
    return ModelSpec(
        name=to_unicode(folder.parent.name if folder.name == "onnx" else folder.name),
        version=version,
        dimension=widths["dense"],
        gives=frozenset(outputs),
        token_dimension=widths.get("tokens"),
        max_tokens=_max_tokens(path, config),
    )


def _width(path: Path, graph: GraphFile, name: str, config: Mapping[str, Any]) -> int:
    """The width that the graph declares, or else the width of its layers."""
    shape = graph.outputs[name]
    if shape and shape[-1]:
        return shape[-1]
    return _number(path, config, "hidden_size")


def _max_tokens(path: Path, config: Mapping[str, Any]) -> int:
    """The maximum number of tokens. The positions of RoBERTa models start after the id of the
    padding token."""
    positions = _number(path, config, "max_position_embeddings")
    if "roberta" in str(config.get("model_type", "")):
        pad = config.get("pad_token_id")
        positions -= (pad if isinstance(pad, int) else 1) + 1
    if positions <= 0:
        raise ModelBroken(f"{path}: max_position_embeddings is too small", _HINT)
    return positions


# --- files ----------------------------------------------------------------------------------------


def _config(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(read_file(path, _CONFIG_BYTES, links="follow"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelBroken(f"{path} cannot be read: {error}", _HINT) from error
    if not isinstance(data, dict):
        raise ModelBroken(f"{path} is not a JSON object", _HINT)
    return data


def _number(path: Path, config: Mapping[str, Any], key: str) -> int:
    number = config.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise ModelBroken(f"{path} has no valid {key}: it is {number!r}", _HINT)
    return number


def _external(path: Path, graph: GraphFile) -> list[Path]:
    """The files with the weights of the graph, which must be beside it."""
    for name in graph.external:
        if Path(name).name != name or "\\" in name or name == "..":
            raise ModelBroken(f"{path} has weights outside its folder: {name!r}", _HINT)
        if not (path.parent / name).is_file():
            raise ModelMissing(f"the weights of {path} are missing: {name}", _HINT)
    return [path.parent / name for name in graph.external]


def _file(folder: Path, path: Path) -> ModelFile:
    place = "" if path.parent == folder else ".." if path.parent == folder.parent else _SUBFOLDER
    try:
        return ModelFile(path.name, path.stat().st_size, cached_sha256(path), folder=place)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}", "check the file") from error


def _version(files: Iterable[ModelFile]) -> str:
    from hashlib import sha256

    text = "".join(f"{file.name} {file.sha256}\n" for file in files)
    return sha256(text.encode()).hexdigest()[:_VERSION_CHARS]
