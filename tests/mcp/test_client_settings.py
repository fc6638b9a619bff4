"""`kb mcp install`: kb in the settings of other programs, and out of them again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb.cli import mcp as command
from kb.errors import ConfigError
from kb.mcp import client_settings
from kb.mcp.client_settings import BACKUP_SUFFIX, CLIENTS, entry_for, install, remove


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)


def test_the_command_knows_every_client() -> None:
    assert sorted(CLIENTS) == list(command._CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_new_file(tmp_path: Path, name: str) -> None:
    client = CLIENTS[name]
    entry = entry_for(client, "/usr/bin/kb", "/home/ada/kb.sqlite")
    path, is_changed = install(client, entry, tmp_path)
    assert is_changed
    assert path.is_relative_to(tmp_path)
    assert json.loads(path.read_text())[client.key]["kb"]["args"] == [
        "--store", "/home/ada/kb.sqlite", "mcp"
    ]  # fmt: skip
    assert install(client, entry, tmp_path) == (path, False)
    assert remove(client, tmp_path) == (path, True)
    assert json.loads(path.read_text()) == {}
    assert remove(client, tmp_path) == (path, False)


def test_other_settings_stay(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    path = client.path(tmp_path)
    path.parent.mkdir()
    before = {"theme": "größer", "mcpServers": {"other": {"command": "x"}}, "last": [1]}
    path.write_text(json.dumps(before), "utf-8")
    path.chmod(0o640)
    install(client, entry_for(client, "kb", "s"), tmp_path)
    after = json.loads(path.read_text("utf-8"))
    assert list(after) == list(before)
    assert set(after["mcpServers"]) == {"other", "kb"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(path.with_name(path.name + BACKUP_SUFFIX).read_text("utf-8")) == before
    remove(client, tmp_path)
    assert json.loads(path.read_text("utf-8")) == before


@pytest.mark.parametrize("text", ["// comment\n{}", "[]", '{"mcpServers": []}', "{"])
def test_files_that_are_not_changed(tmp_path: Path, text: str) -> None:
    client = CLIENTS["gemini"]
    path = client.path(tmp_path)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError, match="not plain JSON") as caught:
        install(client, entry_for(client, "kb", "s"), tmp_path)
    assert '"mcpServers"' in caught.value.hint
    assert path.read_text() == text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    client = CLIENTS["claude-code"]
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    client_settings.CLIENTS["claude-code"].path(tmp_path).symlink_to(real)
    install(client, entry_for(client, "kb", "s"), tmp_path)
    assert client.path(tmp_path).is_symlink()
    assert "kb" in json.loads(real.read_text())["mcpServers"]
