"""Which encoders there are, and the one that a name means.

A name is, in this order: `none`; a model that came with kb; one that another package brings by the
entry point group `kb.encoders` (a function that takes the settings and returns a `ports.Encoder`);
or, where it is written as a path, a folder that holds a `model.json`. The first two are found
without a look at what is installed, which takes longer than a search.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import Config
from kb.errors import KbError, ModelBroken, ModelError, ModelMissing
from kb.models import manifest as manifests
from kb.types import Encoding, ModelInfo

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kb.models.manifest import Manifest
    from kb.ports import Encoder

GROUP = "kb.encoders"
OFF = "none"
PROBE = "What does this encoder make of a text?"

_HERE = Path(__file__).parent
_CPU_UNIT = 8
_NEEDED = ("spec", "encode")


def encoder(config: Config, name: str | None = None) -> Encoder | None:
    """The encoder of that name, or the one that the settings name; None where that is `none`.
    It loads its files when it is given its first text."""
    name = config.models.encoder if name is None else name
    if name == OFF:
        return None
    folder = _folder(name)
    if folder is not None:
        return _from_folder(folder, config)
    for point in _points():
        if point.name == name:
            return _from_point(point, config)
    raise ModelMissing(
        f"there is no encoder {name!r}",
        f"encoders: {', '.join((*_names(), OFF))}, and folders that hold a {manifests.NAME}",
    )


def unit_texts(encoder: Encoder) -> int:
    """How many texts make a good unit of work for this encoder."""
    return int(getattr(encoder, "unit_texts", _CPU_UNIT))


def check(encoder: Encoder) -> None:
    """Raises `ModelError` where a look at its files, without loading them, shows that it cannot be
    used. An encoder of others need not have such a look."""
    look = getattr(encoder, "check", None)
    if look is not None:
        look()


# --- what there is to know about them -------------------------------------------------------------


def models(config: Config) -> list[ModelInfo]:
    """Every encoder there is, and the one in use if it is a folder of the user's."""
    named = config.models.encoder
    names = _names()
    if _is_path(named):
        names.append(named)
    return [_info_or_problem(config, name) for name in names]


def info(config: Config, name: str) -> ModelInfo:
    """What there is to know of one, without loading it."""
    folder = _folder(name)
    if folder is not None:
        return _info_of(manifests.read(folder), _origin(folder), config, name)
    return _info_of_other(config, name)


def verify(config: Config, name: str) -> ModelInfo:
    """Whether it is what it should be: its files byte for byte, and what it makes of a text.
    Raises `ModelError` where it is not."""
    found = info(config, name)
    if (folder := _folder(name)) is not None:
        manifests.check_hashes(manifests.read(folder))
    encoder_ = encoder(config, name)
    assert encoder_ is not None  # `none` has no info
    (encoding,) = encoder_.encode([PROBE], want=encoder_.spec.gives)
    _check(encoder_, encoding)
    return found


def _check(encoder: Encoder, encoding: Encoding) -> None:
    """For encoders of others; our own look at everything they give."""
    spec = encoder.spec
    if encoding.dense is None or len(encoding.dense) != spec.dimension or not any(encoding.dense):
        raise ModelBroken(
            f"{spec.name} gave no dense vector of {spec.dimension} dimensions", "report it there"
        )


def _info_or_problem(config: Config, name: str) -> ModelInfo:
    try:
        return info(config, name)
    except KbError as error:
        return ModelInfo(name, problem=error.message, in_use=name == config.models.encoder)


def _info_of(manifest: Manifest, origin: str, config: Config, name: str) -> ModelInfo:
    return ModelInfo(
        manifest.spec.name,
        spec=manifest.spec,
        origin=origin,
        path=str(manifest.folder),
        size_bytes=manifest.size_bytes,
        licence=manifest.licence or None,
        summary=manifest.summary or None,
        in_use=name == config.models.encoder,
    )


def _info_of_other(config: Config, name: str) -> ModelInfo:
    found = encoder(config, name)
    if found is None:
        raise ModelMissing(f"{OFF!r} is no encoder: it switches them off", "see: kb models list")
    point = next(each for each in _points() if each.name == name)
    origin = f"package {point.dist.name}" if point.dist else "another package"
    return ModelInfo(name, spec=found.spec, origin=origin, in_use=name == config.models.encoder)


# --- where they are -------------------------------------------------------------------------------


def _names() -> list[str]:
    bundled = sorted(
        path.parent.name.replace("_", "-") for path in _HERE.glob(f"*/{manifests.NAME}")
    )
    return list(dict.fromkeys([*bundled, *sorted(point.name for point in _points())]))


def _folder(name: str) -> Path | None:
    """Where the model of that name lies, if it is one of kb's own or a path."""
    if _is_path(name):
        return Path(name).expanduser().absolute()
    folder = _HERE / name.replace("-", "_")
    return folder if (folder / manifests.NAME).is_file() else None


def _is_path(name: str) -> bool:
    return name.startswith(("~", ".")) or "/" in name or os.sep in name


def _origin(folder: Path) -> str:
    return "kb" if folder.parent == _HERE else "folder"


def _from_folder(folder: Path, config: Config) -> Encoder:
    from kb.models.onnx import OnnxEncoder

    settings = config.models
    read = manifests.read(folder)
    return OnnxEncoder(read, provider=settings.provider, threads=settings.threads)


def _points() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _from_point(point: EntryPoint, config: Config) -> Encoder:
    try:
        made: Encoder = point.load()(config)
        missing = [name for name in _NEEDED if not hasattr(made, name)]
    except KbError:
        raise
    # Code of others runs here: whatever it raises is an encoder that cannot be used.
    except Exception as error:
        raise ModelError(
            f"the encoder {point.name!r} cannot be loaded: {type(error).__name__}: {error}",
            f"it comes from {point.value}; models.encoder names another",
        ) from error
    if missing:
        raise ModelBroken(
            f"{point.name!r} is not an encoder: it has no {', '.join(missing)}",
            f"it comes from {point.value}",
        )
    return made
