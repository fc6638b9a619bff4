"""`kb models pull`: a model from a hub, a mirror or a folder, to where it is found by its name.

Everything hangs on a manifest, `model.json`, which names the files with their SHA-256; its own may
be given too. The files lie beside it, or below the address that it calls `source`, in which
`{revision}` stands for the revision that is asked for.

    a folder            with a model.json, or an export as it lies on a hub
    a model.json        on this machine, whose `source` says where its files are
    https://...         the address of a model.json, or of the folder that holds it
    NAME                below $KB_MODELS_MIRROR: MIRROR/NAME[/REVISION]/model.json
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

from kb.errors import InvalidRequest, ModelBroken, ModelMissing, short_repr
from kb.models import manifest as manifests
from kb.models import model_directory, network
from kb.models.download import Downloads, check_arrived
from kb.models.lookup import RESERVED, is_plain
from kb.models.manifest import Manifest, ModelFile
from kb.regular_files import open_file, read_file

if TYPE_CHECKING:
    from kb.config import Config

MIRROR_VARIABLE = "KB_MODELS_MIRROR"
REVISION = "{revision}"
OnPull = Callable[[int, int, str], None]  # bytes done, bytes in all, the file

_OWN = Path(__file__).parent
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A manifest's bytes, and where its files are: `base` is an address, or else a folder."""

    data: bytes
    base: str | Path
    label: str


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
    """The model, in its place. One that is there already is left as it is."""
    downloads = Downloads(sleep)
    source = _source(config, name, revision, downloads)
    _check_own_hash(source, sha256)
    manifest, base = _read(source, revision)
    if not isinstance(base, Path):
        network.check_online(config, base)
    target = _target(manifest, to)
    if _is_there(source, target):
        return manifests.read(target)
    staged = _staged(target, source.data)
    _fetch(manifest, base, staged, downloads, on_progress)
    (staged / manifests.NAME).write_bytes(source.data)
    model_directory.put(staged, target)
    return manifests.read(target)


# --- the manifest ---------------------------------------------------------------------------------


def _source(config: Config, name: str, revision: str | None, downloads: Downloads) -> Source:
    path = Path(name).expanduser()
    if name.startswith(("http://", "https://")):
        return _fetched(config, _manifest_url(_revised(name, revision)), downloads)
    if path.is_dir():
        return _lying(path)
    if path.is_file():
        return Source(_read_manifest(path), path.parent, str(path))
    mirror = os.environ.get(MIRROR_VARIABLE, "").strip()
    if not is_plain(name) or not mirror:
        raise ModelMissing(
            f"there is nothing to pull by {name!r}",
            f"name a folder, a model.json or its address; a name is looked for below "
            f"${MIRROR_VARIABLE}",
        )
    parts = [mirror.rstrip("/"), quote(name), *([quote(revision, safe="")] if revision else [])]
    return _fetched(config, "/".join([*parts, manifests.NAME]), downloads)


def _fetched(config: Config, url: str, downloads: Downloads) -> Source:
    network.check_online(config, network.checked_url(url, "the address"))
    return Source(downloads.text(url), urljoin(url, "."), url)


def _manifest_url(url: str) -> str:
    return url if url.endswith(".json") else f"{url.rstrip('/')}/{manifests.NAME}"


def _read_manifest(path: Path) -> bytes:
    try:
        return read_file(path, manifests.LIMIT_BYTES, links="follow")
    except OSError as error:
        raise ModelBroken(f"cannot read {path}: {error.strerror}", "name a model.json") from error


def _lying(folder: Path) -> Source:
    """Of an export without one, a manifest is written down from what its files are now."""
    path = folder / manifests.NAME
    if path.is_file():
        return Source(_read_manifest(path), folder, str(path))
    derived = manifests.read(folder.absolute())
    told = json.dumps(manifests.as_json(derived), indent=2, ensure_ascii=False)
    return Source(told.encode(), folder, str(folder))


def _check_own_hash(source: Source, wanted: str | None) -> None:
    if wanted is None:
        return
    from hashlib import sha256

    found = sha256(source.data).hexdigest()
    if found != wanted.strip().lower():
        raise ModelBroken(
            f"{source.label} is another manifest: its SHA-256 is {found} and should be {wanted}",
            "check --sha256 and --revision",
        )


def _read(source: Source, revision: str | None) -> tuple[Manifest, str | Path]:
    """What it says, and where the files are."""
    data = manifests.loaded(source.data, source.label)
    manifest = manifests.parse(Path(), data, source.label)
    shared = [file.name for file in manifest.files if file.of]
    if shared:
        raise ModelBroken(
            f"{source.label} shares {', '.join(shared)} with another model",
            "a model that is pulled has its own files",
        )
    return manifest, _base(source, data, manifest, revision)


def _base(source: Source, data: Any, manifest: Manifest, revision: str | None) -> str | Path:
    """Files that lie beside the manifest are nearer than those that `source` promises."""
    base = source.base
    beside = isinstance(base, Path) and all((base / file.name).exists() for file in manifest.files)
    given, known = data.get("source"), data.get("revision")
    if beside or not given:
        return base
    for name, value in (("source", given), ("revision", known)):
        if value is not None and not isinstance(value, str):
            raise ModelBroken(
                f"{source.label} is not a manifest: {name} cannot be {short_repr(value)}",
                "name a model.json",
            )
    url = _revised(given, revision or known)
    return network.checked_url(url.rstrip("/") + "/", f"source in {source.label}")


def _revised(url: str, revision: str | None) -> str:
    if REVISION in url and not revision:
        raise InvalidRequest(f"{url} leaves the revision open", "name it: --revision REVISION")
    if revision and REVISION not in url and revision not in url:
        raise InvalidRequest(
            f"{url} has no place for a revision", f"write {REVISION} where it belongs"
        )
    return url.replace(REVISION, quote(revision or "", safe=""))


# --- the files ------------------------------------------------------------------------------------


def _target(manifest: Manifest, to: Path | None) -> Path:
    if to is not None:
        return to.expanduser().absolute()
    name = manifest.spec.name
    own = (_OWN / name.replace("-", "_") / manifests.NAME).exists()
    place = model_directory.place(name)
    if place is None or own or name in RESERVED:
        raise InvalidRequest(f"a pulled model cannot be called {name!r}", "use --to FOLDER")
    return place


def _is_there(source: Source, target: Path) -> bool:
    """Whether the same model is there; another one is never replaced."""
    if not target.exists():
        return False
    path = target / manifests.NAME
    if not path.is_file() or path.read_bytes() != source.data:
        raise model_directory.taken(target)
    manifests.check_hashes(manifests.read(target))
    return True


def _staged(target: Path, data: bytes) -> Path:
    """Where the files gather. An interrupted pull of the same manifest is gone on with."""
    from hashlib import sha256

    staged = target.with_name(f".{target.name}.{sha256(data).hexdigest()[:12]}.part")
    staged.mkdir(parents=True, exist_ok=True)
    return staged


def _fetch(
    manifest: Manifest, base: str | Path, staged: Path, downloads: Downloads, say: OnPull
) -> None:
    total, before = manifest.size_bytes, 0
    for file in manifest.files:

        def on_bytes(count: int, file: ModelFile = file, before: int = before) -> None:
            say(before + count, total, file.name)

        target = staged / file.name
        if target.exists():
            check_arrived(target, file, str(target))
        elif isinstance(base, Path):
            _copy(base / file.name, file, target)
        else:
            downloads.file(urljoin(base, quote(file.name)), file, target, on_bytes)
        on_bytes(file.size_bytes)
        before += file.size_bytes


def _copy(origin: Path, file: ModelFile, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    try:
        with open_file(origin, links="follow") as opened, part.open("wb") as copy:
            left = file.size_bytes + 1  # so that a file that is too long is noticed
            while left and (block := os.read(opened.descriptor, min(left, _BLOCK_BYTES))):
                copy.write(block)
                left -= len(block)
    except FileNotFoundError as error:
        raise ModelMissing(
            f"a file of the model is missing: {origin}", "check the folder"
        ) from error
    except OSError as error:
        raise ModelBroken(f"cannot copy {origin}: {error.strerror}", "check the folder") from error
    check_arrived(part, file, str(origin))
    part.replace(target)
