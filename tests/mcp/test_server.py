"""`kb mcp` with the SDK's own client, in a separate process, over both transports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from kb import KnowledgeBase
from kb.errors import ConfigError, TooBusy
from kb.mcp import server
from kb.mcp.server import address
from kb.server.lifecycle import TOKEN_VARIABLE
from kb.server.memory import MEMORY_KEY, MemoryBudget, RequestMemory
from kb.server.tokens import TokenFile
from kb.types import Identity, Limits
from mcp import Client
from tests.mcp.conftest import (
    COMMAND,
    ask,
    citations,
    http_server,
    over_http,
    over_stdio,
    refused,
    text_of,
)
from tests.replaced import REPLACEMENTS

TOKEN = "a-token-of-many-characters"
Connect = Callable[[Path], AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A client of a server over that store; over HTTP, all share one server."""
    if request.param == "stdio":
        yield over_stdio
        return
    with ExitStack() as stack:
        servers: dict[Path, str] = {}

        @asynccontextmanager
        async def shared(store: Path) -> AsyncIterator[Client]:
            if store not in servers:
                servers[store] = stack.enter_context(http_server(store))
            async with over_http(servers[store]) as client:
                yield client

        yield shared


def test_list_search_fetch_add_search(connect: Connect, store: Path) -> None:
    async def talk() -> None:
        async with connect(store) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["search", "fetch", "add", "status"]
            found = await ask(client, "search", query="what ended the retry storm")
            first, *_ = citations(found)
            assert first.startswith("lib/retry.md#L")
            assert "Jitter ended the retry storm" in await ask(client, "fetch", citation=first)
            added = await ask(client, "add", text="The spare shackles are in locker 4.")
            note = added.splitlines()[0]
            assert note.startswith("note:")
            again = await ask(client, "search", query="spare shackles")
            assert citations(again)[0].startswith(note)
            assert "locker 4" in await ask(client, "fetch", citation=citations(again)[0])
            assert "4 documents" in await ask(client, "status")

    anyio.run(talk)


def test_structured_results(connect: Connect, store: Path) -> None:
    async def talk() -> None:
        async with connect(store) as client:
            (search, *others) = (await client.list_tools()).tools
            assert search.output_schema is not None
            assert not any(tool.output_schema for tool in others)
            result = await client.call_tool("search", {"query": "retry storm", "min_relevance": 0})
            assert result.structured_content is not None
            cited = [hit["citation"] for hit in result.structured_content["hits"]]
            assert cited == citations(text_of(result))
            nothing = await client.call_tool("search", {"query": "storm", "type": ["pdf"]})
            assert nothing.structured_content == {"relevant": False, "hits": []}
            refusal = await refused(client, "search", query="x", min_relevance=2)
            assert "min_relevance cannot be 2" in refusal

    anyio.run(talk)


def test_hints_and_flat_schemas(connect: Connect, store: Path) -> None:
    async def talk() -> None:
        async with connect(store) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            reads = {name: tool.annotations and tool.annotations.read_only_hint
                     for name, tool in tools.items()}  # fmt: skip
            assert reads == {"search": True, "fetch": True, "add": False, "status": True}
            for tool in tools.values():
                assert tool.description
                assert tool.input_schema["additionalProperties"] is False
                for shape in tool.input_schema["properties"].values():
                    assert shape["description"]
                    assert shape["type"] in ("string", "integer", "number", "boolean", "array")
                    assert shape.get("items", {"type": "string"})["type"] == "string"

    anyio.run(talk)


def test_errors_are_answers(connect: Connect, store: Path) -> None:
    async def talk() -> None:
        async with connect(store) as client:
            unknown = await refused(client, "search", query="x", limit=3)
            assert "code: invalid_request" in unknown
            assert "'limit'" in unknown
            assert "hint: parameters of search: query, top" in unknown
            gone = await refused(client, "fetch", citation="lib/nowhere.md#L1")
            assert gone.splitlines() == [
                "code: not_found",
                "message: no document 'lib/nowhere.md'",
                "hint: kb list shows all documents",
            ]
            assert "needs query" in await refused(client, "search")
            assert "unknown tool 'remove'" in await refused(client, "remove")
            # The server keeps running.
            assert citations(await ask(client, "search", query="battery"))

    anyio.run(talk)


def test_eight_clients_at_once(connect: Connect, store: Path) -> None:
    """Each has its own connection; over stdio, eight processes write to one store."""
    done: list[int] = []

    async def talk(number: int) -> None:
        async with connect(store) as client:
            for turn in range(3):
                word = f"keyword{number}x{turn}"
                await ask(client, "add", text=f"A note about {word}.")
                (cited,) = citations(await ask(client, "search", query=word, mode="lexical"))
                assert word in await ask(client, "fetch", citation=cited)
            done.append(number)

    async def all_together() -> None:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(talk, number)

    anyio.run(all_together)
    assert sorted(done) == list(range(8))
    with KnowledgeBase(store) as kb:
        assert kb.status()["by_type"]["note"] == 24
        assert kb.doctor().healthy


# --- stdio ----------------------------------------------------------------------------------------


def test_stdout_carries_the_protocol_alone(store: Path) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "fetch", "arguments": {"citation": "nowhere.md"}}},
    ]  # fmt: skip
    done = subprocess.run(
        [*COMMAND, "-v", "--store", str(store), "mcp"],
        input="".join(json.dumps(each) + "\n" for each in asked),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["id"] for answer in answers} == {1, 2}
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)


_UNREADABLE = [
    (b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"search",'
     b'"arguments":{"query":"\\ud800"}}}', "invalid_request"),
    (b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"\\udfff"}}',
     "invalid_request"),
    (b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"search",'
     b'"arguments":{"query":NaN,"\\ud800":1}}}', "invalid_request"),
    (b'{"jsonrpc":"2.0","id":"%s","method":"\\ud800"}', "-32600"),
    (b'{"jsonrpc":"2.0","id":"%s","method":7}', "-32600"),
]  # fmt: skip
_UNKNOWN = [
    b"{", b"\xff\xfe", b"[]", b"[" * 5000, b'"text"',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"p"}',
]  # fmt: skip


_INVALID_IDS = [
    "1.5",
    "1.0",
    "-0.0",
    "1e400",
    "true",
    "false",
    "null",
    "{}",
    '{"id": 1}',
    "[]",
    "[7]",
]
_WITH_INVALID_IDS = [
    f'{{"jsonrpc": "2.0", "id": {each}, "method": "{method}"}}'.encode()
    for each in _INVALID_IDS
    for method in ("ping", "tools/list", "tools/call")
]


def test_lines_that_are_no_messages_are_answered(store: Path) -> None:
    """No client waits forever, and the next request is answered too."""
    server = subprocess.Popen(
        [*COMMAND, "--store", str(store), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    started = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
    with server:

        def ask(line: bytes) -> dict[str, Any]:
            server.stdin.write(line + b"\n")  # type: ignore[union-attr]  # it is a pipe
            server.stdin.flush()  # type: ignore[union-attr]
            answer: dict[str, Any] = json.loads(server.stdout.readline())  # type: ignore[union-attr]
            return answer

        watchdog = threading.Timer(60, server.kill)
        watchdog.start()
        ask(json.dumps(started).encode())
        server.stdin.write(b'\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/\\ud800"}\n')
        for number, (line, code) in enumerate(_UNREADABLE):
            answer = ask(line % str(number).encode())
            assert answer["id"] == str(number)
            assert code in json.dumps(answer)
        for line in _UNKNOWN:
            answer = ask(line)
            assert (answer["id"], answer["error"]["code"] < -32000) == (None, True)
        for line in _WITH_INVALID_IDS:
            answer = ask(line)
            assert (answer["id"], answer["error"]["code"]) == (None, -32600), line
            assert "a string or an integer as its id" in answer["error"]["message"]
        assert ask(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')["id"] == 9
        watchdog.cancel()


def test_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    async def talk() -> None:
        async with over_stdio(tmp_path / "new" / "kb.sqlite") as client:
            assert "code: store_missing" in await refused(client, "search", query="anything")
            await ask(client, "add", text="The first note.")
            assert citations(await ask(client, "search", query="first"))

    anyio.run(talk)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on Windows")
def test_ctrl_c_ends_it(store: Path) -> None:
    """The server ends even while it waits for stdin."""
    server = subprocess.Popen(
        [*COMMAND, "--store", str(store), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    server.stdin.flush()
    assert server.stdout.readline()
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) != 0
    server.stdin.close()
    server.stdout.close()


def test_options_of_http_need_it(store: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--store", str(store), "mcp", "--token-file", "x"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--http" in done.stderr


# --- HTTP: access ---------------------------------------------------------------------------------

_ASKED = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_TAKES = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_other_sites_are_kept_out(store: Path, headers: dict[str, str], status: int) -> None:
    with http_server(store) as url:
        sent = {"Content-Type": "application/json", **_TAKES, **headers}
        answer = httpx.post(url, content=json.dumps(_ASKED), headers=sent, trust_env=False)
    assert answer.status_code == status
    assert (answer.json().get("code") is None) == (status == 200)


def test_there_is_no_stream_to_listen_to(store: Path) -> None:
    """It would stay open without any messages."""
    with http_server(store) as url:
        answer = httpx.get(url, headers={"Accept": "text/event-stream"}, trust_env=False)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_where_there_is_a_token_it_is_needed(store: Path) -> None:
    async def talk(url: str) -> None:
        async with over_http(url, Authorization=f"Bearer {TOKEN}") as client:
            assert citations(await ask(client, "search", query="battery"))

    with http_server(store, **{TOKEN_VARIABLE: TOKEN}) as url:
        answer = httpx.post(url, json=_ASKED, headers=_TAKES, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "token_needed")
        anyio.run(talk, url)


def test_the_audit_log_tells_refused_writes_from_accepted_ones(store: Path, tmp_path: Path) -> None:
    file, log = TokenFile(tmp_path / "private" / "tokens.json"), tmp_path / "audit.jsonl"
    tokens = [
        file.add(Identity("reader", "read"), 0.0),
        file.add(Identity("project", "write", Limits(scopes=("project",))), 0.0),
        file.add(Identity("writer", "write"), 0.0),
    ]
    variables = {"KB_SERVE_TOKENS": str(file.path), "KB_SERVE_AUDIT_LOG": str(log)}

    async def talk(url: str) -> None:
        for token in tokens:
            async with over_http(url, Authorization=f"Bearer {token}") as client:
                await client.call_tool("add", {"text": "A secret text."})
                await client.call_tool("search", {"query": "battery"})
                await client.call_tool("add", {"text": 5})

    with http_server(store, **variables) as url:
        anyio.run(talk, url)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    facts = [(each["token"], each["tool"], each["status"], each.get("document")) for each in lines]
    assert facts == [
        ("reader", "add", 403, None),
        ("reader", "add", 403, None),
        ("project", "add", 403, None),
        ("project", "add", 422, None),
        ("writer", "add", 200, "note:4"),
        ("writer", "add", 422, None),
    ]
    assert "secret" not in log.read_text()


def test_other_machines_need_a_token(store: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--store", str(store), "mcp", "--http", "0.0.0.0:0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "no token is set" in done.stderr


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:8766", ("127.0.0.1", 8766)),
        (":9", ("127.0.0.1", 9)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_an_address(text: str, parts: tuple[str, int]) -> None:
    assert address(text) == parts


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "a:b", "::1:80", "x:65536"])
def test_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        address(text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX files")
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "huge"])
def test_what_takes_a_files_place_holds_fetch_up_no_more(
    store: Path, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "lib" / "retry.md"
    file.unlink()
    make, reason = REPLACEMENTS[kind]
    make(file)

    async def talk() -> None:
        with anyio.fail_after(60):
            async with over_stdio(store) as client:
                answer = text_of(await client.call_tool("fetch", {"citation": "lib/retry.md"}))
        assert f"(stale: its file was not read: {reason})" in answer
        assert "Jitter ended the retry storm." in answer
        assert "nobody" not in answer

    anyio.run(talk)


def test_http_bodies_are_checked_before_they_are_parsed(store: Path) -> None:
    """A megabyte of small objects would take a hundred megabytes."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    many = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "x": [' + b"{}," * 340_000 + b"{}]}"
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    with http_server(store) as address, httpx.Client(headers=headers, trust_env=False) as client:
        refused = client.post(address, content=many)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        assert "10,000 lists and objects" in refused.json()["message"]
        too_large = client.post(address, content=b'"' + b"x" * (1024 * 1024) + b'"')
        assert (too_large.status_code, too_large.json()["code"]) == (413, "too_large")
        assert client.post(address, content=ping).status_code == 200


def test_http_requests_with_an_invalid_id_are_answered(store: Path) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with http_server(store) as address, httpx.Client(headers=headers, trust_env=False) as client:
        for version in ("2025-06-18", "2026-07-28"):
            for body in _WITH_INVALID_IDS:
                answer = client.post(
                    address, content=body, headers={"MCP-Protocol-Version": version}
                )
                assert answer.status_code == 400, body
                shape = answer.json()
                assert (shape["id"], shape["error"]["code"]) == (None, -32600), body
        notification = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
        assert client.post(address, content=notification).status_code == 202
        ping = b'{"jsonrpc": "2.0", "id": "1.5", "method": "ping"}'
        assert client.post(address, content=ping).json()["id"] == "1.5"


def test_parsed_http_bodies_count_against_the_budget() -> None:
    keys = json.dumps(dict.fromkeys(map(str, range(50_000)), 1)).encode()
    budget = MemoryBudget(10_000_000)

    async def receive() -> Any:
        return {"type": "http.request", "body": keys, "more_body": False}

    async def parse(*_: Any) -> None:
        raise AssertionError("parsed")

    async def send() -> None:
        with budget.reservation() as other, budget.reservation() as body:
            budget.grow(other, 1)
            memory = RequestMemory(budget, body, body)
            scope = {"type": "http", "method": "POST", "headers": [], MEMORY_KEY: memory}
            app: Any = server._check_bodies(parse, len(keys))
            with pytest.raises(TooBusy):
                await app(scope, receive, None)

    anyio.run(send)
