"""`kb mcp install`: kb in the settings of other programs, and out of them again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kb.cli import mcp as command
from kb.cli.run import run as run_kb
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


@pytest.mark.parametrize(
    "text",
    [
        "// comment\n{}", "[]", '{"mcpServers": []}', "{", '{"f": 1e400}', '{"f": NaN}',
        '{"a": 1, "a": 2}', "[" * 100_000,
    ],
    ids=range(8),
)  # fmt: skip
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


@pytest.mark.parametrize(
    "own", [{"command": "mine"}, {"command": "mine", "args": ["serve"]}, "mine"]
)
def test_an_entry_of_the_users_own_stays(tmp_path: Path, own: object) -> None:
    client = CLIENTS["cursor"]
    path = client.path(tmp_path)
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"kb": own}}))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="another server"):
        install(client, entry_for(client, "kb", "s"), tmp_path)
    with pytest.raises(ConfigError, match="another server"):
        remove(client, tmp_path)
    assert path.read_bytes() == before


def test_the_file_before_kb_is_kept(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    path = client.path(tmp_path)
    path.parent.mkdir()
    path.write_text('{"u": "\\ud800", "f": 1.5}')
    before = path.read_bytes()
    for store in ("one", "two"):
        install(client, entry_for(client, "kb", store), tmp_path)
    remove(client, tmp_path)
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    assert backup.read_bytes() == before
    assert json.loads(path.read_text("utf-8")) == json.loads(before)
    path.write_text("{}")
    install(client, entry_for(client, "kb", "one"), tmp_path)
    assert backup.read_text() == "{}"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    path = client.path(tmp_path)
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a regular file"):
        install(client, entry_for(client, "kb", "s"), tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:sEcret@db/team",
        "postgresql://ada@db/team?password=sEcret",
        "postgresql://db/a?shard=1/2 postgresql://ada:sEcret@db/b?shard=2/2",
    ],
)
def test_a_password_is_not_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_kb(["--store", url, "mcp", "install", "cursor"]) == 2
    assert "~/.pgpass" in capsys.readouterr().err
    assert not CLIENTS["cursor"].path(tmp_path).exists()
    assert run_kb(["--store", "postgresql://ada@db/team", "mcp", "install", "cursor"]) == 0
    assert CLIENTS["cursor"].path(tmp_path).exists()
