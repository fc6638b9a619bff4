"""Servers for the SDK's own client, over both transports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from kb import KnowledgeBase
from mcp import Client, StdioServerParameters

COMMAND = (sys.executable, "-W", "error", "-m", "kb")
FILES = {
    "retry.md": "# The retry storm\n\nIt began with a gateway.\n\n## What ended it\n\n"
    "Jitter ended the retry storm. Every gateway waits a random time.\n",
    "battery.md": "---\ntags: [hardware, field]\nkind: lesson\n---\n# Battery\n\n"
    "Cold nights drain the battery of a buoy.\n",
    "odd name #1.md": "# Odd\n\nA percent sign % in the harbour.\n",
}
_CITED = re.compile(r"^\d+\. (\S+)$", re.MULTILINE)


@pytest.fixture
def store(tmp_path: Path, library: Callable[..., Path]) -> Path:
    """A store with three documents."""
    path = tmp_path / "store" / "kb.sqlite"
    with KnowledgeBase(path) as kb:
        kb.ingest(library(FILES))
    return path


@asynccontextmanager
async def over_stdio(store: Path, **variables: str) -> AsyncIterator[Client]:
    """A client with its own server process."""
    command, *args = *COMMAND, "--store", str(store), "mcp"
    environment = dict(os.environ) | variables
    async with Client(StdioServerParameters(command=command, args=args, env=environment)) as client:
        yield client


@contextmanager
def http_server(store: Path, *options: str, **variables: str) -> Iterator[str]:
    """The address of a server process that many clients share."""
    command = [*COMMAND, "--store", str(store), "mcp", "--http", "127.0.0.1:0", *options]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | variables
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate(timeout=60)


@asynccontextmanager
async def over_http(address: str, **headers: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


# --- calls ----------------------------------------------------------------------------------------


async def ask(client: Client, tool: str, **arguments: Any) -> str:
    """Call the tool and return its result; an error fails the test."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return text_of(result)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return text_of(result)


def text_of(result: Any) -> str:
    (content,) = result.content
    text: str = content.text
    return text


def citations(answer: str) -> list[str]:
    return _CITED.findall(answer)
