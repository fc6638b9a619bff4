"""Names and texts with line breaks and terminal escapes are shown escaped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.cli.output import escape, escape_lines
from tests.cli.conftest import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="names that Windows does not have")

EVIL = "\x1b]0;owned\x07\x1b[31m"
FORGED = "error: forged"
NAME = f"a\n{FORGED}{EVIL}\r\x9b2J\u202e\u2028.md"
TITLE = f"A title {EVIL} with\u2029 breaks"


@pytest.fixture
def folder(here: Path) -> Path:
    folder = here / f"lib\n{FORGED}"
    folder.mkdir()
    (folder / NAME).write_text(f"# {TITLE}\n\nneedle {EVIL} text\twith a tab\n", encoding="utf-8")
    (folder / f"bad{NAME}").write_bytes(b"\xff\xfe\x00\x01" * 50)
    (folder / f"empty{NAME}").write_text("")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _is_harmless(text: str) -> bool:
    controls = {char for char in text if char != escape(char)} - {"\n", "\t"}
    return not controls and not any(line.startswith(FORGED) for line in text.splitlines())


def test_no_command_prints_control_characters(folder: Path, run: Run) -> None:
    store = ("--store", "kb.sqlite")
    with KnowledgeBase("kb.sqlite") as kb:
        kb.ingest(folder)
        (path,) = (one.doc_path for one in kb.documents() if "bad" not in one.doc_path)
        kb.tag(path, add=[f"tag\n{FORGED}{EVIL}"])
    for command in (
        ("ingest", str(folder), "-v"),
        ("ingest", str(folder), "--force", "--dry-run"),
        ("list",),
        ("list", "-l"),
        ("search", "needle"),
        ("search", "needle", "--explain"),
        ("search", f"nothing\n{FORGED}{EVIL}"),
        ("compare", "needle"),
        ("similar", path),
        ("tag",),
        ("tag", path),
        ("tag", path, "--remove", f"tag2\n{FORGED}{EVIL}"),
        ("status",),
        ("doctor",),
        ("jobs",),
        ("get", f"x{path}"),
        ("get", f"{path}#L999-L1000"),
        ("search", "x", "--path", f"[{NAME}"),
        ("search", "x", "--after", f"\n{FORGED}"),
        ("eval", "run", f"no\n{FORGED}{EVIL}"),
        ("models", "show", f"no\n{FORGED}{EVIL}"),
        ("backup", f"copy\n{FORGED}{EVIL}"),
        ("export", f"export\n{FORGED}{EVIL}"),
        ("import", f"export2\n{FORGED}{EVIL}"),
        ("ingest", f"missing\n{FORGED}{EVIL}"),
        (f"command\n{FORGED}{EVIL}",),
        ("search", f"--option\n{FORGED}{EVIL}"),
        ("rm", path),
    ):
        told = run(*store, *command)
        assert _is_harmless(told.out), command
        assert _is_harmless(told.err), command


def test_json_contains_names_unchanged(folder: Path, run: Run) -> None:
    run("--store", "kb.sqlite", "ingest", str(folder))
    listed = json.loads(run("--store", "kb.sqlite", "list", "--json").out)
    assert f"{folder.name}/{NAME}" in {one["doc_path"] for one in listed}


def test_one_line_and_several() -> None:
    assert escape("a\nb\tc\x1b[m") == r"a\nb\tc\x1b[m"
    assert escape_lines("a\nb\tc\x1b[m\r\u2028") == "a\nb\tc\\x1b[m\\r\\u2028"
    assert escape("plain \u00e9 \u6771") == "plain \u00e9 \u6771"
