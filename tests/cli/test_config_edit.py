"""`kb config set` and `unset`."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kb.cli.config_edit import edit_text
from tests.cli.conftest import Run

TEXT = """# my settings
[open]
links = "none"  # no links

[search]
default_top = 5

[profiles.mine]
top = 3
"""


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("search", "default_top", 20),
        ("search", "log", "~/log.txt"),
        ("open", "links", "obsidian"),
        ("serve", "port", 9000),
        ("search", "default_top", None),
    ],
)
def test_one_setting_changes(section: str, name: str, value: object) -> None:
    before, after = tomllib.loads(TEXT), tomllib.loads(edit_text(TEXT, section, name, value))
    table = before.setdefault(section, {})
    table.pop(name, None)
    if value is not None:
        table[name] = value
    assert after == before
    assert "# my settings" in edit_text(TEXT, section, name, value)


def test_set_and_unset(run: Run) -> None:
    assert run("config", "--json").json["search.default_top"]["origin"] == "default"
    file = Path(run("config", "set", "search.default_k", "20").out.strip())
    assert file.read_text("utf-8") == "[search]\ndefault_top = 20\n"
    assert run("config", "--json").json["search.default_top"]["value"] == 20
    run("config", "set", "open.links", "obsidian")
    run("config", "unset", "search.default_top")
    assert tomllib.loads(file.read_text("utf-8")) == {"search": {}, "open": {"links": "obsidian"}}


@pytest.mark.parametrize(
    ("key", "value"), [("search.default_top", "many"), ("search.nothing", "1"), ("x", "1")]
)
def test_wrong_settings_are_refused(run: Run, key: str, value: str) -> None:
    result = run("config", "set", key, value)
    assert result.status == 2
    assert result.err.startswith("error:")
    assert run("config", "unset", "search.nothing").status == 2


def test_a_file_that_kb_cannot_change(run: Run) -> None:
    file = Path(run("config", "path").out.splitlines()[-1])
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "search.default_top = 7\n"
    file.write_text(text, "utf-8")
    os.chmod(file, 0o600)
    assert run("config", "set", "search.default_top", "9").status == 2
    assert file.read_text("utf-8") == text


def test_a_byte_order_mark(run: Run) -> None:
    """Some editors write one; TOML does not allow it."""
    file = Path(run("config", "path").out.splitlines()[-1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\ufeff[search]\ndefault_top = 5\n", "utf-8")
    os.chmod(file, 0o600)
    assert run("config", "--json").json["search.default_top"]["value"] == 5
    run("config", "set", "search.snippet_chars", "100")
    assert tomllib.loads(file.read_text("utf-8"))["search"] == {
        "default_top": 5, "snippet_chars": 100,
    }  # fmt: skip


def test_commands_at_the_same_time_keep_all_changes(run: Run) -> None:
    file = Path(run("config", "path").out.splitlines()[-1])
    keys = (
        "search.default_top", "search.snippet_chars", "search.slow_ms", "store.busy_timeout_s",
        "models.threads", "serve.port", "ask.timeout_s", "serve.max_page",
    )  # fmt: skip
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "kb", "config", "set", key, "40"], stdout=subprocess.DEVNULL
        )
        for key in keys
    ]
    assert [command.wait(timeout=60) for command in commands] == [0] * len(keys)
    tables = tomllib.loads(file.read_text("utf-8"))
    changed = {f"{section}.{name}" for section, table in tables.items() for name in table}
    assert changed == set(keys)
    assert not list(file.parent.glob("lock-*"))
