"""Writes a fitted profile into a `config.toml`, and changes nothing else in the file.

The file is edited as text, which keeps comments and the order of entries. The new text is parsed
again before it replaces the file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kb.atomic import atomic_path
from kb.config import Config, user_file
from kb.errors import ConfigError, DiskFull, InvalidRequest
from kb.search.profiles import BUILT_IN, resolve

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[")


def check_name(name: str, profile: str, config: Config, *, force: bool) -> None:
    """Raise an error, before a long fit, if its result could not be written under this name."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"a profile cannot be named {name!r}", "use letters, digits, - and _")
    if name in BUILT_IN and name != profile:
        raise InvalidRequest(f"{name} is a built-in profile", "choose another name")
    if name in config.profiles and not force:
        raise InvalidRequest(
            f"a profile {name} already exists", "choose another name, or use --force"
        )


def fitted_profile(profile: str, config: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a new profile: `profile` with other `settings`."""
    table = dict(config.profiles.get(profile, {}))
    if profile in BUILT_IN:
        table.setdefault("base", profile)
    weights = {**table.pop("weights", {}), **settings.get("weights", {})}
    for key in settings.get("weights", {}):
        table.pop(f"weights.{key}", None)
    others = {key: value for key, value in settings.items() if key != "weights"}
    return table | others | ({"weights": weights} if weights else {})


def write_profile(path: Path, name: str, table: Mapping[str, Any]) -> None:
    """Write the profile into the file, in place of one with this name. Raises `ConfigError`, with
    the text to add by hand, if the file cannot be changed safely."""
    text = to_toml(name, table)
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        kept = _without(before, name).rstrip("\n")
        after = f"{kept}\n\n{text}" if kept else text
        if _parse(after) != _expected_tables(before, name, table):
            raise ConfigError(f"cannot add a profile to {path} safely", f"add by hand:\n{text}")
        # A link in a folder from somebody else could lead anywhere.
        with atomic_path(path, overwrite=True, follow_links=path == user_file()) as part:
            part.write_text(after, encoding="utf-8")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot change {path}: {error}", f"add by hand:\n{text}") from error
    except (DiskFull, InvalidRequest) as error:
        what = f"cannot change {path}: {error.message}"
        raise ConfigError(what, f"add by hand:\n{text}") from error
    resolve(name, {name: table})  # raises if a search could not use it


def to_toml(name: str, table: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    blocks = [_block(f"profiles.{name}", plain)]
    blocks += [_block(f"profiles.{name}.{key}", value) for key, value in tables.items()]
    return "\n".join(blocks)


def _block(header: str, values: Mapping[str, Any]) -> str:
    lines = (f"{toml_line(key, value)}\n" for key, value in values.items())
    return f"[{header}]\n{''.join(lines)}"


def toml_line(key: str, value: Any) -> str:
    """Format a line. Strings, numbers, booleans and lists look the same in JSON and TOML."""
    return f"{_key(key)} = {json.dumps(value)}"


def _key(key: str) -> str:
    return key if _NAME.fullmatch(key) else json.dumps(key)


def _without(text: str, name: str) -> str:
    """The text without the tables of the profile."""
    own = re.compile(rf"\s*\[\s*profiles\s*\.\s*[\"']?{re.escape(name)}[\"']?\s*[.\]]")
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = own.match(line) is not None
        if not inside:
            kept.append(line)
    return "".join(kept)


def _parse(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _expected_tables(before: str, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    parsed = _parse(before)
    parsed["profiles"] = {**parsed.get("profiles", {}), name: json.loads(json.dumps(table))}
    return parsed
