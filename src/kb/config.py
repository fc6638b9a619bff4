"""Settings: defaults < user file < store's file < KB_* environment < flags, into frozen values.

A key is `section.name` (`search.default_top`), in TOML `[search] default_top = 5`, in the
environment `KB_SEARCH_DEFAULT_TOP=5`. The reference in the docs is generated from the fields here.

The store's file comes with its folder, perhaps from somebody else. It may set what is declared
`harmless` here, and all other settings once the user has trusted it (`kb.trust`): a setting is
harmless if no value of it, or none of those that are listed, can send data out, open the server,
name a program, a path or a model, weaken a protection, or use up the machine.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kb import paths
from kb.errors import ConfigError
from kb.paths import STORE_FILE
from kb.trust import SettingsFile, TrustStore, is_own, read_settings

Harmless = bool | Container[Any]


def _key(
    default: Any,
    doc: str,
    *,
    zero: bool = False,
    choices: tuple[str, ...] = (),
    harmless: Harmless = False,
) -> Any:
    """A setting. Numbers are above zero; with `zero`, zero is a value too. A text is one of
    `choices`, where there are some. `harmless` says which values a folder's own file may give
    without being trusted: none, all, or those listed."""
    metadata = {"doc": doc, "zero": zero, "choices": choices, "harmless": harmless}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How searches answer when nothing more is said."""

    default_top: int = _key(10, "hits returned when --top is not given", harmless=range(1, 1001))
    profile: str = _key("default", "profile used when --profile is not given", harmless=True)
    snippet_chars: int = _key(220, "longest snippet, in characters", harmless=range(1, 10_001))
    timeout_s: float = _key(
        30.0,
        "how long a search or a read may take before it ends with an error; the time in which a "
        "model is loaded does not count; 0: as long as it takes",
        zero=True,
    )
    slow_ms: int = _key(
        500,
        "a search that takes longer is logged as a warning, with its query; set, it is said on "
        "stderr without -v or search.log, too",
        harmless=True,
    )
    log: str = _key(
        "",
        "where the time of every search is logged, and slow ones as a warning: stderr, or a file, "
        "to which is added; without it, with -v alone",
    )
    retriever_timeout_ms: int = _key(
        2000,
        "how long a search waits for retrievers that run side by side: in stores of 2,000 vectors "
        "and more, and where an endpoint encodes the query; one that is late is left out and "
        "named; 0: as long as it takes. Elsewhere they run one after the other, and each is "
        "waited for",
        zero=True,
    )


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """How documents are cut into passages."""

    max_chars: int = _key(
        1800,
        "longest chunk, in characters; a code fence or a table may exceed it",
        harmless=range(200, 20_001),
    )


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """Which files are read."""

    hidden: bool = _key(False, "also read files and folders whose name starts with a dot")
    follow_links: bool = _key(False, "follow symbolic links (cycles are noticed)")
    max_file_bytes: int = _key(256 * 1024 * 1024, "larger files are skipped and reported")
    include_secrets: str = _key(
        "",
        "files and folders, with commas, that are read although they look like keys or "
        "credentials, such as ~/notes/example.key",
    )
    parse_timeout_s: float = _key(
        60.0,
        "how long a small file may take to be parsed; half as long is added for each megabyte; "
        "one that takes longer is reported as failed",
    )
    parse_memory_bytes: int = _key(
        1024 * 1024 * 1024,
        "how much memory a small file may take to be parsed; sixteen times its size is added; "
        "one that needs more is reported as failed",
    )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How the store's file is used."""

    busy_timeout_s: float = _key(60.0, "how long a writer waits for another one before it gives up")
    vector_backend: str = _key(
        "auto",
        "what compares vectors: auto, numpy, sqlite-vec or python; all answer alike",
        choices=("auto", "numpy", "sqlite-vec", "python"),
    )


@dataclass(frozen=True, slots=True)
class ModelsConfig:
    """Which encoder makes the vectors, which judge reranks, and on what they run."""

    encoder: str = _key(
        "kb-mini",
        "the encoder: a name of kb models list, a folder that holds a model, endpoint, or none",
        harmless=("none",),
    )
    judge: str = _key(
        "kb-judge",
        "the judge, which a rerank by cross-encoder asks: a name of kb models list, a folder that "
        "holds a model.json, or none",
        harmless=("none",),
    )
    provider: str = _key(
        "auto",
        "what the encoder runs on: auto (a GPU if the runtime offers one), cpu, or a name of ONNX "
        "Runtime's such as CUDAExecutionProvider",
    )
    threads: int = _key(0, "texts that are encoded at the same time; 0: one a core", zero=True)
    tokens: str = _key(
        "2-bit",
        "how a vector for each token is stored, for reranking: int8, 2-bit, 1-bit or none; a chunk "
        "of 190 tokens takes 12 kB, 3.0 kB, 1.5 kB or nothing",
        choices=("2-bit", "1-bit", "int8", "none"),
    )
    exam: bool = _key(
        True,
        "whether a model has to answer a few questions before its vectors count in a search: what "
        "one that cannot read finds would be noise",
    )
    offline: bool = _key(
        False,
        "refuse every connection to another machine; $KB_OFFLINE does the same",
        harmless=(True,),
    )
    endpoint_url: str = _key(
        "",
        "where an OpenAI-compatible server answers, such as http://localhost:11434/v1; its key is "
        "in $KB_ENDPOINT_KEY",
    )
    endpoint_model: str = _key("", "the model that the endpoint is asked for")
    endpoint_dimension: int = _key(
        0, "how long its vectors are; others are refused; 0: as long as its first is", zero=True
    )
    endpoint_query_prefix: str = _key("", "what the endpoint is shown before a query")
    endpoint_passage_prefix: str = _key("", "what the endpoint is shown before a passage")
    endpoint_batch: int = _key(32, "most texts in one request to the endpoint")
    endpoint_timeout_s: float = _key(
        60.0, "how long a request to the endpoint may take; for a query, at most 10"
    )
    endpoint_retries: int = _key(
        4,
        "how often a request that failed for now is sent again; for a query, at most once",
        zero=True,
    )


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Where `kb serve` listens, and how much it takes on at a time."""

    host: str = _key("127.0.0.1", "the address to listen on; all but loopback need a token")
    port: int = _key(8765, "the port to listen on; 0: any that is free", zero=True)
    token_file: str = _key("", "a file that holds the token; $KB_SERVE_TOKEN is the token itself")
    allow_hosts: str = _key("", "names it may be called by besides localhost, with commas")
    ingest_from: str = _key(
        "", "folders that clients may have ingested, with commas; else the folder it is started in"
    )
    searches_at_once: int = _key(4, "searches that run at the same time; others wait")
    max_waiting: int = _key(64, "requests that may wait; more are told to come back later")
    max_body_bytes: int = _key(1024 * 1024, "largest request in JSON")
    max_upload_bytes: int = _key(64 * 1024 * 1024, "largest file that can be uploaded")
    max_memory_bytes: int = _key(
        128 * 1024 * 1024, "requests and answers under way, of all clients together"
    )
    max_query_chars: int = _key(8_000, "longest query")
    max_page: int = _key(200, "most hits, documents or passages in one answer")
    request_timeout_s: float = _key(
        10.0,
        "how long a search or a read may take that a client of kb serve or kb mcp has sent, with "
        "the time it waits for others",
    )
    client_timeout_s: float = _key(20.0, "how long a client may take over its request")
    drain_s: float = _key(
        4.0,
        "how long what is under way may take when the server is told to stop; then it is "
        "cancelled, and the process ends within ten seconds",
    )


@dataclass(frozen=True, slots=True)
class IgnoredSettings:
    """Settings of a folder's own file that do not count: those of `values`, or, where others could
    have written it, the whole file."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    exposure: str | None = None

    @property
    def message(self) -> str:
        """What was ignored, why, and the command that changes it."""
        from shlex import quote

        if self.exposure is not None:
            fix = f"chown it to yourself, and: chmod go-w {quote(str(self.path))}"
            return f"ignored all settings of {self.path}: {self.exposure}; to use it, {fix}"
        trust = f"kb config trust {quote(str(self.path.parent))}"
        return (
            f"ignored {', '.join(self.values)} of {self.path}, which you have not trusted; to look "
            f"at it and trust it: {trust}"
        )


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, where those that are no defaults came from, and what was ignored."""

    search: SearchConfig = SearchConfig()
    chunk: ChunkConfig = ChunkConfig()
    ingest: IngestConfig = IngestConfig()
    store: StoreConfig = StoreConfig()
    models: ModelsConfig = ModelsConfig()
    serve: ServeConfig = ServeConfig()
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)  # key -> where its value came from
    ignored: tuple[IgnoredSettings, ...] = ()
    trusted: tuple[Path, ...] = ()  # folders' own files that the user has trusted

    def as_keys(self) -> dict[str, Any]:
        """Every key with its value: {"search.default_top": 10, ...}."""
        return {key: getattr(getattr(self, section), name) for key, section, name, _ in keys()}


# Names that seeds have for a setting.
ALIASES = {"search.default_k": "search.default_top"}
SECTIONS = ("search", "chunk", "ingest", "store", "models", "serve")


def keys() -> list[tuple[str, str, str, str]]:
    """(key, section, name, documentation) of every setting, in order."""
    classes = (SearchConfig, ChunkConfig, IngestConfig, StoreConfig, ModelsConfig, ServeConfig)
    return [
        (f"{section}.{item.name}", section, item.name, item.metadata["doc"])
        for section, cls in zip(SECTIONS, classes, strict=True)
        for item in fields(cls)
    ]


# --- the store and the user's folders -------------------------------------------------------------


def store_path(given: str | os.PathLike[str] | None = None, *, start: Path | None = None) -> Path:
    """Return the store's file, which may not exist yet.

    It is `given`, else KB_STORE, else in the nearest `.kb/` from `start` (the current folder)
    upwards, else in the user data folder. A `.kb/` of another user raises `ConfigError`, because
    that user could read what is stored there; it has to be named explicitly.
    """
    file = paths.explicit_store(None if given is None else os.fspath(given))
    if file is not None:
        return Path(file)
    near = paths.nearest_store_folder(str((start or Path.cwd()).absolute()))
    if near is None:
        return data_folder() / STORE_FILE
    if not is_own(os.stat(near)):
        raise ConfigError(f"{near} belongs to another user", f"to use it anyway: --store {near}")
    return Path(near) / STORE_FILE


def store_url(given: str | os.PathLike[str] | None = None) -> str:
    """Return `given` or KB_STORE if that is a URL, else the path that `store_path` returns."""
    named = given if given is not None else os.environ.get("KB_STORE")
    if isinstance(named, str) and "://" in named:
        return named
    return str(store_path(given))


def data_folder() -> Path:
    """Return the folder of the user's default store and of downloaded models."""
    return Path(paths.user_folder("data"))


def cache_folder() -> Path:
    """Return the folder for files that kb can create again."""
    return Path(paths.user_folder("cache"))


# --- loading --------------------------------------------------------------------------------------


def load(store: Path | None = None, *, overrides: Mapping[str, Any] | None = None) -> Config:
    """The settings in force for `store`; `overrides` are keys from flags. What a folder's own file
    may not set is left out, and listed in `ignored`."""
    config = _merge_own(Config(), user_file())
    if store is not None and (folder_file := settings_file(store)).absolute() != user_file():
        merge = _merge_own if store.parent == data_folder() else _merge_folder
        config = merge(config, folder_file)
    for key in (*ALIASES, *(key for key, *_ in keys())):
        section, _, name = key.partition(".")
        variable = "KB_" + key.replace(".", "_").upper()
        if variable in os.environ:
            config = _set(config, section, name, os.environ[variable], f"${variable}")
    for key, value in (overrides or {}).items():
        section, _, name = key.partition(".")
        config = _set(config, section, name, value, "flag")
    return config


def load_logged(store: Path) -> Config:
    """The settings for a program that uses kb as a library: what is ignored goes to its log."""
    config = load(store)
    if config.ignored:
        from kb.logs import logger

        for ignored in config.ignored:
            logger("kb.config").warning("%s", ignored.message)
    return config


def user_file() -> Path:
    if named := os.environ.get("KB_CONFIG"):
        return Path(named).expanduser().absolute()
    return Path(paths.user_folder("config")) / "config.toml"


def settings_file(store: Path) -> Path:
    """The file of settings beside the store."""
    return store.parent / "config.toml"


def trust_store() -> TrustStore:
    """What the user has trusted."""
    return TrustStore(Path(paths.user_folder("config")) / "trusted")


def files(store: Path | None) -> list[Path]:
    """The files that settings are read from, there or not; a later one wins."""
    paths = [user_file()]
    if store is not None:
        paths.append(settings_file(store))
    return paths


def _merge_own(config: Config, path: Path) -> Config:
    """With the user's own file. One that others could have written is an error and not passed
    over: it may hold what protects the user, such as `models.offline`."""
    file = _read(path)
    if file is None:
        return config
    if file.exposure is not None:
        raise ConfigError(
            f"{path} is not safe to use: {file.exposure}",
            f"chown it to yourself, and: chmod go-w {path}",
        )
    return _merge(config, path, parse(file))


def _merge_folder(config: Config, path: Path) -> Config:
    """With a folder's own file: all of it if it is trusted, else what is harmless."""
    file = _read(path)
    if file is None:
        return config
    if file.exposure is not None:
        return _without(config, IgnoredSettings(path, exposure=file.exposure))
    data = parse(file)
    refused = untrusted(data)
    whole = _merge(config, path, data)  # so that a slip of the pen is an error either way
    if not refused:
        return whole
    if trust_store().is_trusted(path, file.content):
        return replace(whole, trusted=(*whole.trusted, path))
    kept = {
        section: {key: each for key, each in values.items() if f"{section}.{key}" not in refused}
        for section, values in data.items()
    }
    return _merge(_without(config, IgnoredSettings(path, refused)), path, kept)


def _without(config: Config, ignored: IgnoredSettings) -> Config:
    return replace(config, ignored=(*config.ignored, ignored))


def untrusted(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a folder's own file that count only if it is trusted. A name that is no
    setting is none of them: it is an error, wherever it stands."""
    return {
        f"{section}.{name}": value
        for section, values in data.items()
        if section in SECTIONS and isinstance(values, dict)
        for name, value in values.items()
        if (known := _field(section, name)) is not None
        and not _is_harmless(known.metadata["harmless"], value)
    }


def _is_harmless(harmless: Harmless, value: Any) -> bool:
    if isinstance(harmless, bool):
        return harmless
    return isinstance(value, str | bool | int) and value in harmless


def _read(path: Path) -> SettingsFile | None:
    try:
        return read_settings(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "check the file") from error


def parse(file: SettingsFile) -> dict[str, Any]:
    """The tables of a file; `ConfigError` where it is no TOML."""
    import tomllib

    try:
        return tomllib.loads(file.content.decode())
    # ValueError: also a number of more digits than Python reads.
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{file.path} is not valid TOML: {error}", "mend or remove the file"
        ) from error


def _merge(config: Config, path: Path, data: Mapping[str, Any]) -> Config:
    for section, values in data.items():
        if not isinstance(values, dict):
            raise _unknown(section, str(path))
        if section == "profiles":
            config = replace(config, profiles={**config.profiles, **values})
            continue
        for name, value in values.items():
            config = _set(config, section, name, value, str(path))
    return config


def _field(section: str, name: str) -> Field[Any] | None:
    section, _, name = ALIASES.get(f"{section}.{name}", f"{section}.{name}").partition(".")
    return next((item for item in fields(getattr(Config(), section)) if item.name == name), None)


def _set(config: Config, section: str, name: str, value: Any, origin: str) -> Config:
    section, _, name = ALIASES.get(f"{section}.{name}", f"{section}.{name}").partition(".")
    part = getattr(config, section, None) if section in SECTIONS else None
    known = {} if part is None else {item.name: item for item in fields(part)}
    if part is None or name not in known:
        raise _unknown(f"{section}.{name}", origin)
    typed = _typed(f"{section}.{name}", value, getattr(part, name), origin)
    _check_size(f"{section}.{name}", typed, known[name].metadata["zero"], origin)
    _check_choice(f"{section}.{name}", typed, known[name].metadata["choices"], origin)
    changed: Any = {section: replace(part, **{name: typed})}
    return replace(config, **changed, origins={**config.origins, f"{section}.{name}": origin})


def _typed(key: str, value: Any, default: Any, origin: str) -> Any:
    """`value` in the type of the setting's default."""
    kind = type(default)
    try:
        if kind is bool and isinstance(value, str):
            return {"1": True, "true": True, "0": False, "false": False}[value.strip().lower()]
        if (kind is bool) != isinstance(value, bool):
            raise TypeError
        if kind is str and not isinstance(value, str):
            raise TypeError
        return kind(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"{key} cannot be {value!r} (from {origin})", f"it must be a {kind.__name__}"
        ) from None


def _check_size(key: str, value: Any, zero: bool, origin: str) -> None:
    if isinstance(value, str | bool) or value > 0 or (zero and value == 0):
        return
    least = "zero or more" if zero else "above zero"
    raise ConfigError(f"{key} cannot be {value!r} (from {origin})", f"it must be {least}")


def _check_choice(key: str, value: Any, choices: tuple[str, ...], origin: str) -> None:
    if choices and value not in choices:
        raise ConfigError(
            f"{key} cannot be {value!r} (from {origin})", f"it must be {', '.join(choices)}"
        )


def may_be_zero(key: str) -> bool:
    """Whether zero is a value of this setting."""
    section, _, name = key.partition(".")
    known = _field(section, name)
    return known is not None and bool(known.metadata["zero"])


def harmless_values(key: str) -> Harmless:
    """The values that a folder's own file may give this setting without being trusted."""
    section, _, name = key.partition(".")
    known = _field(section, name)
    return known is not None and known.metadata["harmless"]


def _unknown(key: str, origin: str) -> ConfigError:
    return ConfigError(
        f"unknown setting {key} (from {origin})",
        f"settings: {', '.join(key for key, *_ in keys())}, and tables [profiles.NAME]",
    )
