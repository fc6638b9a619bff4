"""The examples in the documentation work: programs run, and commands print what the page shows.

They run with the bundled model, as for a reader. Pages about the example library embed all of it,
so their tests are slow. Times, sizes and scores differ between machines and are not compared, apart
from the number of decimals of a relevance. Of a list of hits, the test compares the first line,
every citation and the warnings; of other output, the words.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import (
    DOCS,
    ELSEWHERE,
    LEFT_OUT,
    NOT_RUN,
    REPOSITORY,
    Block,
    Step,
    blocks,
    guides,
    pages,
    prose,
    short_name,
    steps,
)
from tests.docs.reading import INTERRUPTED, PATIENCE_S, Reader, Service
from tests.docs.reading import reader as reader_at
from tests.models import make_tiny_m3

SHELL_PAGES = [page for page in pages() if any(each.language == "console" for each in blocks(page))]
PROGRAMS = [each for page in pages() for each in blocks(page) if each.language == "python"]
LIBRARY = "examples/library"  # 224 passages to embed

_DECIMAL = re.compile(r"\d+\.\d+(?:e-\d+)?")
_SIZE = re.compile(r"\b0\.0 [kMG]i?B\b")
_PROGRESS = re.compile(r"^(?:\w+: [\d,]+ of|index:) [\d,]+\n", re.MULTILINE)  # on slow machines
_CITED = re.compile(r"([\w./-]+)#(?:L|page=)\d+")
_RELEVANCE = re.compile(r"^\d+\. +\S+#\S+ +(?:[▰▱]+ )?\d\.(\d+)$", re.MULTILINE)
_KEY = re.compile(r'"(\w+)":')
_TROUBLE = re.compile(r"^(error|failed|missing):", re.MULTILINE)
_EXTRAS = re.compile(r"pip install '[^'\[]+\[([\w,]+)\]'")
_CTRL_C = "^C\n"

posix = pytest.mark.skipif(sys.platform == "win32", reason="the examples are for a POSIX shell")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return reader_at(tmp_path)


# --- comparing ------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Text without measured numbers and line breaks, which differ."""
    return " ".join(_SIZE.sub("0.0 B", _DECIMAL.sub("0.0", text)).split())


def untrue(shown: str, printed: str) -> list[str]:
    """The parts of the shown output that a command did not print."""
    widths = {len(decimals) for decimals in _RELEVANCE.findall(printed)}
    unlike = [hit[0] for hit in _RELEVANCE.finditer(shown) if widths and len(hit[1]) not in widths]
    printed = plain(_PROGRESS.sub("", printed))
    return unlike + [claim for claim in _claims(shown) if claim not in printed]


def _claims(shown: str) -> list[str]:
    parts = [plain(part) for part in shown.split(LEFT_OUT) if part.strip()]
    lines = [part for line in shown.splitlines() for part in line.split(LEFT_OUT) if part.strip()]
    first = [plain(line) for line in lines[:1]]
    if shown.startswith("{") and "\n" not in shown.strip():  # as curl prints it
        return [plain(part) for part in lines]
    if shown.lstrip().startswith("{") or _KEY.match(first[0] if first else ""):
        return first + [f'"{key}"' for key in _KEY.findall(shown)]
    cited = _CITED.findall(shown)
    if not cited or shown.startswith("exact:"):  # a passage as it appears in its file
        return parts
    return first + cited + [plain(line) for line in lines if line.startswith("warning:")]


def test_comparing_notices() -> None:
    shown = "1.  a/b.md#L1-L2      0.50\n    text\n\n2.  a/c.md#L9  0.40\n"
    assert untrue(shown, "1.  a/b.md#L1-L2  0.71\n  other text\n\n2. a/c.md#L7  0.60\n") == []
    assert untrue(shown, "1.  a/b.md#L1-L2  0.71") == ["a/c.md"]
    assert untrue("1.  a/b.md#L1  0.5000", "1.  a/b.md#L1  0.50") == ["1.  a/b.md#L1  0.5000"]
    assert untrue("found:\na/d.pdf#page=3", "found: a/e.pdf#page=3") == ["a/d.pdf"]
    assert untrue(f"{LEFT_OUT}\n3 found", "4 found") == ["3 found"]
    assert untrue('{\n  "a": 1}', '{"b": 1}') == ['"a"']
    assert untrue(f'{{"a":1,{LEFT_OUT},"b":2}}', '{"a":1,"c":3,"b":2}') == []
    assert untrue(f'{{"a":1,{LEFT_OUT},"b":2}}', '{"a":1,"c":3,"b":4}') == [',"b":2}']
    assert untrue("", "anything") == []
    assert (
        untrue("2 added in 0.3 s\n2 embedded", "2 added in 1.5 s\nembed: 1 of 2\n2 embedded") == []
    )
    assert untrue("2 added\n2 embedded by kb-mini", "2 added") == ["2 added 2 embedded by kb-mini"]
    assert untrue("store (643.1 kB)", "store (2.0 MB)") == []
    warned = "1.  a/b.md#L1  0.5\nwarning: dense: language"
    assert untrue(warned, "1.  a/b.md#L1  0.5") == ["warning: dense: language"]


# --- the shell ------------------------------------------------------------------------------------


class Terminals:
    """Two terminals: one for commands, the other for the server of a page, if it has one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._service: Service | None = None

    def follow(self, block: Block) -> None:
        if block.path:
            self._reader.save(block)
        elif block.language == "console":
            for step in steps(block):
                self._type(step, block)
        elif block.language == "text" and self._service and not block.has_a_test:
            self._read(block.text, block.name)

    def close(self) -> str:
        """Stop the server and return the rest of its output."""
        service, self._service = self._service, None
        if service is None:
            return ""
        status, printed = service.end()
        assert (status, printed[-8:]) == (INTERRUPTED, "stopped\n"), printed
        return printed

    def _type(self, step: Step, block: Block) -> None:
        if _goes_on(step.shown):
            self.close()
            self._service = self._reader.start(step.command)
            self._read(step.shown, f"{block.name}: {step.command}")
            return
        status, printed = self._reader.run(step.command)
        where = f"{block.name}: {step.command}\n{printed}"
        assert not untrue(step.shown, printed), where
        if step.command.startswith("kb ") and not _TROUBLE.search(step.shown):
            assert status == 0, where

    def _read(self, shown: str, where: str) -> None:
        assert self._service is not None
        if shown.startswith(_CTRL_C):
            printed = self.close()
        else:
            printed = self._service.until(lambda so_far: not untrue(shown, so_far))
        assert not untrue(shown.removeprefix(_CTRL_C), printed), f"{where}\n{printed}"


def _goes_on(shown: str) -> bool:
    return "press Ctrl-C to stop" in shown or shown.startswith("watching ")


def _with_models(reader: Reader) -> Reader:
    """Provide the export that the page about models requires. It is small and untrained, so the
    exam is skipped."""
    for folder in (reader.folder, reader.home / "exports"):
        make_tiny_m3.lay(folder / "bge-m3")
    return replace(reader, environment={**reader.environment, "KB_MODELS_EXAM": "false"})


PREPARED: Mapping[str, Callable[[Reader], Reader]] = {"how-to/models.md": _with_models}


def marked(each: Path | Block, name: str, text: str) -> Any:
    return pytest.param(each, id=name, marks=[pytest.mark.slow] if LIBRARY in text else [])


def commands(page: Path) -> str:
    return "".join(block.text for block in blocks(page) if block.language == "console")


@posix
@pytest.mark.parametrize(
    "page",
    [marked(page, str(page.relative_to(REPOSITORY)), commands(page)) for page in SHELL_PAGES],
)
def test_commands_print_what_the_page_says(page: Path, reader: Reader) -> None:
    prepare = PREPARED.get(short_name(page))
    terminals = Terminals(prepare(reader) if prepare else reader)
    try:
        for block in blocks(page):
            terminals.follow(block)
    finally:
        terminals.close()


# --- completeness ---------------------------------------------------------------------------------


def guide_blocks() -> Iterator[Block]:
    for page in guides():
        yield from blocks(page)


def is_run(block: Block) -> bool:
    return bool(block.path) or block.language in ("console", "python") or is_printed(block)


def is_printed(block: Block) -> bool:
    """Whether a program before the block, or a running server, prints it."""
    before = [each for each in blocks(block.page) if each.line < block.line]
    serving = any(_goes_on(step.shown) for each in before for step in _steps(each))
    behind = before and before[-1].language == "python" and printed_by(before[-1]) == block.text
    return block.language == "text" and bool(behind or serving)


def _steps(block: Block) -> Iterator[Step]:
    return steps(block) if block.language == "console" else iter(())


def test_every_block_of_a_guide_is_run_or_has_a_reason_why_not() -> None:
    left = [block.name for block in guide_blocks() if not is_run(block) and not block.has_a_test]
    assert left == []


def test_what_is_not_run_is_there() -> None:
    assert NOT_RUN.keys() <= {block.key for block in guide_blocks()}
    assert ELSEWHERE.keys() <= {(block.key[0], block.language) for block in guide_blocks()}
    assert {
        name for name in ELSEWHERE.values() if not (Path(__file__).parent / name).exists()
    } == set()


def test_what_is_to_be_installed_is_there_to_install() -> None:
    told = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    extras = told["project"]["optional-dependencies"].keys()
    named = [name for page in guides() for found in _EXTRAS.findall(page.read_text("utf-8"))
             for name in found.split(",")]  # fmt: skip
    assert len(named) >= 10
    assert set(named) <= extras


def test_guides_say_where_to_begin() -> None:
    """Each page may be the first that somebody reads."""
    begin = "[install `kb`](../tutorial.md#1-install)"
    without = [page for page in guides() if begin not in prose(page).lower()]
    assert without == [DOCS / "tutorial.md"]


def test_a_file_is_named_where_it_is_shown() -> None:
    """The info string of a fence is not visible on the page."""
    for block in guide_blocks():
        above = prose(block.page).splitlines()[: block.line - 1]
        told = " ".join(" ".join(above).rpartition("  ")[2].split())
        assert not block.path or f"`{block.path}`" in told, block.name


# --- Python ---------------------------------------------------------------------------------------


def printed_by(block: Block) -> str:
    """The output of a program on the page: the `text` block after it, if there is one."""
    after = [each for each in blocks(block.page) if each.line > block.line]
    end = block.line + block.text.count("\n") + 3  # its end, a blank line, the next fence
    return after[0].text if after and (after[0].line, after[0].language) == (end, "text") else ""


def test_no_two_programs_share_a_store() -> None:
    """Tests run them in separate folders; a reader runs them all in one."""
    stores = [{*re.findall(r'KnowledgeBase\("([^"]+)"', each.text)} for each in PROGRAMS]
    named = [name for each in stores for name in each]
    assert len(named) == len(set(named)), sorted(named)


@pytest.mark.parametrize("block", [marked(each, each.name, each.text) for each in PROGRAMS])
def test_programs_run(block: Block, reader: Reader) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=reader.folder,
        env=reader.environment,
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
