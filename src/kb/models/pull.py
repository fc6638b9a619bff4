"""`kb models pull`: copies a model from a hub, a mirror or a folder to the folder of pulled models.

A manifest, `model.json`, lists the files with their SHA-256; the hash of the manifest can be given
too. The files are beside the manifest, or below the address in its `source`, where `{revision}`
stands for the requested revision. The argument is one of these:

    a folder            with a model.json, or with an export from a hub
    a model.json        on this machine, with the address of its files in `source`
    https://...         the address of a model.json, or of the folder that contains it
    NAME                below $KB_MODELS_MIRROR: MIRROR/NAME[/REVISION]/model.json
    ORG/NAME            an ONNX export on a model hub (`hub`)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

from kb.errors import InvalidRequest, ModelBroken, ModelMissing, short_repr
from kb.models import hub, model_directory, network
from kb.models import manifest as manifests
from kb.models.download import Downloads, check_file
from kb.models.lookup import RESERVED, is_plain
from kb.models.manifest import Manifest, ModelFile
from kb.regular_files import open_file, read_file

if TYPE_CHECKING:
    from kb.config import Config

MIRROR_VARIABLE = "KB_MODELS_MIRROR"
REVISION = "{revision}"
OnPull = Callable[[int, int, str], None]  # bytes done, bytes in total, file name

_BUNDLED = Path(__file__).parent
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of a manifest, and the URL or folder of its files. `label` is the manifest's own
    path or URL. `places` maps file names to paths, if the files are in several folders."""

    data: bytes
    base: str | Path
    label: str
    places: Mapping[str, Path] = field(default_factory=dict)


def pull(
    config: Config,
    name: str,
    *,
    revision: str | None = None,
    sha256: str | None = None,
    to: Path | None = None,
    on_progress: OnPull = lambda _done, _total, _what: None,
    sleep: network.Sleep = time.sleep,
) -> Manifest:
    """Copy a model to its folder, and return its manifest. A model that already exists is only
    checked. `revision` fills `{revision}` in addresses, `sha256` is the expected hash of the
    manifest, and `to` replaces the target folder. Raises `ModelError`, `InvalidRequest` or
    `Offline`."""
    downloads = Downloads(sleep)
    if hub.is_hub_name(name) and not Path(name).exists():
        return _pull_from_hub(config, name, revision, sha256, to, downloads, on_progress)
    source = _source(config, name, revision, downloads)
    _check_manifest_hash(source, sha256)
    manifest, base = _read(source, revision)
    if not isinstance(base, Path):
        network.check_online(config, base)
    target = _target(manifest.spec.name, to)
    if _exists(source, target):
        return manifests.read(target)
    staged = _staging_folder(target, source.data)
    _fetch(manifest, base, staged, downloads, on_progress, source.places)
    (staged / manifests.NAME).write_bytes(source.data)
    model_directory.install(staged, target)
    return manifests.read(target)


def _pull_from_hub(
    config: Config,
    name: str,
    revision: str | None,
    sha256: str | None,
    to: Path | None,
    downloads: Downloads,
    on_progress: OnPull,
) -> Manifest:
    """Copy an export from a hub; the manifest is written here, after the download."""
    network.check_online(config, hub.hub_url())
    target = _target(name.partition("/")[2], to)
    repository = hub.read_repository(name, revision, downloads)
    if target.exists():
        existing = _existing_origin(target)
        if existing != (repository.name, repository.commit):
            raise model_directory.name_conflict(target)
        manifests.check_hashes(manifests.read(target))
        return manifests.read(target)
    staged = _staging_folder(target, repository.commit.encode())
    manifest = hub.fetch(repository, staged, downloads, on_progress)
    data = hub.model_json(manifest, repository)
    _check_manifest_hash(Source(data, staged, name), sha256)
    (staged / manifests.NAME).write_bytes(data)
    model_directory.install(staged, target)
    return manifests.read(target)


def _existing_origin(target: Path) -> tuple[Any, Any]:
    path = target / manifests.NAME
    data = manifests.load_json(_read_manifest(path), str(path)) if path.is_file() else {}
    return (data.get("repository"), data.get("revision")) if isinstance(data, dict) else ("", "")


# --- manifest -------------------------------------------------------------------------------------


def _source(config: Config, name: str, revision: str | None, downloads: Downloads) -> Source:
    path = Path(name).expanduser()
    if name.startswith(("http://", "https://")):
        return _from_url(config, _manifest_url(_with_revision(name, revision)), downloads)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        return Source(_read_manifest(path), path.parent, str(path))
    mirror = os.environ.get(MIRROR_VARIABLE, "").strip()
    if not is_plain(name) or not mirror:
        raise ModelMissing(
            f"{name!r} is not a folder, a model.json or an address",
            f"to pull a model by name, use ORG/NAME for one on a hub, or set {MIRROR_VARIABLE} to "
            "the address of a mirror",
        )
    parts = [mirror.rstrip("/"), quote(name), *([quote(revision, safe="")] if revision else [])]
    return _from_url(config, "/".join([*parts, manifests.NAME]), downloads)


def _from_url(config: Config, url: str, downloads: Downloads) -> Source:
    network.check_online(config, network.check_url(url, "the address"))
    return Source(downloads.text(url), urljoin(url, "."), url)


def _manifest_url(url: str) -> str:
    return url if url.endswith(".json") else f"{url.rstrip('/')}/{manifests.NAME}"


def _read_manifest(path: Path) -> bytes:
    try:
        return read_file(path, manifests.LIMIT_BYTES, links="follow")
    except OSError as error:
        raise ModelBroken(f"cannot read {path}: {error.strerror}", "use a model.json") from error


def _from_folder(folder: Path) -> Source:
    """The manifest in a folder; for an export without one, the inferred manifest."""
    path = folder / manifests.NAME
    if path.is_file():
        return Source(_read_manifest(path), folder, str(path))
    inferred = manifests.read(folder.absolute())
    text = json.dumps(manifests.as_json(inferred), indent=2, ensure_ascii=False)
    places = {file.name: inferred.path(file.name) for file in inferred.files}
    return Source(text.encode(), folder, str(folder), places)


def _check_manifest_hash(source: Source, expected: str | None) -> None:
    if expected is None:
        return
    from hashlib import sha256

    digest = sha256(source.data).hexdigest()
    if digest != expected.strip().lower():
        raise ModelBroken(
            f"{source.label} is another manifest: its SHA-256 is {digest} instead of {expected}",
            "check --sha256 and --revision",
        )


def _read(source: Source, revision: str | None) -> tuple[Manifest, str | Path]:
    """Parse the manifest, and locate its files."""
    data = manifests.load_json(source.data, source.label)
    manifest = manifests.parse(Path(), data, source.label)
    shared = [file.name for file in manifest.files if file.of]
    if shared:
        raise ModelBroken(
            f"{source.label} shares {', '.join(shared)} with another model",
            "a pulled model must have all of its files",
        )
    return manifest, _base(source, data, manifest, revision)


def _base(source: Source, data: Any, manifest: Manifest, revision: str | None) -> str | Path:
    """The folder or address of the files. Files beside the manifest are preferred to `source`."""
    base = source.base
    beside = isinstance(base, Path) and all((base / file.name).exists() for file in manifest.files)
    url, default = data.get("source"), data.get("revision")
    if beside or not url:
        return base
    for name, value in (("source", url), ("revision", default)):
        if value is not None and not isinstance(value, str):
            raise ModelBroken(
                f"{source.label} is not a valid manifest: {name} cannot be {short_repr(value)}",
                "use a model.json",
            )
    url = _with_revision(url, revision or default)
    return network.check_url(url.rstrip("/") + "/", f"source in {source.label}")


def _with_revision(url: str, revision: str | None) -> str:
    if REVISION in url and not revision:
        raise InvalidRequest(f"{url} needs a revision", "add --revision REVISION")
    if revision and REVISION not in url and revision not in url:
        raise InvalidRequest(
            f"{url} has no placeholder for a revision", f"put {REVISION} into the address"
        )
    return url.replace(REVISION, quote(revision or "", safe=""))


# --- files ----------------------------------------------------------------------------------------


def _target(name: str, to: Path | None) -> Path:
    if to is not None:
        return to.expanduser().absolute()
    is_bundled = (_BUNDLED / name.replace("-", "_") / manifests.NAME).exists()
    target = model_directory.path_of(name)
    if target is None or is_bundled or name in RESERVED:
        raise InvalidRequest(f"a pulled model cannot have the name {name!r}", "use --to FOLDER")
    return target


def _exists(source: Source, target: Path) -> bool:
    """Whether the same model exists, with all its files. Raises `InvalidRequest` if the target has
    another one, which is never replaced."""
    if not target.exists():
        return False
    path = target / manifests.NAME
    if not path.is_file() or path.read_bytes() != source.data:
        raise model_directory.name_conflict(target)
    manifests.check_hashes(manifests.read(target))
    return True


def _staging_folder(target: Path, data: bytes) -> Path:
    """The folder in which files are gathered. A pull of the same manifest resumes in it."""
    from hashlib import sha256

    staged = target.with_name(f".{target.name}.{sha256(data).hexdigest()[:12]}.part")
    staged.mkdir(parents=True, exist_ok=True)
    return staged


def _fetch(
    manifest: Manifest,
    base: str | Path,
    staged: Path,
    downloads: Downloads,
    on_progress: OnPull,
    places: Mapping[str, Path],
) -> None:
    total, before = manifest.size_bytes, 0
    for file in manifest.files:

        def on_bytes(count: int, file: ModelFile = file, before: int = before) -> None:
            on_progress(before + count, total, file.name)

        target = staged / file.name
        if target.exists():
            check_file(target, file, str(target))
        elif isinstance(base, Path):
            _copy(places.get(file.name, base / file.name), file, target)
        else:
            downloads.file(urljoin(base, quote(file.name)), file, target, on_bytes)
        on_bytes(file.size_bytes)
        before += file.size_bytes


def _copy(origin: Path, file: ModelFile, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    try:
        with open_file(origin, links="follow") as opened, part.open("wb") as copy:
            left = file.size_bytes + 1  # one more byte, to notice a longer file
            while left and (block := os.read(opened.descriptor, min(left, _BLOCK_BYTES))):
                copy.write(block)
                left -= len(block)
    except FileNotFoundError as error:
        raise ModelMissing(
            f"a file of the model is missing: {origin}", "check the folder"
        ) from error
    except OSError as error:
        raise ModelBroken(f"cannot copy {origin}: {error.strerror}", "check the folder") from error
    check_file(part, file, str(origin))
    part.replace(target)
