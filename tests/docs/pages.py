"""The pages of the documentation and their code blocks.

The info string of a fence defines what a block is:

    console         commands after `$ `, continued after `> `, and their output
    text            after a program: its output. While a server runs: what it prints next; after
                    `^C`, what it prints when it stops
    python          a complete program
    LANGUAGE PATH   a file that the following commands need

In output, `[...]` stands for omitted text.

Blocks that need more than that are in `ELSEWHERE`, with the test that runs them. Blocks that no
test can run are in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
HOME = "/home/ada"  # the home folder in the examples
LEFT_OUT = "[...]"

# By page and language.
ELSEWHERE = {
    ("how-to/mcp.md", "json"): "test_clients.py",
    ("how-to/mcp.md", "toml"): "test_clients.py",
    ("how-to/mcp.md", "sh"): "test_clients.py",
    ("how-to/mcp.md", "text"): "test_clients.py",
    ("how-to/watch.md", "ini"): "test_always_on.py",
    ("how-to/watch.md", "xml"): "test_always_on.py",
    ("how-to/ask.md", "toml"): "test_pieces.py",
    ("how-to/code.md", "toml"): "test_pieces.py",
    ("how-to/models.md", "toml"): "test_pieces.py",
    ("how-to/papers.md", "toml"): "test_pieces.py",
}

# By page and first line.
_FETCHES = "it fetches packages, which a test must not; their extras are checked"
_NO_DATABASE = "there is no such server; tests/store/postgres and test_copy have one"
_NO_MANAGER = "it is for the service manager of a whole machine"
NOT_RUN = {
    ("how-to/team.md", "pip install 'kb-search[postgres]'"): _FETCHES,
    ("how-to/team.md", "export KB_STORE=postgresql://kb@db.example.org/team"): _NO_DATABASE,
    ("how-to/team.md", "createdb --encoding=UTF8 --template=template0 team"): _NO_DATABASE,
    ("how-to/team.md", "CREATE ROLE kb_owner LOGIN;"): _NO_DATABASE,
    ("how-to/team.md", "kb copy .kb/kb.sqlite postgresql://kb@db.example.org/team"): _NO_DATABASE,
    (
        "how-to/team.md",
        "pg_dump --schema=kb --format=custom --file=team.dump postgresql://kb@db.example.org/team",
    ): _NO_DATABASE,
    ("how-to/team.md", "kb embed --worker"): "it runs until it is stopped; test_workers runs it",
    ("how-to/team.md", "docker build -t kb ."): "it needs a container engine; test_containers runs"
    " the same commands",
    (
        "how-to/team.md",
        "export KB_STORE=postgresql://kb@db1.example.org,db2.example.org/team",
    ): _NO_DATABASE,
    (
        "how-to/team.md",
        "export KB_STORE='postgresql://kb@db1.example.org,db2.example.org/team"
        "?read=standby&max_lag_s=5'",
    ): _NO_DATABASE,
    (
        "how-to/team.md",
        "kb --store 'postgresql://kb@db.example.org/team?partitions=4' init",
    ): _NO_DATABASE,
    (
        "how-to/team.md",
        "export KB_SHARD_1='postgresql://kb@db1.example.org/team?shard=1/2'",
    ): _NO_DATABASE,
    ("how-to/team.md", 'export KB_STORE="$KB_SHARD_1 $KB_SHARD_2"'): _NO_DATABASE,
    ("how-to/serve.md", "kb token add alice --right write"): "its tokens are random; test_token"
    " runs the commands",
    ("tutorial.md", "python3 -m venv .venv"): _FETCHES,
    ("tutorial.md", "mkdir -p ~/.local/bin"): "the reader of the tests has such a command already",
    ("tutorial.md", "mkdir ~/tidepool"): "the reader of the tests has such a folder already",
    ("how-to/papers.md", "pip install 'kb-search[formats,lang]'"): _FETCHES,
    ("how-to/papers.md", "pip install 'kb-search[ocr]'"): _FETCHES,
    ("how-to/serve.md", "pip install 'kb-search[serve]'"): _FETCHES,
    ("how-to/mcp.md", "pip install 'kb-search[mcp]'"): _FETCHES,
    ("how-to/watch.md", "pip install 'kb-search[watch]'"): _FETCHES,
    ("how-to/models.md", "pip install 'kb-search[multilingual]'"): _FETCHES,
    ("how-to/models.md", "pip install 'kb-search[gpu]'"): _FETCHES,
    ("how-to/models.md", "kb models pull BAAI/bge-m3"): "it contacts a hub; test_hub has its own",
    ("how-to/watch.md", "systemctl --user enable --now kb-watch"): _NO_MANAGER,
    (
        "how-to/watch.md",
        "launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/org.kb.watch.plist",
    ): _NO_MANAGER,
    ("how-to/models.md", "bge-m3/"): "the names of files; a folder with them is laid for the page",
    (
        "how-to/models.md",
        "kb models pull https://models.example.org/m3/model.json --sha256 9f2c...",
    ): "addresses where nothing lies",
    (
        "how-to/evaluate.md",
        "judgments: profile default, 197 settings tried on 60 queries of split test by nDCG@10, "
        "linear gain",
    ): "what fits best hangs on the last digits of vectors, which are others on other processors",
    ("how-to/evaluate.md", "KB_MODELS_ENCODER=none kb eval run --data scifact \\"): (
        "the collection is not part of the repository"
    ),
    ("how-to/evaluate.md", "scifact, split test: 300 queries, linear gain"): (
        "the collection is not part of the repository"
    ),
}

_FENCE = re.compile(r"^(`{3,})(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the number of its fence, from 1."""

    page: Path
    line: int
    language: str
    path: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    @property
    def key(self) -> tuple[str, str]:
        """The key of the block in `NOT_RUN`."""
        return short_name(self.page), self.text.partition("\n")[0]

    @property
    def has_a_test(self) -> bool:
        """Whether another test runs the block, or a reason not to run it is given."""
        return self.key in NOT_RUN or (short_name(self.page), self.language) in ELSEWHERE


class Step(NamedTuple):
    """A command and its output as shown on the page."""

    command: str
    shown: str


def pages() -> list[Path]:
    """All pages, including the generated ones."""
    found = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if page.exists()]


def short_name(page: Path) -> str:
    """The path below docs/, such as `how-to/notes.md`."""
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else REPOSITORY).as_posix()


def guides() -> list[Path]:
    """The pages that readers follow step by step."""
    return [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]


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
    """The page with blank lines in place of its blocks, so that line numbers stay the same."""
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
