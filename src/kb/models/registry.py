"""Which encoders and judges there are, and the one that a name means.

A name is, in this order: `none`; `endpoint` or `endpoint:MODEL`, a server that the settings name;
`use-multilingual`; a model that came with kb; one that was pulled; one that another package brings
by the entry point group `kb.encoders` (a function that takes the settings and returns a
`ports.Encoder`) or `kb.judges` (a `ports.Judge`); or, where it is written as a path, a folder that
holds a model. Our own are found without a look at what is installed, which takes longer than a
search.
"""

from __future__ import annotations

import os
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.config import Config
from kb.errors import KbError, ModelBroken, ModelError, ModelMissing
from kb.models import manifest as manifests
from kb.models import model_directory
from kb.models.lookup import ENDPOINT, USE_MULTILINGUAL, is_endpoint, is_plain
from kb.types import Encoding, ModelInfo, ModelSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kb.models.manifest import Manifest
    from kb.ports import Encoder, Judge

GROUP = "kb.encoders"
JUDGES = "kb.judges"
OFF = "none"
PROBE = "What does this encoder make of a text?"

_HERE = Path(__file__).parent
_NEEDED = {GROUP: ("encoder", "encode"), JUDGES: ("judge", "scores")}


def encoder(config: Config, name: str | None = None) -> Encoder | None:
    """The encoder of that name, or the one that the settings name; None where that is `none`.
    It loads its files when it is given its first text."""
    name = config.models.encoder if name is None else name
    if name == OFF:
        return None
    if is_endpoint(name):
        from kb.models.endpoint import open_endpoint

        return open_endpoint(config, name)
    if name == USE_MULTILINGUAL:
        from kb.models.use_multilingual import UseMultilingual

        return UseMultilingual()
    if (read := _manifest(name, GROUP)) is not None:
        from kb.models.onnx_encoder import OnnxEncoder

        return OnnxEncoder(read, provider=config.models.provider, threads=config.models.threads)
    made: Encoder = _from_point(name, GROUP, config)
    return made


def judge(config: Config, name: str | None = None) -> Judge | None:
    """The judge of that name, or the one that the settings name; None where that is `none`. It
    loads its files when it is given its first pair."""
    name = config.models.judge if name is None else name
    if name == OFF:
        return None
    if (read := _manifest(name, JUDGES)) is not None:
        from kb.models.onnx_judge import OnnxJudge

        return OnnxJudge(read, provider=config.models.provider, threads=config.models.threads)
    made: Judge = _from_point(name, JUDGES, config)
    return made


def has_multilingual() -> bool:
    """Whether the package that brings `use-multilingual` is installed."""
    from kb.models.use_multilingual import is_installed

    return is_installed()


# --- what there is to know about them -------------------------------------------------------------


def models(config: Config) -> list[ModelInfo]:
    """Every model there is, and those in use if they are folders of the user's."""
    used = (config.models.encoder, config.models.judge)
    names = [*_bundled(), *_named(config), *model_directory.names(), *_point_names(GROUP),
             *_point_names(JUDGES), *filter(_is_path, used)]  # fmt: skip
    return [_info_or_problem(config, name) for name in dict.fromkeys(names)]


def info(config: Config, name: str) -> ModelInfo:
    """What there is to know of one, without loading it."""
    folder = _folder(name)
    if folder is not None:
        return _info_of(manifests.read(folder), _origin(folder), config, name)
    if is_endpoint(name) or name == USE_MULTILINGUAL:
        return _info_of_named(config, name)
    return _info_of_other(config, name)


def verify(config: Config, name: str) -> ModelInfo:
    """Whether it is what it should be: its files byte for byte, what it makes of a text, and, with
    the marks of its exam, how well it reads. Raises `ModelError` where it is not."""
    found = info(config, name)
    if (folder := _folder(name)) is not None:
        manifests.check_hashes(manifests.read(folder))
    if found.spec is not None and found.spec.is_judge:
        judge_ = judge(config, name)
        assert judge_ is not None  # `none` has no info
        _check_scores(judge_, judge_.scores(PROBE, [PROBE]))
        return found
    from kb.models.exam import examine

    encoder_ = encoder(config, name)
    assert encoder_ is not None
    (encoding,) = encoder_.encode([PROBE], want=encoder_.spec.gives)
    _check(encoder_, encoding)
    return replace(found, marks=examine(encoder_)) if config.models.exam else found


def _check_scores(judge: Judge, scores: list[float]) -> None:
    """For judges of others, as below."""
    if len(scores) != 1 or not isfinite(scores[0]):
        raise ModelBroken(f"{judge.spec.name} gave no score of a pair", "report it there")


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
        used = (config.models.encoder, config.models.judge)
        return ModelInfo(name, problem=error.message, in_use=name in used)


def _info_of(manifest: Manifest, origin: str, config: Config, name: str) -> ModelInfo:
    return ModelInfo(
        manifest.spec.name,
        spec=manifest.spec,
        origin=origin,
        path=str(manifest.folder),
        size_bytes=manifest.size_bytes,
        licence=manifest.licence or None,
        summary=manifest.summary or None,
        in_use=name == _used(config, manifest.spec),
    )


def _info_of_named(config: Config, name: str) -> ModelInfo:
    """Of those that lie in no folder of ours. An endpoint is not asked."""
    in_use = config.models.encoder == name
    if is_endpoint(name):
        from kb.models.endpoint import described

        address = config.models.endpoint_url or None
        return ModelInfo(
            name, spec=described(config, name), origin="endpoint", path=address, in_use=in_use
        )
    from kb.models import use_multilingual as use

    return ModelInfo(
        name, spec=use.spec(), origin=f"package {use.DISTRIBUTION}", licence=use.LICENCE,
        summary=use.SUMMARY, in_use=in_use,
    )  # fmt: skip


def _used(config: Config, spec: ModelSpec) -> str:
    """The one of its kind that the settings name."""
    return config.models.judge if spec.is_judge else config.models.encoder


def _info_of_other(config: Config, name: str) -> ModelInfo:
    if name == OFF:
        raise ModelMissing(f"{OFF!r} is no model: it switches them off", "see: kb models list")
    group = JUDGES if name in _point_names(JUDGES) and name not in _point_names(GROUP) else GROUP
    spec: ModelSpec = _from_point(name, group, config).spec
    point = _point(name, group)
    origin = f"package {point.dist.name}" if point is not None and point.dist else "another package"
    return ModelInfo(name, spec=spec, origin=origin, in_use=name == _used(config, spec))


# --- where they are -------------------------------------------------------------------------------


def _bundled() -> list[str]:
    return sorted(path.parent.name.replace("_", "-") for path in _HERE.glob(f"*/{manifests.NAME}"))


def _named(config: Config) -> list[str]:
    """Of the two that are there by name, those that can be used, and what is in use."""
    used = config.models.encoder
    installed = has_multilingual() or used == USE_MULTILINGUAL
    endpoint = used if is_endpoint(used) else ENDPOINT if config.models.endpoint_url else None
    return [*([USE_MULTILINGUAL] if installed else []), *([endpoint] if endpoint else [])]


def _names(group: str) -> list[str]:
    """Those of one kind, for a message."""
    is_judge = group == JUDGES
    own = [
        name
        for name in (*_bundled(), *model_directory.names())
        if (folder := _folder(name)) is not None
        and manifests.read(folder).spec.is_judge == is_judge
    ]
    named = [ENDPOINT, USE_MULTILINGUAL] if group == GROUP else []
    return list(dict.fromkeys([*own, *named, *_point_names(group)]))


def _manifest(name: str, group: str) -> Manifest | None:
    """Of a model that lies in a folder: one of kb's own or the user's."""
    folder = _folder(name)
    if folder is None:
        return None
    read = manifests.read(folder)
    if read.spec.is_judge != (group == JUDGES):
        raise _none_such(name, group)
    return read


def _none_such(name: str, group: str) -> ModelMissing:
    kind = _NEEDED[group][0]
    return ModelMissing(
        f"there is no {kind} {name!r}",
        f"{kind}s: {', '.join((*_names(group), OFF))}, and folders that hold a model",
    )


def _folder(name: str) -> Path | None:
    """Where the model of that name lies, if it is one of kb's own, was pulled, or is a path."""
    if _is_path(name):
        return Path(name).expanduser().absolute()
    for folder in (_HERE / name.replace("-", "_"), *filter(None, [model_directory.place(name)])):
        if os.path.isfile(folder / manifests.NAME):  # not Path's, which fails with a long name
            return folder
    return None


def is_installed(name: str) -> bool:
    """Whether the name means a model that came with kb or was pulled, or `use-multilingual`: one
    that runs here and from no other folder, whoever names it."""
    return name in (OFF, USE_MULTILINGUAL) or (is_plain(name) and _folder(name) is not None)


def absolute_name(name: str) -> str:
    """The same name, as it can be kept: a folder is found from wherever one is."""
    return str(Path(name).expanduser().absolute()) if _is_path(name) else name


def _is_path(name: str) -> bool:
    if is_endpoint(name):  # its model may be called organisation/model
        return False
    return name.startswith(("~", ".")) or "/" in name or os.sep in name


def _origin(folder: Path) -> str:
    if folder.parent == _HERE:
        return "kb"
    return "pulled" if folder.parent == model_directory.folder() else "folder"


def _points(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=group))


def _point(name: str, group: str) -> EntryPoint | None:
    return next((point for point in _points(group) if point.name == name), None)


def _point_names(group: str) -> list[str]:
    return sorted(point.name for point in _points(group))


def _from_point(name: str, group: str, config: Config) -> Any:
    point = _point(name, group)
    if point is None:
        raise _none_such(name, group)
    kind, method = _NEEDED[group]
    try:
        made = point.load()(config)
        missing = [needed for needed in ("spec", method) if not hasattr(made, needed)]
    except KbError:
        raise
    # Code of others runs here: whatever it raises is a model that cannot be used.
    except Exception as error:
        raise ModelError(
            f"the {kind} {point.name!r} cannot be loaded: {type(error).__name__}: {error}",
            f"it comes from {point.value}; models.{kind} names another",
        ) from error
    if missing:
        raise ModelBroken(
            f"{point.name!r} is no {kind}: it has no {', '.join(missing)}",
            f"it comes from {point.value}",
        )
    return made
