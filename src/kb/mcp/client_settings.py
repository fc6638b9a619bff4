"""The settings files of programs that use MCP servers: adds kb to them, and removes it.

A file is changed only if it is plain JSON, in one write, and its other content is kept. The file as
it was before kb was added is kept beside it, with the suffix `.before-kb`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from kb.atomic import atomic_path
from kb.errors import ConfigError, is_unicode
from kb.regular_files import read_file

NAME = "kb"  # of the server, in the settings
BACKUP_SUFFIX = ".before-kb"
_MAX_BYTES = 64 << 20  # Claude Code keeps its history in this file


@dataclass(frozen=True, slots=True)
class Client:
    """A program with MCP settings. `path` returns its file for a home folder, `key` is the key
    under which the file lists servers, and `extra` has the fields that an entry needs besides
    command and arguments."""

    title: str
    path: Callable[[Path], Path]
    key: str
    extra: Mapping[str, str]


def _application_folder(home: Path) -> Path:
    """The folder in which desktop programs keep their settings."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


def _zed_folder(home: Path) -> Path:
    if sys.platform == "win32":
        return _application_folder(home) / "Zed"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "zed"


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client(
        "Claude Code", lambda home: home / ".claude.json", "mcpServers", {"type": "stdio"}
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        lambda home: _application_folder(home) / "Claude" / "claude_desktop_config.json",
        "mcpServers",
        {},
    ),
    "cursor": Client("Cursor", lambda home: home / ".cursor" / "mcp.json", "mcpServers", {}),
    "vscode": Client(
        "VS Code",
        lambda home: _application_folder(home) / "Code" / "User" / "mcp.json",
        "servers",
        {"type": "stdio"},
    ),
    "zed": Client(
        "Zed",
        lambda home: _zed_folder(home) / "settings.json",
        "context_servers",
        {"source": "custom"},
    ),
    "gemini": Client(
        "Gemini CLI", lambda home: home / ".gemini" / "settings.json", "mcpServers", {}
    ),
}


def entry_for(client: Client, command: str, store: str) -> dict[str, Any]:
    """The entry of kb: how the client starts it, with this store."""
    return {**client.extra, "command": command, "args": ["--store", store, "mcp"]}


def install(
    client: Client, entry: Mapping[str, Any], home: Path | None = None
) -> tuple[Path, bool]:
    """Add kb to the settings of a client, or update it. Returns the path of the file, and whether
    the file changed."""
    path = client.path(home or Path.home())
    settings = _read(client, path, entry)
    servers = settings.setdefault(client.key, {})
    if not isinstance(servers, dict):
        raise _unusual(client, path, entry)
    is_update = NAME in servers
    if servers.get(NAME) == entry:
        return path, False
    if is_update:
        _check_own(servers[NAME], path)
    servers[NAME] = dict(entry)
    _write(path, settings, keep_backup=is_update)
    return path, True


def remove(client: Client, home: Path | None = None) -> tuple[Path, bool]:
    """Remove kb from the settings of a client. Returns the path of the file, and whether the file
    changed."""
    path = client.path(home or Path.home())
    if not path.exists():
        return path, False
    settings = _read(client, path, {})
    servers = settings.get(client.key)
    if not isinstance(servers, dict) or NAME not in servers:
        return path, False
    _check_own(servers[NAME], path)
    del servers[NAME]
    if not servers:
        del settings[client.key]
    _write(path, settings, keep_backup=True)
    return path, True


def _check_own(entry: Any, path: Path) -> None:
    """Raise `ConfigError` for an entry that does not start kb."""
    arguments = entry.get("args") if isinstance(entry, dict) else None
    if not isinstance(arguments, list) or arguments[-1:] != ["mcp"]:
        raise ConfigError(
            f"{path} has another server named {NAME}, so it was not changed",
            "give that server another name, or remove it",
        )


def _read(client: Client, path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = read_file(path, _MAX_BYTES, links="follow").decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "check its permissions") from error
    try:
        settings = _parse(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise _unusual(client, path, entry) from None
    if not isinstance(settings, dict):
        raise _unusual(client, path, entry)
    return settings


def _parse(text: str) -> Any:
    """Parse JSON. Raises `ValueError` for JSON that would change when it is written back: names
    that occur twice, and numbers that are not finite."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name occurs twice")
        return found

    def number(digits: str) -> float:
        value = float(digits)
        if not isfinite(value):
            raise ValueError("a number is not finite")
        return value

    return json.loads(text, object_pairs_hook=members, parse_float=number, parse_constant=number)


def _unusual(client: Client, path: Path, entry: Mapping[str, Any]) -> ConfigError:
    """The error for a file that is not plain JSON: comments, for example, would be lost, so the
    user has to change it."""
    change = json.dumps({client.key: {NAME: entry}}) if entry else f"remove {NAME} by hand"
    return ConfigError(
        f"{path} is not plain JSON, so it was not changed", f"change it yourself: {change}"
    )


def _write(path: Path, settings: Mapping[str, Any], *, keep_backup: bool) -> None:
    """Replace the file, or the file that it links to. With `keep_backup`, an existing backup is
    kept: it is older than kb's own changes."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600
    if path.exists():
        mode = path.stat().st_mode & 0o777
        backup = path.with_name(path.name + BACKUP_SUFFIX)
        if not (keep_backup and backup.exists()):
            shutil.copy2(path, backup)
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    if not is_unicode(text):  # lone surrogates, which only escapes can spell
        text = json.dumps(settings, indent=2) + "\n"
    with atomic_path(path, overwrite=True, mode=mode) as temporary:
        temporary.write_text(text, "utf-8")
