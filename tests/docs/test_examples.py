"""What the documentation shows is true: its programs run, its commands print what it says.

Compared is not every character, since times and scores are others on every machine, but the first
line of what a command prints, and every path with a citation in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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

_DECIMAL = re.compile(r"\d+\.\d+")
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
    """As it is, with `kb` and `python3` being those that are tested."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, call in (("kb", "-m kb"), ("python3", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "NO_COLOR": "1", "PYTHONUTF8": "1"}


# --- comparing ------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Without what differs: numbers that are measured, and where lines are broken."""
    return " ".join(_DECIMAL.sub("0.0", text).split())


def untrue(shown: str, printed: str) -> list[str]:
    """What a page shows and a command did not print."""
    lines = [part for line in shown.splitlines() for part in line.split(LEFT_OUT) if part.strip()]
    claims = [plain(line) for line in lines[:1]] + _CITED.findall(shown)
    if shown.lstrip().startswith("{"):
        claims += [f'"{key}"' for key in _KEY.findall(shown)]
    printed = plain(printed)
    return [claim for claim in claims if claim not in printed]


def test_comparing_notices() -> None:
    shown = "1.  a/b.md#L1-L2      0.5000\n    text\n\n2.  a/c.md#L9  0.4\n"
    assert untrue(shown, "1.  a/b.md#L1-L2  0.7\n  other text\n\n2. a/c.md#L7  0.6\n") == []
    assert untrue(shown, "1.  a/b.md#L1-L2  0.7") == ["a/c.md"]
    assert untrue("found:\na/d.pdf#page=3", "found: a/e.pdf#page=3") == ["a/d.pdf"]
    assert untrue(f"{LEFT_OUT}\n3 found", "4 found") == ["3 found"]
    assert untrue('{"a": 1}', '{"b": 1}') == ['{"a": 1}', '"a"']
    assert untrue("", "anything") == []


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
        timeout=60,
    )
    printed = done.stdout.decode("utf-8", "backslashreplace")
    return done.returncode, printed.replace(str(folder), READER)


@posix
@pytest.mark.parametrize("page", SHELL_PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
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


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: str(block.name))
def test_programs_run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), block.name
    assert not untrue(printed_by(block), done.stdout), f"{block.name}\n{done.stdout}"


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 5
    assert any(printed_by(block) for block in PROGRAMS)
