"""`kb models pull ORG/NAME`: pulls an ONNX export from a model hub, in one of the layouts that kb
knows.

The hub is huggingface.co, or the address in $HF_ENDPOINT, as in other tools. Its list of files
contains the size and hash of each file; kb selects the graph, its weights, the tokenizer and the
heads (`export_layouts`), downloads them into one folder, and writes a `model.json` for them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kb.errors import ModelBroken, ModelMissing, short_repr
from kb.models import export_layouts, inferred_manifest, network, onnx_file
from kb.models import manifest as manifests
from kb.models.download import Downloads, check_file
from kb.models.linear_head import HEAD_FILES
from kb.models.lookup import is_plain
from kb.models.manifest import TOKENIZER, Manifest, ModelFile

HUB_VARIABLE = "HF_ENDPOINT"
DEFAULT_HUB = "https://huggingface.co"
POOLING = f"1_Pooling/{inferred_manifest.CONFIG}"
OnPull = Callable[[int, int, str], None]

_MAX_SMALL_BYTES = 32 << 20  # of a file that the hub stores in git
_FOLDERS = ("", "onnx/")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_HINT = "check the name and the revision, or download the files and pull their folder"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. Large files have a SHA-256 hash, small ones a git hash."""

    path: str
    size_bytes: int
    sha256: str | None
    blob_sha1: str | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Repository:
    """The files of a repository at a commit."""

    name: str
    url: str
    commit: str
    files: Mapping[str, HubFile]

    def locate(self, name: str) -> HubFile | None:
        """The file with this name, in the repository's folder or in `onnx`."""
        return next((self.files[f"{folder}{name}"] for folder in _FOLDERS
                     if f"{folder}{name}" in self.files), None)  # fmt: skip


def is_hub_name(name: str) -> bool:
    """Whether the name is that of a repository: ORG/NAME."""
    parts = name.split("/")
    return len(parts) == 2 and all(map(is_plain, parts))


def hub_url() -> str:
    """The address of the hub. Raises `InvalidRequest` if $HF_ENDPOINT is not a URL."""
    url = os.environ.get(HUB_VARIABLE, "").strip() or DEFAULT_HUB
    return network.check_url(url.rstrip("/"), HUB_VARIABLE)


def read_repository(name: str, revision: str | None, downloads: Downloads) -> Repository:
    """Request the list of files. Raises `ModelError`."""
    url = hub_url()
    address = f"{url}/api/models/{quote(name)}/revision/{quote(revision or 'main', safe='')}"
    data = manifests.load_json(downloads.text(f"{address}?blobs=true"), address)
    try:
        commit = data["sha"]
        if not _COMMIT.fullmatch(commit):
            raise ValueError(f"its commit is {short_repr(commit)}")
        files = {file.path: file for file in map(_hub_file, data["siblings"])}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelBroken(f"{address} is not a list of files: {error}", _HINT) from error
    return Repository(name, f"{url}/{quote(name)}/resolve/{commit}", commit, files)


def _hub_file(data: Mapping[str, Any]) -> HubFile:
    lfs = data.get("lfs") or {}
    path, size, digest = data["rfilename"], lfs.get("size", data.get("size")), lfs.get("sha256")
    if not isinstance(path, str) or not isinstance(size, int) or not 0 <= size < 1 << 40:
        raise ValueError(f"{short_repr(path)} has the size {short_repr(size)}")
    if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(f"{short_repr(path)} has the hash {short_repr(digest)}")
    return HubFile(path, size, digest, data.get("blobId"))


def fetch(
    repository: Repository, staged: Path, downloads: Downloads, on_progress: OnPull
) -> Manifest:
    """Download the export into `staged`, which may have files of an interrupted run, and return its
    manifest. Raises `ModelError` if it has no layout that kb knows."""
    graph = _graph(repository)
    small = [repository.locate(name) for name in (TOKENIZER, inferred_manifest.CONFIG)]
    for name, file in zip((TOKENIZER, inferred_manifest.CONFIG), small, strict=True):
        if file is None:
            raise ModelMissing(f"{repository.name} has no {name}", _no_file_hint(repository, name))
    heads = [repository.locate(name) for name in HEAD_FILES.values()]
    first = [graph, *filter(None, [*small, *heads, repository.files.get(POOLING)])]
    progress = _Progress(on_progress, sum(file.size_bytes for file in first))
    for file in first:
        _download(repository, file, staged, downloads, progress)
    weights = _weights(repository, graph, staged / graph.name)
    progress.total += sum(file.size_bytes for file in weights)
    for file in weights:
        _download(repository, file, staged, downloads, progress)
    found = inferred_manifest.infer(staged)
    return replace(found, spec=replace(found.spec, name=repository.name.partition("/")[2]))


def model_json(manifest: Manifest, repository: Repository) -> bytes:
    """The content of the `model.json`, with the commit it comes from."""
    origin = {"repository": repository.name, "revision": repository.commit}
    record = manifests.as_json(manifest) | origin
    return json.dumps(record, indent=2, ensure_ascii=False).encode()


@dataclass(slots=True)
class _Progress:
    show: OnPull
    total: int
    before: int = 0


def _graph(repository: Repository) -> HubFile:
    for folder in _FOLDERS:
        for name in export_layouts.GRAPH_FILES:
            if (file := repository.files.get(f"{folder}{name}")) is not None:
                return file
    graphs = ", ".join(path for path in repository.files if path.endswith(".onnx"))
    raise ModelMissing(
        f"{repository.name} has no ONNX graph that kb knows: it has {graphs or 'none at all'}",
        f"kb looks for {', '.join(export_layouts.GRAPH_FILES)}, also in a folder onnx; for BGE-M3, "
        "pull BAAI/bge-m3",
    )


def _no_file_hint(repository: Repository, name: str) -> str:
    tokenizers = [path for path in repository.files if "tokenizer" in path.lower()]
    if name == TOKENIZER and tokenizers:
        return (
            f"it has {', '.join(tokenizers)}: download its files, add the {name} of the "
            "original model, and pull that folder"
        )
    return f"download its files, add the {name} of the original model, and pull that folder"


def _weights(repository: Repository, graph: HubFile, path: Path) -> list[HubFile]:
    """The files with the graph's weights. The outputs are checked before these are downloaded."""
    try:
        found = onnx_file.read(path)
    except (OSError, ValueError) as error:
        raise ModelBroken(f"{graph.path} of {repository.name} cannot be read: {error}", _HINT) \
            from error  # fmt: skip
    heads = {part for part, name in HEAD_FILES.items() if repository.locate(name) is not None}
    pools = inferred_manifest.pools_first_token(path.parent)
    export_layouts.recognize(path, found, heads, pools_first_token=pools)
    folder = graph.path.removesuffix(graph.name)
    missing = [name for name in found.external if f"{folder}{name}" not in repository.files]
    if missing:
        raise ModelMissing(f"{repository.name} lacks the weights {', '.join(missing)}", _HINT)
    return [repository.files[f"{folder}{name}"] for name in found.external]


def _download(
    repository: Repository, file: HubFile, staged: Path, downloads: Downloads, progress: _Progress
) -> None:
    target = staged / (POOLING if file.path == POOLING else file.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    url = f"{repository.url}/{quote(file.path)}"
    before = progress.before

    def on_bytes(count: int) -> None:
        progress.show(before + count, progress.total, file.name)

    if file.sha256 is not None:
        expected = ModelFile(file.name, file.size_bytes, file.sha256)
        if target.exists():
            check_file(target, expected, str(target))
        else:
            downloads.file(url, expected, target, on_bytes)
    elif not _has_blob(target, file):
        _download_small(url, file, target, downloads)
    on_bytes(file.size_bytes)
    progress.before += file.size_bytes


def _download_small(url: str, file: HubFile, target: Path, downloads: Downloads) -> None:
    if file.size_bytes > _MAX_SMALL_BYTES:
        raise ModelBroken(f"{url} has no SHA-256, which a file of its size must have", _HINT)
    data = downloads.text(url, _MAX_SMALL_BYTES)
    if file.blob_sha1 is not None and _git_sha1(data) != file.blob_sha1:
        raise ModelBroken(f"{url} does not match the hash that the hub lists", _HINT)
    part = target.with_name(f"{target.name}.part")
    part.write_bytes(data)
    part.replace(target)


def _has_blob(target: Path, file: HubFile) -> bool:
    return target.exists() and _git_sha1(target.read_bytes()) == file.blob_sha1


def _git_sha1(data: bytes) -> str:
    from hashlib import sha1

    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
