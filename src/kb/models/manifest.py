"""A model's manifest, `model.json`: describes the files of a model and its outputs.

It is read before anything is loaded, so that `kb models list` is fast. `check_sizes` checks the
files quickly, `check_hashes` byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kb.errors import ModelBroken, ModelMissing, short_repr
from kb.regular_files import read_file
from kb.types import ModelSpec

NAME = "model.json"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
FORMAT = 1
HINT = "restore its files; for a bundled model, run: pip install --force-reinstall kb-search"

LIMIT_BYTES = 1 << 20  # of a manifest
_MAX_FILE_BYTES = 1 << 40
_MAX_NUMBER = 1 << 20
_MAX_CHARS = 200
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._+=-]{0,199}")
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # reserved on Windows
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OUTPUTS = ("dense", "sparse", "query_sparse", "tokens")
SCORE = "score"  # the only output of a judge
HEADS = ("sparse", "tokens")  # the parts that a separate head may compute
FIRST_TOKEN = "first token"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The expected size and hash of a file. If models share the file, `of` is the folder of its
    owner, beside this model's folder. In exports with several folders, `folder` is the file's,
    relative to the model's."""

    name: str
    size_bytes: int
    sha256: str
    of: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a `model.json`. `outputs` maps each part to the name of the graph's output;
    without `query_sparse`, the model weights queries like passages; a judge has only `score`. With
    `stems`, the terms of sparse vectors are word stems; otherwise they are the model's tokens.
    `graph` is the file of the graph. `heads` maps parts to torch files, each with a linear function
    that turns the graph's output into the values of the part. With `first_token`, the dense vector
    is the first row of its output."""

    folder: Path
    spec: ModelSpec
    outputs: Mapping[str, str]
    files: tuple[ModelFile, ...]
    licence: str
    summary: str
    stems: bool = False
    graph: str = GRAPH
    heads: Mapping[str, str] = field(default_factory=dict)
    first_token: bool = False

    @property
    def graph_path(self) -> Path:
        """The path of the graph."""
        return self.path(self.graph)

    @property
    def size_bytes(self) -> int:
        """The size of the model's own files, without shared ones."""
        return sum(file.size_bytes for file in self.files if not file.of)

    def path(self, name: str) -> Path:
        """The path of a file of the model."""
        file = next((file for file in self.files if file.name == name), None)
        if file is None:
            return self.folder / name
        return (self.folder.parent / file.of if file.of else self.folder / file.folder) / name


# --- reading --------------------------------------------------------------------------------------


def read(folder: Path) -> Manifest:
    """Read the manifest in `folder`, or infer it for an export without one. Raises `ModelError`."""
    path = folder / NAME
    try:
        data = read_file(path, LIMIT_BYTES, links="follow")  # a hub's cache consists of links
    except (FileNotFoundError, NotADirectoryError):
        from kb.models import inferred_manifest

        if inferred_manifest.looks_like_export(folder):
            return inferred_manifest.infer(folder)
        raise ModelMissing(f"{folder} contains no model: it has no {NAME}", HINT) from None
    except OSError as error:
        raise ModelMissing(f"cannot read {path}: {error.strerror}", "check the file") from error
    return parse(folder, load_json(data, str(path)), str(path))


def load_json(data: bytes, label: str) -> Any:
    """Parse the JSON of a manifest from `label`, a path or a URL."""
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ModelBroken(f"{label} contains a lone surrogate", HINT) from error
    except (ValueError, RecursionError) as error:
        raise ModelBroken(f"{label} is not valid JSON: {error}", HINT) from error
    return value


def parse(folder: Path, data: Any, label: str) -> Manifest:
    """The manifest in `data`, for the files in `folder`; `label` is the path or URL it comes
    from."""
    try:
        return _manifest(folder, data)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelBroken(f"{label} is not a valid manifest: {_describe(error)}", HINT) from error


def as_json(manifest: Manifest) -> dict[str, Any]:
    """The content of the `model.json` for a manifest."""
    spec = manifest.spec
    record: dict[str, Any] = {
        "format": FORMAT,
        "name": spec.name,
        "version": spec.version,
        "dimension": spec.dimension,
        "token_dimension": spec.token_dimension,
        "max_tokens": spec.max_tokens,
        "query_prefix": spec.query_prefix,
        "passage_prefix": spec.passage_prefix,
        "scripts": list(spec.scripts),
        "languages": list(spec.languages),
        "outputs": dict(manifest.outputs),
        "files": {
            file.name: {"sha256": file.sha256, "bytes": file.size_bytes} for file in manifest.files
        },
        "licence": manifest.licence,
        "summary": manifest.summary,
        "terms": "stems" if manifest.stems else None,
        "graph": manifest.graph if manifest.graph != GRAPH else None,
        "heads": dict(manifest.heads),
        "pooling": FIRST_TOKEN if manifest.first_token else None,
    }
    return {key: value for key, value in record.items() if value not in (None, "", [], {})}


def _describe(error: Exception) -> str:
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)


def _manifest(folder: Path, data: Any) -> Manifest:
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {short_repr(data['format'])}, but kb reads {FORMAT}")
    outputs = _outputs(_get(data, "outputs", dict))
    graph = _name(data, "graph") if "graph" in data else GRAPH
    files = _files(_get(data, "files", dict), graph)
    return Manifest(
        folder,
        _spec(data, outputs),
        outputs,
        files,
        str(data.get("licence", "")),
        str(data.get("summary", "")),
        stems=data.get("terms") == "stems",
        graph=graph,
        heads=_heads(data, outputs, files),
        first_token=_pooling(data) == FIRST_TOKEN,
    )


def _heads(
    data: Mapping[str, Any], outputs: Mapping[str, str], files: tuple[ModelFile, ...]
) -> dict[str, str]:
    heads = _get(data, "heads", dict) if "heads" in data else {}
    names = {file.name for file in files}
    for part, name in heads.items():
        if part not in HEADS or part not in outputs:
            raise ValueError(f"heads cannot have {short_repr(part)}")
        if name not in names:
            raise ValueError(f"the head {short_repr(name)} is not among the files")
    return dict(heads)


def _pooling(data: Mapping[str, Any]) -> str | None:
    pooling = data.get("pooling")
    if pooling not in (None, FIRST_TOKEN):
        raise ValueError(f"pooling cannot be {short_repr(pooling)}")
    return pooling


def _spec(data: Mapping[str, Any], outputs: Mapping[str, str]) -> ModelSpec:
    tokens = "tokens" in outputs
    return ModelSpec(
        name=_name(data, "name"),
        version=_name(data, "version"),
        dimension=0 if SCORE in outputs else _count(data, "dimension"),
        gives=frozenset(outputs) - {"query_sparse"},
        token_dimension=_count(data, "token_dimension") if tokens else None,
        max_tokens=_count(data, "max_tokens"),
        query_prefix=str(data.get("query_prefix", "")),
        passage_prefix=str(data.get("passage_prefix", "")),
        scripts=_strings(data, "scripts"),
        languages=_strings(data, "languages"),
    )


def _strings(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = data.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"{key} cannot be {short_repr(names)}")
    return tuple(names)


def _outputs(data: Mapping[str, Any]) -> dict[str, str]:
    if set(data) == {SCORE}:
        return {SCORE: _name(data, SCORE)}
    for part in data:
        if part not in _OUTPUTS:
            raise ValueError(f"{short_repr(part)} is not one of the outputs {', '.join(_OUTPUTS)}")
    if "dense" not in data:
        raise KeyError("dense")
    if "query_sparse" in data and "sparse" not in data:
        raise ValueError("it has query_sparse without sparse")
    return {part: _name(data, part) for part in data}


def _files(data: Mapping[str, Any], graph: str) -> tuple[ModelFile, ...]:
    for name in (graph, TOKENIZER):
        if name not in data:
            raise KeyError(name)
    files = tuple(_file(name, data[name]) for name in data)
    if len({file.name.casefold() for file in files} | {NAME}) <= len(files):
        raise ValueError("two files have the same name on systems that ignore case")
    return files


def _file(name: str, data: Any) -> ModelFile:
    if not isinstance(data, dict):
        raise TypeError(f"{short_repr(name)} is not an object")
    of = _name(data, "of") if "of" in data else ""
    for part in (name, of) if of else (name,):
        if not _FILE_NAME.fullmatch(part) or _DEVICE.fullmatch(part) or part.endswith((" ", ".")):
            raise ValueError(f"{short_repr(part)} is not a valid file name")
    digest = _name(data, "sha256").lower()
    if not _SHA256.fullmatch(digest):
        raise ValueError(f"sha256 of {name} cannot be {short_repr(digest)}")
    return ModelFile(name, _count(data, "bytes", _MAX_FILE_BYTES), digest, of)


def _get(data: Mapping[str, Any], key: str, kind: type) -> Any:
    if not isinstance(data[key], kind):
        raise TypeError(f"{key} cannot be {short_repr(data[key])}")
    return data[key]


def _name(data: Mapping[str, Any], key: str) -> str:
    text = _get(data, key, str)
    if not text:
        raise ValueError(f"{key} is empty")
    if len(text) > _MAX_CHARS or not text.isprintable():
        raise ValueError(f"{key} cannot be {short_repr(text)}")
    return str(text)


def _count(data: Mapping[str, Any], key: str, most: int = _MAX_NUMBER) -> int:
    number = _get(data, key, int)
    if isinstance(number, bool) or not 0 < number <= most:
        raise ValueError(f"{key} cannot be {short_repr(number)}")
    return int(number)


# --- files ----------------------------------------------------------------------------------------


def check_sizes(manifest: Manifest) -> None:
    """Raise `ModelError` if a file is missing or has the wrong size."""
    for file in manifest.files:
        path = manifest.path(file.name)
        try:
            size_bytes = path.stat().st_size
        except OSError as error:
            raise ModelMissing(
                f"a file of {manifest.spec.name} is missing: {path}", HINT
            ) from error
        if size_bytes != file.size_bytes:
            raise ModelBroken(
                f"{path} has {size_bytes:,} bytes instead of {file.size_bytes:,}", HINT
            )


def check_hashes(manifest: Manifest, *, anew: bool = True) -> None:
    """Raise `ModelError` if a file does not match its hash. With `anew=False`, large files
    that have not changed since they were last hashed are not read again."""
    from kb.models.checksums import cached_sha256, sha256_of

    check_sizes(manifest)
    for file in manifest.files:
        path = manifest.path(file.name)
        try:
            digest = sha256_of(path) if anew else cached_sha256(path)
        except OSError as error:
            raise ModelBroken(f"cannot read {path}: {error.strerror}", HINT) from error
        if digest != file.sha256:
            raise ModelBroken(
                f"{path} has been changed: its SHA-256 is {digest} instead of {file.sha256}", HINT
            )
