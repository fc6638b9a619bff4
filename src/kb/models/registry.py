"""Lists the available encoders and judges, and resolves their names.

A name is resolved in this order: `none`; `endpoint` or `endpoint:MODEL`, the configured server;
`use-multilingual`; a bundled model; a pulled model; a model of another package, from the entry
point group `kb.encoders` (a function that takes the settings and returns a `ports.Encoder`) or
`kb.judges` (a `ports.Judge`). A name written as a path is a folder with a model. Bundled models are
found without listing the installed packages, which takes longer than a search. `kb-mini` is a pair
of bundled models, one for English and one for other languages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.config import Config
from kb.errors import KbError, ModelBroken, ModelError, ModelMissing
from kb.models import manifest as manifests
from kb.models import model_directory
from kb.models.lookup import (
    ENDPOINT,
    ENGLISH,
    KB_MINI,
    MULTILINGUAL,
    USE_MULTILINGUAL,
    is_endpoint,
    is_plain,
)
from kb.text.scripts import unsupported_scripts
from kb.types import Encoding, ModelInfo, ModelSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kb.models.manifest import Manifest
    from kb.ports import Encoder, Judge

GROUP = "kb.encoders"
JUDGES = "kb.judges"
OFF = "none"
_REPORT = "report this to the author of the model"
PROBE = "What does this encoder make of a text?"

_HERE = Path(__file__).parent
_FOLDERS = {ENGLISH: _HERE / "kb_mini"}  # bundled models that are not named after their folder
_KINDS = {GROUP: ("encoder", "encode"), JUDGES: ("judge", "scores")}


def encoder(config: Config, name: str | None = None) -> Encoder | None:
    """Return the encoder with this name, by default the configured one; None for `none`. It loads
    its files when it encodes its first text."""
    name = config.models.encoder if name is None else name
    if name == OFF:
        return None
    if is_endpoint(name):
        from kb.models.endpoint import open_endpoint

        return open_endpoint(config, name)
    if name == USE_MULTILINGUAL:
        from kb.models.use_multilingual import UseMultilingual

        return UseMultilingual()
    if name == KB_MINI:
        from kb.models.device import open_encoder
        from kb.models.language_pair import LanguagePair

        return LanguagePair(*(open_encoder(manifest, config) for manifest in _pair()))
    if (manifest := _manifest(name, GROUP)) is not None:
        from kb.models.device import open_encoder

        return open_encoder(manifest, config)
    plugin: Encoder = _from_entry_point(name, GROUP, config)
    return plugin


def name_of_version(name: str, version: str) -> str | None:
    """The name of the bundled encoder with this name and version in its specification; None if kb
    has none. A store may have vectors of an earlier version of a bundled encoder."""
    for bundled in (ENGLISH, MULTILINGUAL):
        manifest = _manifest(bundled, GROUP)
        if manifest is not None and (manifest.spec.name, manifest.spec.version) == (name, version):
            return bundled
    return None


def judge(config: Config, name: str | None = None) -> Judge | None:
    """Return the judge with this name, by default the configured one; None for `none`. It loads its
    files when it scores its first pair."""
    name = config.models.judge if name is None else name
    if name == OFF:
        return None
    if (manifest := _manifest(name, JUDGES)) is not None:
        from kb.models.onnx_judge import OnnxJudge

        return OnnxJudge(manifest, provider=config.models.provider, threads=config.models.threads)
    plugin: Judge = _from_entry_point(name, JUDGES, config)
    return plugin


def has_multilingual() -> bool:
    """Whether the package for `use-multilingual` is installed."""
    from kb.models.use_multilingual import is_installed

    return is_installed()


def reader(text: str, language: str | None) -> tuple[str, ModelSpec] | None:
    """The name and specification of an installed encoder that claims to read this text, whose
    language may be unknown; None if there is none. Loads no model."""
    declared = [(KB_MINI, _pair_spec())]
    for name in model_directory.names():
        with suppress(KbError):
            if (manifest := _manifest(name, GROUP)) is not None:
                declared.append((name, manifest.spec))
    if has_multilingual():
        from kb.models.use_multilingual import spec

        declared.append((USE_MULTILINGUAL, spec()))
    return next(
        (
            (name, spec)
            for name, spec in declared
            if _reads(text, language, spec.scripts, spec.languages)
        ),
        None,
    )


def _reads(
    text: str, language: str | None, scripts: Sequence[str], languages: Sequence[str]
) -> bool:
    if language is not None and languages:
        return language in languages
    return bool(scripts) and not unsupported_scripts(text, scripts) and language is None


# --- descriptions ---------------------------------------------------------------------------------


def models(config: Config) -> list[ModelInfo]:
    """Every available model, and the configured ones if they are folders."""
    used = (config.models.encoder, config.models.judge)
    names = [
        *_bundled_names(),
        *_other_names(config),
        *model_directory.names(),
        *_entry_point_names(GROUP),
        *_entry_point_names(JUDGES),
        *filter(_is_path, used),
    ]
    return [_info_or_problem(config, name) for name in dict.fromkeys(names)]


def info(config: Config, name: str) -> ModelInfo:
    """Describe a model without loading it. Raises `ModelError`."""
    if name == KB_MINI:
        return _info_of_pair(config)
    folder = _folder(name)
    if folder is not None:
        return _info_of(manifests.read(folder), _origin(folder), config, name)
    if is_endpoint(name) or name == USE_MULTILINGUAL:
        return _info_of_reserved(config, name)
    return _info_of_plugin(config, name)


def verify(config: Config, name: str) -> ModelInfo:
    """Check every byte of a model's files, encode a text, and run the exam. Returns the results of
    the exam. Raises `ModelError` if the model is damaged."""
    model = info(config, name)
    if name == KB_MINI:
        for manifest in _pair():
            manifests.check_hashes(manifest)
    elif (folder := _folder(name)) is not None:
        manifests.check_hashes(manifests.read(folder))
    if model.spec is not None and model.spec.is_judge:
        judge_ = judge(config, name)
        assert judge_ is not None  # `info` rejects `none`
        _check_scores(judge_, judge_.scores(PROBE, [PROBE]))
        return model
    from kb.models.exam import examine

    encoder_ = encoder(config, name)
    assert encoder_ is not None
    (encoding,) = encoder_.encode([PROBE], want=encoder_.spec.gives)
    _check_encoding(encoder_, encoding)
    return replace(model, marks=examine(encoder_)) if config.models.exam else model


def _check_scores(judge: Judge, scores: list[float]) -> None:
    """Check the scores of a third-party judge."""
    if len(scores) != 1 or not isfinite(scores[0]):
        raise ModelBroken(f"{judge.spec.name} returned no score for a pair", _REPORT)


def _check_encoding(encoder: Encoder, encoding: Encoding) -> None:
    """Check an encoding of a third-party encoder; kb's own encoders check their results
    themselves."""
    spec = encoder.spec
    if encoding.dense is None or len(encoding.dense) != spec.dimension or not any(encoding.dense):
        raise ModelBroken(
            f"{spec.name} returned no dense vector of {spec.dimension} dimensions", _REPORT
        )


def _info_or_problem(config: Config, name: str) -> ModelInfo:
    try:
        return info(config, name)
    except KbError as error:
        used = (config.models.encoder, config.models.judge)
        return ModelInfo(name, problem=error.message, in_use=name in used)


def _info_of_pair(config: Config) -> ModelInfo:
    english, others = _pair()
    return replace(
        _info_of(english, "kb", config, KB_MINI),
        name=KB_MINI,
        spec=_pair_spec(),
        size_bytes=english.size_bytes + others.size_bytes,
        summary=f"{ENGLISH} for English, {MULTILINGUAL} for 20 other languages",
    )


def _info_of(manifest: Manifest, origin: str, config: Config, name: str) -> ModelInfo:
    from kb.models.device import describe

    return ModelInfo(
        name if origin == "kb" else manifest.spec.name,
        spec=manifest.spec,
        origin=origin,
        path=str(manifest.folder),
        size_bytes=manifest.size_bytes,
        licence=manifest.licence or None,
        summary=manifest.summary or None,
        in_use=name == _configured_name(config, manifest.spec),
        device=describe(manifest, config),
        missing=() if origin == "kb" or manifest.spec.is_judge else _missing_parts(manifest),
    )


def _missing_parts(manifest: Manifest) -> tuple[str, ...]:
    from kb.models import export_layouts, onnx_file

    try:
        graph = onnx_file.read(manifest.graph_path)
    except (OSError, ValueError):
        return ()  # loading it reports the error
    return tuple(export_layouts.missing_parts(graph, manifest.spec.gives))


def _info_of_reserved(config: Config, name: str) -> ModelInfo:
    """Describe an endpoint, without contacting it, or `use-multilingual`."""
    in_use = config.models.encoder == name
    if is_endpoint(name):
        from kb.models.endpoint import endpoint_spec

        address = config.models.endpoint_url or None
        return ModelInfo(
            name, spec=endpoint_spec(config, name), origin="endpoint", path=address, in_use=in_use
        )
    from kb.models import use_multilingual as use

    return ModelInfo(
        name, spec=use.spec(), origin=f"package {use.DISTRIBUTION}", licence=use.LICENCE,
        summary=use.SUMMARY, in_use=in_use,
    )  # fmt: skip


def _configured_name(config: Config, spec: ModelSpec) -> str:
    """The configured model of the same kind."""
    return config.models.judge if spec.is_judge else config.models.encoder


def _info_of_plugin(config: Config, name: str) -> ModelInfo:
    if name == OFF:
        raise ModelMissing(f"{OFF!r} disables models", "see: kb models list")
    group = (
        JUDGES
        if name in _entry_point_names(JUDGES) and name not in _entry_point_names(GROUP)
        else GROUP
    )
    spec: ModelSpec = _from_entry_point(name, group, config).spec
    point = _entry_point(name, group)
    origin = f"package {point.dist.name}" if point is not None and point.dist else "another package"
    return ModelInfo(name, spec=spec, origin=origin, in_use=name == _configured_name(config, spec))


# --- locations ------------------------------------------------------------------------------------


def _bundled_names() -> list[str]:
    folders = {path.parent for path in _HERE.glob(f"*/{manifests.NAME}")} - {*_FOLDERS.values()}
    return sorted([KB_MINI, *_FOLDERS, *(folder.name.replace("_", "-") for folder in folders)])


def _pair() -> tuple[Manifest, Manifest]:
    """The manifests of kb-mini: for English, and for other languages."""
    return manifests.read(_FOLDERS[ENGLISH]), manifests.read(_HERE / "kb_mini_multilingual")


def _pair_spec() -> ModelSpec:
    from kb.models.language_pair import pair_spec

    english, others = _pair()
    return pair_spec(english.spec, others.spec)


def _other_names(config: Config) -> list[str]:
    """`use-multilingual` and the endpoint, if they are available or configured."""
    used = config.models.encoder
    installed = has_multilingual() or used == USE_MULTILINGUAL
    endpoint = used if is_endpoint(used) else ENDPOINT if config.models.endpoint_url else None
    return [*([USE_MULTILINGUAL] if installed else []), *([endpoint] if endpoint else [])]


def _names(group: str) -> list[str]:
    """The names of all models of one kind, for an error message."""
    is_judge = group == JUDGES
    local = [
        name
        for name in (*_bundled_names(), *model_directory.names())
        if (folder := _folder(name)) is not None
        and manifests.read(folder).spec.is_judge == is_judge
    ]
    reserved = [ENDPOINT, USE_MULTILINGUAL] if group == GROUP else []
    return list(dict.fromkeys([*local, *reserved, *_entry_point_names(group)]))


def _manifest(name: str, group: str) -> Manifest | None:
    """The manifest of a model in a folder: bundled, pulled or the user's; None for others."""
    folder = _folder(name)
    if folder is None:
        return None
    manifest = manifests.read(folder)
    if manifest.spec.is_judge != (group == JUDGES):
        raise _not_found(name, group)
    return manifest


def _not_found(name: str, group: str) -> ModelMissing:
    kind = _KINDS[group][0]
    return ModelMissing(
        f"there is no {kind} {name!r}",
        f"{kind}s: {', '.join((*_names(group), OFF))}, or the path of a folder with a model",
    )


def _folder(name: str) -> Path | None:
    """The folder of a bundled or pulled model, or of a name that is a path; None for others."""
    if _is_path(name):
        return Path(name).expanduser().absolute()
    for folder in (
        _FOLDERS.get(name, _HERE / name.replace("-", "_")),
        *filter(None, [model_directory.path_of(name)]),
    ):
        if os.path.isfile(folder / manifests.NAME):  # Path.is_file raises for very long names
            return folder
    return None


def is_installed(name: str) -> bool:
    """Whether the name is `none`, `use-multilingual`, or that of a bundled or pulled model. Such
    models run locally and from known folders, so that using them needs no trust."""
    return name in (OFF, USE_MULTILINGUAL) or (is_plain(name) and _folder(name) is not None)


def absolute_name(name: str) -> str:
    """The name in a form that can be stored: the path of a folder becomes absolute."""
    return str(Path(name).expanduser().absolute()) if _is_path(name) else name


def _is_path(name: str) -> bool:
    if is_endpoint(name):  # its model may be called organization/model
        return False
    return name.startswith(("~", ".")) or "/" in name or os.sep in name


def _origin(folder: Path) -> str:
    if folder.parent == _HERE:
        return "kb"
    return "pulled" if folder.parent == model_directory.folder() else "folder"


def _entry_points(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=group))


def _entry_point(name: str, group: str) -> EntryPoint | None:
    return next((point for point in _entry_points(group) if point.name == name), None)


def _entry_point_names(group: str) -> list[str]:
    return sorted(point.name for point in _entry_points(group))


def _from_entry_point(name: str, group: str, config: Config) -> Any:
    point = _entry_point(name, group)
    if point is None:
        raise _not_found(name, group)
    kind, method = _KINDS[group]
    try:
        model = point.load()(config)
        missing = [member for member in ("spec", method) if not hasattr(model, member)]
    except KbError:
        raise
    # Third-party code may raise anything: it means that the model cannot be used.
    except Exception as error:
        raise ModelError(
            f"the {kind} {point.name!r} cannot be loaded: {type(error).__name__}: {error}",
            f"it is provided by {point.value}; choose another with models.{kind}",
        ) from error
    if missing:
        raise ModelBroken(
            f"{point.name!r} is not a valid {kind}: it has no {', '.join(missing)}",
            f"it is provided by {point.value}",
        )
    return model
