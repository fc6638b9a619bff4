"""Agents whose requests take minutes cancel them, disconnect or wait."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from tests import hostile
from tests.mcp.conftest import COMMAND, ask, citations, http_server, over_http, over_stdio, refused

WATCHDOG_S = 60.0
UNLIMITED = {
    "KB_MODELS_ENCODER": "none",
    "KB_SEARCH_TIMEOUT_S": "0",
    "KB_SERVE_REQUEST_TIMEOUT_S": "3600",
}


@pytest.fixture
def store(hostile_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(hostile_store, tmp_path / "kb.sqlite"))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_calls_that_are_cancelled_leave_their_threads(store: Path, transport: str) -> None:
    """There are as many calls as threads, and the next call still gets a response."""

    async def talk(stack: ExitStack) -> None:
        if transport == "stdio":
            connected = over_stdio(store, **UNLIMITED)
        else:
            connected = over_http(stack.enter_context(http_server(store, **UNLIMITED)))
        async with connected as client:

            async def leave() -> None:
                with anyio.move_on_after(1.0):
                    await client.call_tool("search", {"query": hostile.EXPRESSION})

            async with anyio.create_task_group() as others:
                for _ in range(4):
                    others.start_soon(leave)
            with anyio.fail_after(WATCHDOG_S):
                found = await ask(client, "search", query="harbour keys")
            assert citations(found) == ["lib/harbour.txt#L1"]

    with ExitStack() as stack:
        anyio.run(talk, stack)


def test_too_long_is_an_answer(store: Path) -> None:
    async def talk() -> None:
        limits = UNLIMITED | {"KB_SERVE_REQUEST_TIMEOUT_S": "0.2"}
        async with over_stdio(store, **limits) as client:
            told = await refused(client, "search", query=hostile.EXPRESSION)
            assert told.startswith("code: deadline\nmessage: no answer within")
            assert citations(await ask(client, "search", query="harbour keys"))

    anyio.run(talk)


@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
def test_it_tells_its_status_and_ends_while_it_searches(store: Path, end: str) -> None:
    """There are as many searches as threads."""
    if os.name == "nt" and end == "SIGTERM":
        pytest.skip("POSIX signals")
    server = subprocess.Popen(
        [*COMMAND, "--store", str(store), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | UNLIMITED,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    started = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
    searches = [{"jsonrpc": "2.0", "id": 10 + n, "method": "tools/call", "params": {
        "name": "search", "arguments": {"query": hostile.EXPRESSION}}}
        for n in range(4)]  # fmt: skip
    status = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "status", "arguments": {}}}  # fmt: skip
    with server:
        watchdog = threading.Timer(WATCHDOG_S, server.kill)
        watchdog.start()
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for message in (started, initialized, *searches, status):
            server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 0
        assert json.loads(server.stdout.readline())["id"] == 2  # searches do not delay other tools
        if end == "stdin":
            server.stdin.close()
        else:
            server.send_signal(signal.SIGTERM)
        assert server.wait() == (0 if end == "stdin" else -signal.SIGTERM)
        watchdog.cancel()


def _initialize() -> list[dict[str, object]]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def _talk_and_close(store: Path, count: int, **variables: str) -> list[int]:
    """Send slow searches and close stdin at once; return the ids of the replies."""
    params = {"name": "search", "arguments": {"query": hostile.EXPRESSION}}
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        for number in range(1, count + 1)
    ]
    ended = subprocess.run(
        [*COMMAND, "--store", str(store), "mcp"],
        input="".join(json.dumps(each) + "\n" for each in [*_initialize(), *calls]),
        env=os.environ | UNLIMITED | variables,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=True,
    )
    return sorted(json.loads(line)["id"] for line in ended.stdout.splitlines())


def test_requests_are_answered_after_stdin_is_closed(store: Path) -> None:
    """Two rounds of as many requests as threads, each ended by the time limit."""
    variables = {"KB_SERVE_REQUEST_TIMEOUT_S": "0.5", "KB_SERVE_DRAIN_S": "50"}
    assert _talk_and_close(store, 8, **variables) == list(range(9))


def test_requests_do_not_delay_the_end_beyond_the_drain(store: Path) -> None:
    assert 0 in _talk_and_close(store, 4, KB_SERVE_DRAIN_S="0.2")  # the others are canceled
