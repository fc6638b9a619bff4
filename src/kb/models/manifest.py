"""A model's manifest, `model.json`: what the files beside it are, and what they give.

Read before anything is loaded, so that `kb models list` costs nothing. The files' sizes are looked
at whenever a model is loaded; their hashes, which take longer, when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.errors import ModelBroken, ModelMissing
from kb.types import ModelSpec

NAME = "model.json"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
FORMAT = 1
MEND = "lay its files there again; a model of kb's own: pip install --force-reinstall kb-search"

_OUTPUTS = ("dense", "sparse", "query_sparse", "tokens")
SCORE = "score"  # the one output of a judge, which gives no vectors


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a file of a model must be. `of` is the folder of the model whose file it is, where two
    models share one: it lies beside this one's."""

    name: str
    size_bytes: int
    sha256: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `model.json` says. `outputs` maps a part to the graph's own name for it; a model
    without `query_sparse` weighs queries as it weighs passages. A judge has one: `score`. With
    `stems`, the terms of sparse vectors are words' stems; else they are the model's tokens."""

    folder: Path
    spec: ModelSpec
    outputs: Mapping[str, str]
    files: tuple[ModelFile, ...]
    licence: str
    summary: str
    stems: bool = False

    @property
    def size_bytes(self) -> int:
        """Of its own files."""
        return sum(file.size_bytes for file in self.files if not file.of)

    def path(self, name: str) -> Path:
        """Where the file of that name lies."""
        of = next((file.of for file in self.files if file.name == name), "")
        return (self.folder.parent / of if of else self.folder) / name


# --- reading --------------------------------------------------------------------------------------


def read(folder: Path) -> Manifest:
    """The manifest in `folder`; of an export without one, what its files tell."""
    path = folder / NAME
    try:
        data = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        from kb.models import derived

        if derived.looks_like_export(folder):
            return derived.derive(folder)
        raise ModelMissing(f"there is no model in {folder}: it has no {NAME}", MEND) from None
    except OSError as error:
        raise ModelMissing(f"cannot read {path}: {error.strerror}", "check the file") from error
    except ValueError as error:
        raise ModelBroken(f"{path} is not JSON: {error}", MEND) from error
    return parse(folder, data, str(path))


def parse(folder: Path, data: Any, label: str) -> Manifest:
    """What `data` says of the files in `folder`; `label` is where it comes from."""
    try:
        return _manifest(folder, data)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelBroken(f"{label} is not a manifest: {_said(error)}", MEND) from error


def as_json(manifest: Manifest) -> dict[str, Any]:
    """The same as it is written down."""
    spec = manifest.spec
    told: dict[str, Any] = {
        "format": FORMAT,
        "name": spec.name,
        "version": spec.version,
        "dimension": spec.dimension,
        "token_dimension": spec.token_dimension,
        "max_tokens": spec.max_tokens,
        "query_prefix": spec.query_prefix,
        "passage_prefix": spec.passage_prefix,
        "scripts": list(spec.scripts),
        "outputs": dict(manifest.outputs),
        "files": {
            file.name: {"sha256": file.sha256, "bytes": file.size_bytes} for file in manifest.files
        },
        "licence": manifest.licence,
        "summary": manifest.summary,
        "terms": "stems" if manifest.stems else None,
    }
    return {key: value for key, value in told.items() if value not in (None, "", [])}


def _said(error: Exception) -> str:
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)


def _manifest(folder: Path, data: Any) -> Manifest:
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']!r}, and this kb reads {FORMAT}")
    outputs = _outputs(_typed(data, "outputs", dict))
    return Manifest(
        folder,
        _spec(data, outputs),
        outputs,
        _files(_typed(data, "files", dict)),
        str(data.get("licence", "")),
        str(data.get("summary", "")),
        stems=data.get("terms") == "stems",
    )


def _spec(data: Mapping[str, Any], outputs: Mapping[str, str]) -> ModelSpec:
    tokens = "tokens" in outputs
    return ModelSpec(
        name=_named(data, "name"),
        version=_named(data, "version"),
        dimension=0 if SCORE in outputs else _count(data, "dimension"),
        gives=frozenset(outputs) - {"query_sparse"},
        token_dimension=_count(data, "token_dimension") if tokens else None,
        max_tokens=_count(data, "max_tokens"),
        query_prefix=str(data.get("query_prefix", "")),
        passage_prefix=str(data.get("passage_prefix", "")),
        scripts=_scripts(data.get("scripts", [])),
    )


def _scripts(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"scripts cannot be {names!r}")
    return tuple(names)


def _outputs(data: Mapping[str, Any]) -> dict[str, str]:
    if set(data) == {SCORE}:
        return {SCORE: _named(data, SCORE)}
    for part in data:
        if part not in _OUTPUTS:
            raise ValueError(f"{part!r} is none of the outputs {', '.join(_OUTPUTS)}")
    if "dense" not in data:
        raise KeyError("dense")
    if "query_sparse" in data and "sparse" not in data:
        raise ValueError("query_sparse without sparse")
    return {part: _named(data, part) for part in data}


def _files(data: Mapping[str, Any]) -> tuple[ModelFile, ...]:
    for name in (GRAPH, TOKENIZER):
        if name not in data:
            raise KeyError(name)
    return tuple(_file(name, data[name]) for name in data)


def _file(name: str, data: Any) -> ModelFile:
    if not isinstance(data, dict):
        raise TypeError(f"{name!r} is not an object")
    of = _named(data, "of") if "of" in data else ""
    for part in filter(None, (name, of)):
        if Path(part).name != part or "\\" in part or part == "..":
            raise ValueError(f"{part!r} is not the name of a file beside it")
    return ModelFile(name, _count(data, "bytes"), _named(data, "sha256").lower(), of)


def _typed(data: Mapping[str, Any], key: str, kind: type) -> Any:
    if not isinstance(data[key], kind):
        raise TypeError(f"{key} cannot be {data[key]!r}")
    return data[key]


def _named(data: Mapping[str, Any], key: str) -> str:
    text = _typed(data, key, str)
    if not text:
        raise ValueError(f"{key} is empty")
    return str(text)


def _count(data: Mapping[str, Any], key: str) -> int:
    number = _typed(data, key, int)
    if isinstance(number, bool) or number <= 0:
        raise ValueError(f"{key} cannot be {number!r}")
    return int(number)


# --- the files ------------------------------------------------------------------------------------


def check_sizes(manifest: Manifest) -> None:
    """Raises where a file is not there, or was cut off."""
    for file in manifest.files:
        path = manifest.path(file.name)
        try:
            size_bytes = path.stat().st_size
        except OSError as error:
            raise ModelMissing(
                f"a file of {manifest.spec.name} is missing: {path}", MEND
            ) from error
        if size_bytes != file.size_bytes:
            raise ModelBroken(
                f"{path} has {size_bytes:,} bytes and should have {file.size_bytes:,}", MEND
            )


def check_hashes(manifest: Manifest, *, anew: bool = True) -> None:
    """Raises where a file is not, byte for byte, what the manifest says. Unless all are read
    `anew`, large ones that look as they did when they were last read are not read again."""
    from kb.models.hashes import known_sha256, sha256_of

    check_sizes(manifest)
    for file in manifest.files:
        path = manifest.path(file.name)
        try:
            found = sha256_of(path) if anew else known_sha256(path)
        except OSError as error:
            raise ModelBroken(f"cannot read {path}: {error.strerror}", MEND) from error
        if found != file.sha256:
            raise ModelBroken(
                f"{path} was changed: its SHA-256 is {found} and should be {file.sha256}", MEND
            )
