"""The client configurations on the page about MCP work with the SDK's client.

Each block of configuration is read as its client reads it, and the command in it is started, or its
address is called. Clients do not share the reader's terminal: there is no `kb` on their path. Only
words are searched here; the scores on the page are not compared.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp import Client, StdioServerParameters
from tests.docs.pages import DOCS, Block, blocks, steps
from tests.docs.reading import INTERRUPTED, Reader
from tests.docs.reading import reader as reader_at
from tests.docs.test_examples import plain
from tests.mcp.conftest import ask, citations

PAGE = DOCS / "how-to" / "mcp.md"
BLOCKS = list(blocks(PAGE))
WORDS = {"KB_MODELS_ENCODER": "none"}  # the model is not tested here
TOOLS = ["search", "fetch", "add", "status"]
QUERY = "what ended the retry storm"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the paths of the page are POSIX")


class Entry(NamedTuple):
    """A server in a client's configuration: a command to start, or an address."""

    name: str
    told: dict[str, Any]

    @property
    def address(self) -> str | None:
        return self.told.get("url") or self.told.get("httpUrl")


def entries() -> Iterator[Entry]:
    for block in BLOCKS:
        if block.language in ("json", "toml"):
            read = json.loads if block.language == "json" else tomllib.loads
            ((form, servers),) = read(block.text).items()
            yield Entry(f"{form}:{block.line}", servers["kb"])
        elif block.language == "sh":
            yield from (Entry(f"claude:{block.line}", told) for told in _claude(block))


def _claude(block: Block) -> Iterator[dict[str, Any]]:
    """`claude mcp add [--scope S] [--transport http] NAME ADDRESS`, or `NAME -- COMMAND ARGS`."""
    for line in block.text.splitlines():
        words = shlex.split(line)
        if words[:3] == ["claude", "mcp", "add"] and "--" in words:
            command, *args = words[words.index("--") + 1 :]
            yield {"command": command, "args": args}
        elif words[:3] == ["claude", "mcp", "add"]:
            assert words[-4:-1] == ["--transport", "http", "kb"]
            yield {"url": words[-1]}


STARTED = [each for each in entries() if not each.address]
ASKED = [each for each in entries() if each.address]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader with the store of the page."""
    reader = reader_at(tmp_path_factory.mktemp("clients"))
    status, printed = reader.run("kb init && kb ingest examples/library", **WORDS)
    assert status == 0, printed
    return reader


def test_the_page_has_every_kind() -> None:
    forms = {entry.name.partition(":")[0] for entry in STARTED}
    assert forms == {"claude", "mcpServers", "servers", "context_servers", "mcp_servers"}
    assert {entry.name.partition(":")[0] for entry in ASKED} == forms


@pytest.mark.parametrize("entry", STARTED, ids=lambda entry: entry.name)
def test_a_client_can_start_it(entry: Entry, reader: Reader) -> None:
    assert entry.told.get("type", "stdio") == "stdio"
    command, *args = (reader.here(word) for word in (entry.told["command"], *entry.told["args"]))
    little = {"HOME": str(reader.home), "PATH": "/usr/bin:/bin", **WORDS}

    async def talk() -> None:
        server = StdioServerParameters(command=command, args=args, env=little, cwd="/")
        async with Client(server) as client:
            await _search_and_fetch(client)

    anyio.run(talk)


def test_clients_can_ask_it(reader: Reader) -> None:
    command = _command("kb mcp --http")
    service = reader.start(command, **WORDS)
    try:
        assert "/mcp\n" in service.until(lambda so_far: so_far.endswith("to stop\n"))
        for entry in ASKED:
            assert entry.address is not None
            assert entry.told.get("type", "http") == "http"
            assert entry.address in (command.replace("kb mcp --http ", "http://") + "/mcp")
            anyio.run(_ask_at, reader.here(entry.address))
    finally:
        status, printed = service.end()
    assert (status, printed) == (INTERRUPTED, "stopped\n")


def _command(start: str) -> str:
    """The first command of the page that begins with `start`."""
    shown = (step for block in BLOCKS if block.language == "console" for step in steps(block))
    return next(step.command for step in shown if step.command.startswith(start))


async def _ask_at(address: str) -> None:
    async with (
        httpx2.AsyncClient(trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        await _search_and_fetch(client)


async def _search_and_fetch(client: Client) -> None:
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == TOOLS
    found = await ask(client, "search", query=QUERY, top=1)
    (cited,) = citations(found)
    assert "exact" in await ask(client, "fetch", citation=cited)
    shown = next(block.text for block in BLOCKS if block.text.startswith("1. library/"))
    assert _without_relevance(shown) in _without_relevance(found)


def _without_relevance(text: str) -> str:
    return re.sub(r"relevance \d\.\d+", "relevance", plain(text))


def test_the_page_says_what_was_asked() -> None:
    assert f"`{QUERY}`" in PAGE.read_text("utf-8")
