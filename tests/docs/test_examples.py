"""What the documentation shows is true: its programs run, its commands print what it says.

They run as a reader runs them: with the model that comes with `kb`. Pages about the example library
embed all of it, and are therefore slow tests. Compared is not every character, since times, sizes
and scores are others on every machine. Of a list of hits it is the first line, every path with a
citation in it, and what is warned of; of anything else it is the words.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import (
    DOCS,
    LEFT_OUT,
    READER,
    REPOSITORY,
    Block,
    Step,
    blocks,
    pages,
    steps,
)

SHELL_PAGES = [page for page in pages() if any(each.language == "console" for each in blocks(page))]
PROGRAMS = [each for page in pages() for each in blocks(page) if each.language == "python"]
LIBRARY = "examples/library"  # 224 passages to embed
PATIENCE_S = 300

_DECIMAL = re.compile(r"\d+\.\d+(?:e-\d+)?")
_SIZE = re.compile(r"\b0\.0 [kMG]i?B\b")
_PROGRESS = re.compile(r"^(?:read|embed): [\d,]+ of [\d,]+\n", re.MULTILINE)  # on slow machines
_CITED = re.compile(r"([\w./-]+)#(?:L|page=)\d+")
_KEY = re.compile(r'"(\w+)":')
_TROUBLE = re.compile(r"^(error|failed|missing):", re.MULTILINE)

posix = pytest.mark.skipif(sys.platform == "win32", reason="the examples are for a POSIX shell")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder, with a copy of the examples."""
    folder = tmp_path / "tidepool"
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A reader's: nothing is set, and `kb` and `python3` are those that are tested."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, call in (("kb", "-m kb"), ("python3", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KB_")}
    return inherited | {"PATH": path, "NO_COLOR": "1", "PYTHONUTF8": "1"}


# --- comparing ------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Without what differs: numbers that are measured, and where lines are broken."""
    return " ".join(_SIZE.sub("0.0 B", _DECIMAL.sub("0.0", text)).split())


def untrue(shown: str, printed: str) -> list[str]:
    """What a page shows and a command did not print."""
    printed = plain(_PROGRESS.sub("", printed))
    return [claim for claim in _claims(shown) if claim not in printed]


def _claims(shown: str) -> list[str]:
    parts = [plain(part) for part in shown.split(LEFT_OUT) if part.strip()]
    lines = [part for line in shown.splitlines() for part in line.split(LEFT_OUT) if part.strip()]
    first = [plain(line) for line in lines[:1]]
    if shown.lstrip().startswith("{") or _KEY.match(first[0] if first else ""):
        return first + [f'"{key}"' for key in _KEY.findall(shown)]
    cited = _CITED.findall(shown)
    if not cited or shown.startswith("exact:"):  # a passage as it stands in its file
        return parts
    return first + cited + [plain(line) for line in lines if line.startswith("warning:")]


def test_comparing_notices() -> None:
    shown = "1.  a/b.md#L1-L2      0.5000\n    text\n\n2.  a/c.md#L9  0.4\n"
    assert untrue(shown, "1.  a/b.md#L1-L2  0.7\n  other text\n\n2. a/c.md#L7  0.6\n") == []
    assert untrue(shown, "1.  a/b.md#L1-L2  0.7") == ["a/c.md"]
    assert untrue("found:\na/d.pdf#page=3", "found: a/e.pdf#page=3") == ["a/d.pdf"]
    assert untrue(f"{LEFT_OUT}\n3 found", "4 found") == ["3 found"]
    assert untrue('{"a": 1}', '{"b": 1}') == ['{"a": 1}', '"a"']
    assert untrue("", "anything") == []
    assert (
        untrue("2 added in 0.3 s\n2 embedded", "2 added in 1.5 s\nembed: 1 of 2\n2 embedded") == []
    )
    assert untrue("2 added\n2 embedded by kb-mini", "2 added") == ["2 added 2 embedded by kb-mini"]
    assert untrue("store (643.1 kB)", "store (2.0 MB)") == []
    warned = "1.  a/b.md#L1  0.5\nwarning: dense: language"
    assert untrue(warned, "1.  a/b.md#L1  0.5") == ["warning: dense: language"]


# --- the shell ------------------------------------------------------------------------------------


def put(block: Block, folder: Path) -> None:
    """The file that a block shows."""
    path = folder / block.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


def run(step: Step, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["sh", "-c", step.command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
    )
    printed = done.stdout.decode("utf-8", "backslashreplace")
    return done.returncode, printed.replace(str(folder), READER)


def marked(each: Path | Block, name: str, text: str) -> Any:
    return pytest.param(each, id=name, marks=[pytest.mark.slow] if LIBRARY in text else [])


def commands(page: Path) -> str:
    return "".join(block.text for block in blocks(page) if block.language == "console")


@posix
@pytest.mark.parametrize(
    "page",
    [marked(page, str(page.relative_to(REPOSITORY)), commands(page)) for page in SHELL_PAGES],
)
def test_commands_print_what_the_page_says(
    page: Path, folder: Path, environment: dict[str, str]
) -> None:
    for block in blocks(page):
        if block.path:
            put(block, folder)
        if block.language != "console":
            continue
        for step in steps(block):
            status, printed = run(step, folder, environment)
            where = f"{block.name}: {step.command}\n{printed}"
            assert not untrue(step.shown, printed), where
            if step.command.startswith("kb ") and not _TROUBLE.search(step.shown):
                assert status == 0, where


def test_the_tutorial_and_the_how_to_pages_are_run() -> None:
    names = {str(page.relative_to(DOCS)) for page in SHELL_PAGES if page.is_relative_to(DOCS)}
    how_to = {f"how-to/{page.name}" for page in (DOCS / "how-to").glob("*.md")}
    assert {"tutorial.md", *how_to} <= names


# --- Python ---------------------------------------------------------------------------------------


def printed_by(block: Block) -> str:
    """What the page says that a program prints: the `text` block right behind it, if there is."""
    after = [each for each in blocks(block.page) if each.line > block.line]
    end = block.line + block.text.count("\n") + 3  # its end, a blank line, the next fence
    return after[0].text if after and (after[0].line, after[0].language) == (end, "text") else ""


def test_no_two_programs_share_a_store() -> None:
    """They run in folders of their own here; a reader runs them all in one."""
    stores = [{*re.findall(r'KnowledgeBase\("([^"]+)"', each.text)} for each in PROGRAMS]
    named = [name for each in stores for name in each]
    assert len(named) == len(set(named)), sorted(named)


@pytest.mark.parametrize("block", [marked(each, each.name, each.text) for each in PROGRAMS])
def test_programs_run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), block.name
    assert not untrue(printed_by(block), done.stdout), f"{block.name}\n{done.stdout}"


def test_some_are_run_without_asking_for_slow_tests() -> None:
    assert [page for page in SHELL_PAGES if LIBRARY not in commands(page)]
    assert [block for block in PROGRAMS if LIBRARY not in block.text]


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 5
    assert any(printed_by(block) for block in PROGRAMS)
