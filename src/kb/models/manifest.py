"""A model's manifest, `model.json`: what the files beside it are, and what they give.

Read before anything is loaded, so that `kb models list` costs nothing. The files' sizes are looked
at whenever a model is loaded; their hashes, which take longer, when they are asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.errors import ModelBroken, ModelMissing, short_repr
from kb.regular_files import read_file
from kb.types import ModelSpec

NAME = "model.json"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
FORMAT = 1
MEND = "lay its files there again; a model of kb's own: pip install --force-reinstall kb-search"

LIMIT_BYTES = 1 << 20  # of a manifest
_MOST_BYTES = 1 << 40  # of a file of a model
_MOST_NUMBER = 1 << 20
_MOST_CHARS = 200
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._+=-]{0,199}")
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # no file on Windows
_SHA256 = re.compile(r"[0-9a-f]{64}")
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
        data = read_file(path, LIMIT_BYTES, links="follow")  # a hub's cache is made of links
    except (FileNotFoundError, NotADirectoryError):
        from kb.models import inferred_manifest

        if inferred_manifest.looks_like_export(folder):
            return inferred_manifest.derive(folder)
        raise ModelMissing(f"there is no model in {folder}: it has no {NAME}", MEND) from None
    except OSError as error:
        raise ModelMissing(f"cannot read {path}: {error.strerror}", "check the file") from error
    return parse(folder, loaded(data, str(path)), str(path))


def loaded(data: bytes, label: str) -> Any:
    """The JSON of a manifest's bytes; `label` is where they come from."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelBroken(f"{label} is not JSON: {error}", MEND) from error


def parse(folder: Path, data: Any, label: str) -> Manifest:
    """What `data` says of the files in `folder`; `label` is where it comes from."""
    try:
        return _manifest(folder, data)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
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
        raise ValueError(f"its format is {short_repr(data['format'])}, and this kb reads {FORMAT}")
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
        raise TypeError(f"scripts cannot be {short_repr(names)}")
    return tuple(names)


def _outputs(data: Mapping[str, Any]) -> dict[str, str]:
    if set(data) == {SCORE}:
        return {SCORE: _named(data, SCORE)}
    for part in data:
        if part not in _OUTPUTS:
            raise ValueError(f"{short_repr(part)} is none of the outputs {', '.join(_OUTPUTS)}")
    if "dense" not in data:
        raise KeyError("dense")
    if "query_sparse" in data and "sparse" not in data:
        raise ValueError("query_sparse without sparse")
    return {part: _named(data, part) for part in data}


def _files(data: Mapping[str, Any]) -> tuple[ModelFile, ...]:
    for name in (GRAPH, TOKENIZER):
        if name not in data:
            raise KeyError(name)
    files = tuple(_file(name, data[name]) for name in data)
    if len({file.name.casefold() for file in files} | {NAME}) <= len(files):
        raise ValueError("two of its files have the same name on some systems")
    return files


def _file(name: str, data: Any) -> ModelFile:
    if not isinstance(data, dict):
        raise TypeError(f"{short_repr(name)} is not an object")
    of = _named(data, "of") if "of" in data else ""
    for part in (name, of) if of else (name,):
        if not _FILE_NAME.fullmatch(part) or _DEVICE.fullmatch(part) or part.endswith((" ", ".")):
            raise ValueError(f"{short_repr(part)} is not the name of a file beside it")
    digest = _named(data, "sha256").lower()
    if not _SHA256.fullmatch(digest):
        raise ValueError(f"sha256 of {name} cannot be {short_repr(digest)}")
    return ModelFile(name, _count(data, "bytes", _MOST_BYTES), digest, of)


def _typed(data: Mapping[str, Any], key: str, kind: type) -> Any:
    if not isinstance(data[key], kind):
        raise TypeError(f"{key} cannot be {short_repr(data[key])}")
    return data[key]


def _named(data: Mapping[str, Any], key: str) -> str:
    text = _typed(data, key, str)
    if not text:
        raise ValueError(f"{key} is empty")
    if len(text) > _MOST_CHARS or not text.isprintable():
        raise ValueError(f"{key} cannot be {short_repr(text)}")
    return str(text)


def _count(data: Mapping[str, Any], key: str, most: int = _MOST_NUMBER) -> int:
    number = _typed(data, key, int)
    if isinstance(number, bool) or not 0 < number <= most:
        raise ValueError(f"{key} cannot be {short_repr(number)}")
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
    from kb.models.checksums import known_sha256, sha256_of

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
