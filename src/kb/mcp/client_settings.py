"""The settings files of programs that use MCP servers: adds kb to them, and removes it.

A file is changed only if it is plain JSON, as one write, and its other content stays. The file as
it was is kept beside it, with the suffix `.before-kb`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.atomic import atomic_path
from kb.errors import ConfigError

NAME = "kb"  # of the server, in the settings
BACKUP_SUFFIX = ".before-kb"


@dataclass(frozen=True, slots=True)
class Client:
    """A program with MCP settings. `path` returns its file for a home folder, `key` is where the
    file lists servers, and `extra` what an entry needs besides command and arguments."""

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
    """Add kb to the settings of a client, or update it. Returns the file, and whether that
    changed."""
    path = client.path(home or Path.home())
    settings = _read(client, path, entry)
    servers = settings.setdefault(client.key, {})
    if not isinstance(servers, dict):
        raise _unusual(client, path, entry)
    if servers.get(NAME) == entry:
        return path, False
    servers[NAME] = dict(entry)
    _write(path, settings)
    return path, True


def remove(client: Client, home: Path | None = None) -> tuple[Path, bool]:
    """Remove kb from the settings of a client. Returns the file, and whether that changed."""
    path = client.path(home or Path.home())
    if not path.exists():
        return path, False
    settings = _read(client, path, {})
    servers = settings.get(client.key)
    if not isinstance(servers, dict) or NAME not in servers:
        return path, False
    del servers[NAME]
    if not servers:
        del settings[client.key]
    _write(path, settings)
    return path, True


def _read(client: Client, path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "check its permissions") from error
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError:
        raise _unusual(client, path, entry) from None
    if not isinstance(settings, dict):
        raise _unusual(client, path, entry)
    return settings


def _unusual(client: Client, path: Path, entry: Mapping[str, Any]) -> ConfigError:
    """Comments, for example, would be lost: the user has to change such a file."""
    change = json.dumps({client.key: {NAME: entry}}) if entry else f"remove {NAME} by hand"
    return ConfigError(
        f"{path} is not plain JSON, so it was not changed", f"change it yourself: {change}"
    )


def _write(path: Path, settings: Mapping[str, Any]) -> None:
    """Replace the file, or the file that it links to."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600
    if path.exists():
        mode = path.stat().st_mode & 0o777
        shutil.copy2(path, path.with_name(path.name + BACKUP_SUFFIX))
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    with atomic_path(path, overwrite=True, mode=mode) as temporary:
        temporary.write_text(text, "utf-8")
