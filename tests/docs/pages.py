"""The pages of the documentation, and the blocks of code in them.

How a block is meant, by the words behind its fence:

    console         commands after `$ `, `> ` where one goes on, and what they print
    python          a program of its own; a `text` block right behind it is what it prints
    LANGUAGE PATH   a file of the reader's, which is there for the commands that follow

In what is printed, `[...]` stands for something that was left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
READER = "/home/ada/tidepool"  # the folder that the pages are about
LEFT_OUT = "[...]"

_FENCE = re.compile(r"^(`{3,})(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is where its fence stands, from 1."""

    page: Path
    line: int
    language: str
    path: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


class Step(NamedTuple):
    """A command and what the page says it prints."""

    command: str
    shown: str


def pages() -> list[Path]:
    """All pages that people read, the generated ones included."""
    found = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if page.exists()]


def blocks(page: Path) -> Iterator[Block]:
    fence, about, start, inside = "", "", 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        found = _FENCE.match(line)
        if not fence and found:
            fence, about, start, inside = found[1], found[2], number, []
        elif fence and line == fence:
            language, _, path = about.partition(" ")
            yield Block(page, start, language, path, "\n".join(inside) + "\n")
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"{page}:{start}: a block without an end"


def prose(page: Path) -> str:
    """The page with its blocks blank, so that lines keep their numbers."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        count = block.text.count("\n") + 2
        lines[block.line - 1 : block.line - 1 + count] = [""] * count
    return "\n".join(lines)


def steps(block: Block) -> Iterator[Step]:
    command, shown = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step(command, "\n".join(shown))
            command, shown = line[2:], []
        elif line.startswith("> ") and not shown:
            command += "\n" + line[2:]
        else:
            shown.append(line)
    yield Step(command, "\n".join(shown))
