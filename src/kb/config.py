"""Settings: defaults < user file < store's file < KB_* environment < options, as frozen values.

A key is `section.name`: `search.default_top` is `[search] default_top = 5` in TOML, and
`KB_SEARCH_DEFAULT_TOP=5` in the environment. The reference in the docs is generated from the fields
below.

The store's file comes with its folder, perhaps from someone else. It may set what is declared
`harmless` here, and everything else once the user trusts it (`kb.trust`). A setting is harmless if
none of its permitted values can send data to others, expose the server, select a program, path or
model, weaken a protection, or exhaust the machine.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping

from kb import paths
from kb.errors import ConfigError
from kb.locations import to_path
from kb.trust import SettingsFile, TrustStore, read_settings
from kb.types import LINK_FORMS
from kb.values import TYPE_CHECKING, Any, dataclass, field, fields, replace

if TYPE_CHECKING:
    from dataclasses import Field
    from pathlib import Path
else:  # so that the types of the fields can be read at runtime, without loading `pathlib`
    from os import PathLike as Path

Harmless = bool | Container[Any]
MAX_QUERY_CHARS = 100_000  # for every query; servers may allow less


def _key(
    default: Any,
    doc: str,
    *,
    zero: bool = False,
    choices: tuple[str, ...] = (),
    harmless: Harmless = False,
) -> Any:
    """Declare a setting. Numbers are above zero; `zero` allows zero too. `choices` restricts a
    string. `harmless` is what a folder's own file may set without trust: nothing, any value, or
    the listed values."""
    metadata = {"doc": doc, "zero": zero, "choices": choices, "harmless": harmless}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Defaults for searches."""

    default_top: int = _key(10, "number of hits when --top is not given", harmless=range(1, 1001))
    profile: str = _key("default", "profile when --profile is not given", harmless=True)
    snippet_chars: int = _key(220, "maximum characters of a snippet", harmless=range(1, 10_001))
    timeout_s: float = _key(
        30.0,
        "time limit for a search or a read, after which it fails; loading a model does not count; "
        "0: no limit",
        zero=True,
    )
    slow_ms: int = _key(
        500,
        "a slower search is logged as a warning, with its query; if this is set, the warning goes "
        "to stderr even without -v or search.log",
        harmless=True,
    )
    log: str = _key(
        "", "where to log the time of every search: stderr, or a file; if empty, only -v logs them"
    )
    retriever_timeout_ms: int = _key(
        2000,
        "how long a search waits for retrievers that run in parallel; a late one is left out and "
        "reported as degraded, unless all are late; 0: no limit. Retrievers run in parallel in "
        "stores with 50,000 or more vectors, or if an endpoint encodes the query; otherwise "
        "there is no limit",
        zero=True,
    )


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """How documents are split into passages."""

    max_chars: int = _key(
        1800,
        "maximum length of a passage, in characters; a code block or a table may exceed it",
        harmless=range(200, 20_001),
    )


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """Which files are read."""

    hidden: bool = _key(False, "also read files and folders whose names start with a dot")
    follow_links: bool = _key(False, "follow symbolic links (cycles are detected)")
    max_file_bytes: int = _key(
        256 * 1024 * 1024, "maximum file size; larger files are skipped and reported"
    )
    include_secrets: str = _key(
        "",
        "files and folders to read even if they look like keys or credentials, separated by "
        "commas, such as ~/notes/example.key",
    )
    parse_timeout_s: float = _key(
        60.0,
        "time limit for parsing a small file; each megabyte adds half of it; slower files are "
        "reported as failed",
    )
    parse_memory_bytes: int = _key(
        1024 * 1024 * 1024,
        "memory limit for parsing a small file, plus sixteen times its size; files that need more "
        "are reported as failed",
    )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How kb accesses the store."""

    busy_timeout_s: float = _key(60.0, "how long a writer waits for another one before it fails")
    vector_backend: str = _key(
        "auto",
        "vector search backend: auto, numpy, sqlite-vec or python; the results are the same",
        choices=("auto", "numpy", "sqlite-vec", "python"),
    )


@dataclass(frozen=True, slots=True)
class ModelsConfig:
    """Which models encode and rerank, and how they run."""

    encoder: str = _key(
        "kb-mini",
        "the encoder: a name from kb models list, the folder of a model, endpoint, or none",
        harmless=("none",),
    )
    judge: str = _key(
        "kb-judge",
        "the judge for --reranker cross-encoder: a name from kb models list, a folder that "
        "contains a model.json, or none",
        harmless=("none",),
    )
    provider: str = _key(
        "auto",
        "where models run: auto (a GPU if available), cpu, cuda, or the name of an ONNX Runtime "
        "provider, such as CUDAExecutionProvider; kb-mini uses a GPU with torch",
    )
    threads: int = _key(0, "number of texts encoded in parallel; 0: one per core", zero=True)
    tokens: str = _key(
        "2-bit",
        "how to store token vectors, for reranking: int8, 2-bit, 1-bit or none; a passage of 190 "
        "tokens takes 12 kB, 3.0 kB, 1.5 kB or nothing",
        choices=("2-bit", "1-bit", "int8", "none"),
    )
    exam: bool = _key(
        True, "whether an encoder must pass a short exam before searches use its vectors"
    )
    offline: bool = _key(
        False,
        "refuse all connections to other machines; $KB_OFFLINE does the same",
        harmless=(True,),
    )
    endpoint_url: str = _key(
        "",
        "URL of an OpenAI-compatible server, such as http://localhost:11434/v1; its API key is in "
        "$KB_ENDPOINT_KEY",
    )
    endpoint_model: str = _key("", "the model to request from the endpoint")
    endpoint_dimension: int = _key(
        0,
        "dimension of its vectors; others are rejected; 0: the dimension of its first vector",
        zero=True,
    )
    endpoint_query_prefix: str = _key("", "text to put before each query")
    endpoint_passage_prefix: str = _key("", "text to put before each passage")
    endpoint_batch: int = _key(32, "maximum number of texts in one request to the endpoint")
    endpoint_timeout_s: float = _key(
        60.0, "total time limit for a request to the endpoint; for a query, at most 10 s"
    )
    endpoint_retries: int = _key(
        4,
        "how often to retry a request after a temporary failure; for a query, at most once",
        zero=True,
    )


@dataclass(frozen=True, slots=True)
class AskConfig:
    """The language model that writes the answers of `kb ask`."""

    endpoint_url: str = _key(
        "",
        "URL of an OpenAI-compatible server, such as http://localhost:11434/v1, which gets "
        "the question and passages; its API key is in $KB_ASK_KEY; if empty, answers are quoted",
    )
    endpoint_model: str = _key("", "the language model to request from it")
    timeout_s: float = _key(120.0, "total time limit for an answer from the endpoint")


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The address and the limits of `kb serve` and `kb mcp`."""

    host: str = _key("127.0.0.1", "the address to listen on; any but loopback requires a token")
    port: int = _key(8765, "the port to listen on; 0: any free port", zero=True)
    token_file: str = _key("", "a file that contains the token, or set $KB_SERVE_TOKEN to it")
    tokens: str = _key("", "the file with the tokens of kb token; by default in the user's folder")
    audit_log: str = _key("", "a file to append a line of JSON to for every write over HTTP")
    log_format: str = _key(
        "text", "how servers log to stderr: text, or json", choices=("text", "json")
    )
    allow_hosts: str = _key("", "additional host names besides localhost, separated by commas")
    ingest_from: str = _key(
        "", "folders that clients may ingest, separated by commas; by default the current folder"
    )
    searches_at_once: int = _key(
        4,
        "number of searches that run in parallel; others wait. Searches by words alone have a "
        "separate pool of the same size",
    )
    max_waiting: int = _key(64, "number of requests that may wait; further ones are rejected")
    max_body_bytes: int = _key(1024 * 1024, "maximum size of a JSON request")
    max_upload_bytes: int = _key(64 * 1024 * 1024, "maximum size of an uploaded file")
    max_memory_bytes: int = _key(
        128 * 1024 * 1024, "memory for pending requests and responses of all clients"
    )
    max_query_chars: int = _key(MAX_QUERY_CHARS, "maximum length of a query")
    max_page: int = _key(200, "maximum number of hits, documents or passages in one response")
    request_timeout_s: float = _key(
        10.0,
        "time limit for a search or a read by a client of kb serve or kb mcp, including the time "
        "it waits",
    )
    client_timeout_s: float = _key(20.0, "how long a client may take to send its request")
    drain_s: float = _key(
        4.0,
        "how long pending requests may take when the server stops; after that they are "
        "canceled, and the process ends within ten seconds",
    )


@dataclass(frozen=True, slots=True)
class OpenConfig:
    """How files are opened by `kb open` and by the links of hits."""

    editor: str = _key(
        "",
        "the command that opens a text file, such as code --goto {file}:{line}; if empty, $VISUAL "
        "or $EDITOR",
    )
    pdf_viewer: str = _key(
        "",
        "the command that opens a PDF, such as zathura -P {page} {file}; if empty, the "
        "system's viewer, at the page if kb knows its option for that",
    )
    links: str = _key(
        "file",
        f"the links of hits, in JSON and in terminals: {', '.join(LINK_FORMS[:-1])}, or none; "
        "editors get text files, obsidian gets Markdown, canvas and PDF files, and all other files "
        "have file links",
        choices=LINK_FORMS,
    )


@dataclass(frozen=True, slots=True)
class IgnoredSettings:
    """Settings that kb ignores in a folder's own file: `values`, or the whole file if `exposure`
    describes how others could have written it."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    exposure: str | None = None

    @property
    def message(self) -> str:
        """A message about what is ignored, why, and the command that changes that."""
        from shlex import quote

        if self.exposure is not None:
            fix = f"chown it to yourself and run: chmod go-w {quote(str(self.path))}"
            return f"ignored all settings in {self.path}: {self.exposure}; to use it, {fix}"
        trust = f"kb config trust {quote(str(self.path.parent))}"
        return (
            f"ignored {', '.join(self.values)} in {self.path}, which you have not trusted; to "
            f"review and trust it: {trust}"
        )


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, the origin of those that differ from the defaults, and what was ignored."""

    search: SearchConfig = SearchConfig()
    chunk: ChunkConfig = ChunkConfig()
    ingest: IngestConfig = IngestConfig()
    store: StoreConfig = StoreConfig()
    models: ModelsConfig = ModelsConfig()
    ask: AskConfig = AskConfig()
    serve: ServeConfig = ServeConfig()
    open: OpenConfig = OpenConfig()
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)  # key -> origin of its value
    ignored: tuple[IgnoredSettings, ...] = ()
    trusted: tuple[Path, ...] = ()  # folders' own files that the user trusts

    def as_keys(self) -> dict[str, Any]:
        """Return every key with its value: {"search.default_top": 10, ...}."""
        return {key: getattr(getattr(self, section), name) for key, section, name, _ in keys()}


# Other names for settings.
ALIASES = {"search.default_k": "search.default_top"}
SECTIONS = ("search", "chunk", "ingest", "store", "models", "ask", "serve", "open")


def keys() -> list[tuple[str, str, str, str]]:
    """Return (key, section, name, documentation) of every setting, in order."""
    return [
        (f"{section}.{item.name}", section, item.name, item.metadata["doc"])
        for section in SECTIONS
        for item in fields(getattr(Config(), section))
    ]


# --- loading --------------------------------------------------------------------------------------


def load(
    store: str | os.PathLike[str] | None = None, *, overrides: Mapping[str, Any] | None = None
) -> Config:
    """Return the settings for `store`; `overrides` are keys set by options. Settings that a
    folder's own file may not change are listed in `ignored`."""
    user = paths.user_settings()
    config = _merge_user_file(Config(), user)
    if store is not None:
        folder = os.path.dirname(os.fspath(store))
        file = os.path.join(folder, paths.SETTINGS_FILE)
        if os.path.abspath(file) != os.path.abspath(user):
            is_user = folder == paths.user_folder("data")
            config = (_merge_user_file if is_user else _merge_folder_file)(config, file)
    for key in (*ALIASES, *(key for key, *_ in keys())):
        section, _, name = key.partition(".")
        variable = "KB_" + key.replace(".", "_").upper()
        if variable in os.environ:
            config = _set(config, section, name, os.environ[variable], f"${variable}")
    for key, value in (overrides or {}).items():
        section, _, name = key.partition(".")
        config = _set(config, section, name, value, "flag")
    return config


def load_logged(store: str | os.PathLike[str]) -> Config:
    """Return the settings for a program that uses kb as a library; ignored settings are logged."""
    config = load(store)
    if config.ignored:
        from kb.logs import logger

        for ignored in config.ignored:
            logger("kb.config").warning("%s", ignored.message)
    return config


def user_file() -> Path:
    """Return the path of the user's settings file."""
    return to_path(paths.user_settings())


def settings_file(store: Path) -> Path:
    """Return the path of the settings file beside the store."""
    return store.parent / paths.SETTINGS_FILE


def trust_store() -> TrustStore:
    """Return the record of what the user trusts."""
    return TrustStore(to_path(paths.user_folder("config")) / "trusted")


def files(store: Path | None) -> list[Path]:
    """Return the paths of the settings files, which may not exist; a later one wins."""
    return [user_file()] if store is None else [user_file(), settings_file(store)]


def _merge_user_file(config: Config, path: str) -> Config:
    """Apply the user's own file. If others could have written it, raise an error instead of
    ignoring it: it may contain a protection such as `models.offline`."""
    file = _read(path)
    if file is None:
        return config
    if file.exposure is not None:
        raise ConfigError(
            f"{path} is not safe to use: {file.exposure}",
            f"chown it to yourself and run: chmod go-w {path}",
        )
    return _merge(config, path, parse(file))


def _merge_folder_file(config: Config, path: str) -> Config:
    """Apply a folder's own file: all settings if it is trusted, otherwise only the harmless
    ones."""
    file = _read(path)
    if file is None:
        return config
    if file.exposure is not None:
        return _with_ignored(config, IgnoredSettings(file.path, exposure=file.exposure))
    data = parse(file)
    refused = untrusted(data)
    whole = _merge(config, path, data)  # reports typos in ignored settings too
    if not refused:
        return whole
    if trust_store().is_trusted(file.path, file.content):
        return replace(whole, trusted=(*whole.trusted, file.path))
    kept = {
        section: {key: each for key, each in values.items() if f"{section}.{key}" not in refused}
        for section, values in data.items()
    }
    return _merge(_with_ignored(config, IgnoredSettings(file.path, refused)), path, kept)


def _with_ignored(config: Config, ignored: IgnoredSettings) -> Config:
    return replace(config, ignored=(*config.ignored, ignored))


def untrusted(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a folder's own file that require trust. Unknown names are left out:
    they are errors in any file."""
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


def _read(path: str) -> SettingsFile | None:
    try:
        return read_settings(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "check the file") from error


def parse(file: SettingsFile) -> dict[str, Any]:
    """Parse a settings file. Raises `ConfigError` if it is not TOML."""
    import tomllib

    try:
        return tomllib.loads(file.content.decode("utf-8-sig"))
    # ValueError: also for numbers with more digits than Python parses.
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{file.path} is not valid TOML: {error}", "correct or remove the file"
        ) from error


def _merge(config: Config, path: str, data: Mapping[str, Any]) -> Config:
    for section, values in data.items():
        if not isinstance(values, dict):
            raise _unknown_setting(section, path)
        if section == "profiles":
            config = replace(config, profiles={**config.profiles, **values})
            continue
        for name, value in values.items():
            config = _set(config, section, name, value, path)
    return config


def _field(section: str, name: str) -> Field[Any] | None:
    section, _, name = ALIASES.get(f"{section}.{name}", f"{section}.{name}").partition(".")
    return next((item for item in fields(getattr(Config(), section)) if item.name == name), None)


def _set(config: Config, section: str, name: str, value: Any, origin: str) -> Config:
    section, _, name = ALIASES.get(f"{section}.{name}", f"{section}.{name}").partition(".")
    part = getattr(config, section, None) if section in SECTIONS else None
    known = {} if part is None else {item.name: item for item in fields(part)}
    if part is None or name not in known:
        raise _unknown_setting(f"{section}.{name}", origin)
    converted = _convert(f"{section}.{name}", value, getattr(part, name), origin)
    _check_range(f"{section}.{name}", converted, known[name].metadata["zero"], origin)
    _check_choice(f"{section}.{name}", converted, known[name].metadata["choices"], origin)
    changed: Any = {section: replace(part, **{name: converted})}
    return replace(config, **changed, origins={**config.origins, f"{section}.{name}": origin})


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _convert(key: str, value: Any, default: Any, origin: str) -> Any:
    """Convert `value` to the type of the setting's default."""
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
            f"{key} cannot be {value!r} (from {origin})", f"it must be {_KINDS[kind]}"
        ) from None


# With larger numbers, timers and limits of SQLite, Python and the system overflow.
_MAX_SECONDS = 1_000_000
_MAX_MILLISECONDS = 1000 * _MAX_SECONDS
_MAX_NUMBER = 10**15


def _check_range(key: str, value: Any, zero: bool, origin: str) -> None:
    if isinstance(value, str | bool):
        return
    if key.endswith("_s"):
        maximum = _MAX_SECONDS
    elif key.endswith("_ms"):
        maximum = _MAX_MILLISECONDS
    else:
        maximum = _MAX_NUMBER
    if value > maximum:
        expected = f"at most {maximum:,}"
    elif value > 0 or (zero and value == 0):
        return
    else:  # including NaN
        expected = "zero or more" if zero else "above zero"
    raise ConfigError(f"{key} cannot be {value!r} (from {origin})", f"it must be {expected}")


def _check_choice(key: str, value: Any, choices: tuple[str, ...], origin: str) -> None:
    if choices and value not in choices:
        raise ConfigError(
            f"{key} cannot be {value!r} (from {origin})", f"it must be one of: {', '.join(choices)}"
        )


def may_be_zero(key: str) -> bool:
    """Whether this setting accepts zero."""
    section, _, name = key.partition(".")
    known = _field(section, name)
    return known is not None and bool(known.metadata["zero"])


def harmless_values(key: str) -> Harmless:
    """Return the values of this setting that a folder's own file may set without trust."""
    section, _, name = key.partition(".")
    known = _field(section, name)
    return known is not None and known.metadata["harmless"]


def _unknown_setting(key: str, origin: str) -> ConfigError:
    return ConfigError(
        f"unknown setting {key} (from {origin})",
        f"settings: {', '.join(key for key, *_ in keys())}, and [profiles.NAME] tables",
    )
