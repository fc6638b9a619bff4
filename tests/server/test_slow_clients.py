"""Clients that send slowly or do not read their responses: others are still served, and the
server's memory stays bounded. Real processes and real connections."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from kb import KnowledgeBase
from kb.server.connections import MAX_CONNECTIONS
from tests.server.conftest import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and signals differ")

TOKEN = "a-token-that-is-long-enough"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
MB = 1024 * 1024


@dataclass(frozen=True)
class Process:
    server: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.removesuffix("/mcp").strip("/").rpartition(":")[2])

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def drip(self, stack: ExitStack, count: int, begun: bytes) -> list[socket.socket]:
        """Connections that have sent `begun`, and nothing more."""
        opened = []
        for _ in range(count):
            raw = stack.enter_context(self.connect())
            raw.sendall(begun)
            opened.append(raw)
        return opened

    def stop(self) -> float:
        """How long the server takes to stop."""
        started = time.monotonic()
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(timeout=PATIENCE_S)
        return time.monotonic() - started


@contextmanager
def process(store: Path, *command: str, token: str = "") -> Iterator[Process]:
    environment = os.environ | {"KB_MODELS_ENCODER": "none", "KB_SERVE_TOKEN": token}
    arguments = [sys.executable, "-m", "kb", "--store", str(store), *command]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        try:
            yield Process(server, server.stdout.readline().strip())
        finally:
            server.kill()


SERVE = ("serve", "--port", "0")
MCP = ("mcp", "--http", "127.0.0.1:0")
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_BODY = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"


def ask(running: Process) -> int:
    """The owner's request, on a separate connection."""
    if running.url.endswith("/mcp"):
        answer = httpx.post(running.url, json=_PING, headers=OWNER | _ACCEPT, trust_env=False,
                            timeout=PATIENCE_S)  # fmt: skip
    else:
        answer = httpx.get(f"{running.url}status", headers=OWNER, trust_env=False,
                           timeout=PATIENCE_S)  # fmt: skip
    return answer.status_code


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, encoder="none") as kb:
        kb.add("The spare shackles are in locker 4.")
    return path


@pytest.mark.parametrize("token", ["", TOKEN], ids=["open", "token"])
@pytest.mark.parametrize("command", [SERVE, MCP], ids=["serve", "mcp"])
@pytest.mark.parametrize(
    "begun",
    [b"", b"POST /search HTTP/1.1\r\nHost: loc", b"POST /search HTTP/1.1\r\n" + _BODY,
     b"POST /mcp HTTP/1.1\r\nAccept: application/json, text/event-stream\r\n" + _BODY],
    ids=["nothing", "headers", "body", "mcp body"],
)  # fmt: skip
def test_slow_senders_do_not_lock_others_out(
    store: Path, command: tuple[str, ...], token: str, begun: bytes
) -> None:
    with process(store, *command, token=token) as running, ExitStack() as stack:
        for _ in range(2):
            running.drip(stack, MAX_CONNECTIONS, begun)
            assert [ask(running) for _ in range(5)] == [200] * 5


def test_without_the_token_no_body_is_read(store: Path) -> None:
    head = b"PUT /uploads/a.md HTTP/1.1\r\nX-KB-Request: 1\r\n" + _BODY
    with process(store, *SERVE, token=TOKEN) as running, running.connect() as raw:
        raw.sendall(head)
        answer = b""
        while part := raw.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer


def test_a_client_that_is_still_sending_can_read_the_error(store: Path) -> None:
    with process(store, *SERVE, token=TOKEN) as running:
        answer = httpx.put(
            f"{running.url}uploads/a.md",
            content=iter([b"x" * MB] * 20),
            headers={"X-KB-Request": "1"},
            trust_env=False,
            timeout=PATIENCE_S,
        )
    assert answer.status_code == 401


@pytest.mark.parametrize("command", [SERVE, MCP], ids=["serve", "mcp"])
def test_slow_senders_do_not_delay_shutdown(store: Path, command: tuple[str, ...]) -> None:
    path = b"/mcp" if command is MCP else b"/search"
    with process(store, *command) as running, ExitStack() as stack:
        running.drip(stack, 5, b"")
        running.drip(stack, 5, b"POST " + path + b" HTTP/1.1\r\nHost")
        running.drip(stack, 5, b"POST " + path + b" HTTP/1.1\r\n" + _BODY)
        running.drip(stack, 5, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        running.drip(
            stack, 5, b"PUT /uploads/a.md HTTP/1.1\r\nX-KB-Request: 1\r\n" + _BODY + b"x" * 50_000
        )
        assert ask(running) == 200
        assert running.stop() < 10


# --- memory ---------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A store with one document of 22 MB."""
    path, file = tmp_path / "kb.sqlite", tmp_path / "large.txt"
    line = b"The gateway retries with jitter, and waits a random time before it does.\n"
    file.write_bytes(line * (22 * MB // len(line)))
    with KnowledgeBase(path, encoder="none") as kb:
        kb.ingest(file)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 60])
def test_unread_responses_take_little_memory(large: Path, count: int) -> None:
    asked = b"GET /passages?uri=%s/large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with process(large, *SERVE) as running, ExitStack() as stack:
        with httpx.Client(base_url=running.url, trust_env=False, timeout=PATIENCE_S) as client:
            name = client.get("/documents").json()["documents"][0]["doc_path"].partition("/")[0]
        before = running.memory_mb()
        sockets = running.drip(stack, count, asked % name.encode())
        for raw in sockets:  # each got a response: its document or an error
            raw.recv(1)
        assert running.memory_mb() - before < 500
        assert ask(running) == 200
        assert running.stop() < 15


@pytest.mark.slow
def test_unfinished_uploads_take_little_memory(store: Path) -> None:
    head = b"PUT /uploads/%d.md HTTP/1.1\r\nHost: localhost\r\nX-KB-Request: 1\r\n"
    with process(store, *SERVE) as running, ExitStack() as stack:
        before = running.memory_mb()
        for number in range(40):
            raw = stack.enter_context(running.connect())
            raw.sendall(head % number + b"Content-Length: %d\r\n\r\n" % (64 * MB))
            raw.settimeout(2)
            try:
                for _ in range(63):
                    raw.sendall(b"x" * MB)
            except OSError:  # refused: there are enough
                continue
        assert running.memory_mb() - before < 150
        assert ask(running) == 200
        assert running.stop() < 10
    assert not [path for path in store.parent.rglob("new/*") if path.exists()]
