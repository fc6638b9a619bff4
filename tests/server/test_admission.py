"""Requests beyond capacity are refused at once, and searches do not delay health checks."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb import KnowledgeBase
from kb.config import ServeConfig
from kb.errors import TooBusy
from kb.mcp.server import create_app as create_mcp_app
from kb.server.admission import Admission
from kb.server.guard import AccessRules, Guard
from kb.server.metrics import Metrics
from kb.server.start_queue import StartQueue
from tests.server.conftest import PATIENCE_S, Running, Serve, taken

LIMIT = 3


# --- slots ----------------------------------------------------------------------------------------


def test_paths_with_the_same_first_segment_share_a_limit() -> None:
    admission = Admission(1, ["/search", "/search/highlights", "/documents/{path:path}"])
    with admission.slot("/search") as first, admission.slot("/documents/a/b.md") as other:
        first.take()
        other.take()
        with admission.slot("/search/highlights") as second, pytest.raises(TooBusy):
            second.check()
    with admission.slot("/search/highlights") as again:
        again.take()


def test_paths_without_a_route_share_a_limit() -> None:
    admission = Admission(1, ["/search"])
    with admission.slot("/a") as first:
        first.take()
        with admission.slot("/b") as second, pytest.raises(TooBusy):
            second.take()


# --- the guard ------------------------------------------------------------------------------------


class Exchange:
    """One request to an ASGI application; `finish` ends its body."""

    def __init__(self, app: ASGIApp, path: str, *, body: bool = False) -> None:
        self._body: asyncio.Queue[Message] = asyncio.Queue()
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        headers = [(b"host", b"localhost"), (b"x-kb-request", b"1")]
        scope: Scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
                        "query_string": b"",
                        "headers": headers + [(b"content-length", b"2")] * body}  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._body.get, self._send))

    def finish(self) -> None:
        self._body.put_nowait({"type": "http.request", "body": b"{}", "more_body": False})

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])


class Endless:
    """An application that reads the body and never responds."""

    def __init__(self) -> None:
        self.complete = 0

    async def __call__(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        if (await receive())["type"] == "http.request":
            self.complete += 1
            await asyncio.Event().wait()


def guard(app: ASGIApp) -> Guard:
    admission = Admission(LIMIT, ["/search", "/health"])
    return Guard(app, AccessRules(), Metrics(), ServeConfig(), admission)


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_complete_requests_beyond_the_limit_are_refused() -> None:
    async def run() -> None:
        app = Endless()
        guarded = guard(app)
        slow = [Exchange(guarded, "/search", body=True) for _ in range(5 * LIMIT)]
        await turns()
        assert [each.status for each in slow] == [0] * len(slow)  # they only send slowly
        for each in slow:
            each.finish()
        await turns()
        assert app.complete == LIMIT
        assert sorted(each.status for each in slow) == [0] * LIMIT + [503] * (4 * LIMIT)
        refused = next(each for each in slow if each.status)
        assert refused.headers[b"retry-after"] == b"1"

        late = Exchange(guarded, "/search", body=True)  # refused before its body arrives
        health = Exchange(guarded, "/health", body=True)
        health.finish()
        await turns()
        assert (late.status, health.status, app.complete) == (503, 0, LIMIT + 1)

        for each in slow:  # a finished request frees its slot
            each.task.cancel()
        await turns()
        again = Exchange(guarded, "/search", body=True)
        again.finish()
        await turns()
        assert (again.status, app.complete) == (0, LIMIT + 2)
        for each in (health, again):
            each.task.cancel()
        await turns()

    asyncio.run(run())


def test_mcp_has_the_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Admission, "take", lambda _, segment: seen.append(segment))
    monkeypatch.setattr(Admission, "release", lambda *_: None)

    async def ask(app: ASGIApp) -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/mcp", headers={"X-KB-Request": "1"})).status_code

    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        assert asyncio.run(ask(create_mcp_app(kb, AccessRules()))) == 405
    assert seen == ["mcp"]


# --- the order of starts --------------------------------------------------------------------------


def test_a_few_requests_start_in_a_turn_and_health_checks_before_them() -> None:
    async def run() -> list[str]:
        starts, order = StartQueue(frozenset({"/health"}), 4), list[str]()

        async def request(name: str, path: str) -> None:
            await starts.wait(path)
            order.append(name)

        tasks = [asyncio.ensure_future(request(str(n), "/search")) for n in range(300)]
        tasks[7].cancel()
        await asyncio.sleep(0)
        assert len(order) == 4
        tasks.append(asyncio.ensure_future(request("health", "/health")))
        before = 0
        while len(order) < 300:
            await asyncio.sleep(0)
            assert len(order) - before <= 5
            before = len(order)
        await asyncio.wait(tasks)
        return order

    order = asyncio.run(run())
    assert order.index("health") <= 8
    order.remove("health")
    assert order == [str(n) for n in range(300) if n != 7]


# --- a real server --------------------------------------------------------------------------------


def pipeline(running: Running, count: int) -> bytes:
    """Everything the server sends for `count` searches that are sent at once."""
    body = json.dumps({"query": "retry", "mode": "lexical"}).encode()
    head = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    last = request.replace(b"Host:", b"Connection: close\r\nHost:")
    answer = b""
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as client:
        client.sendall(request * (count - 1) + last)
        while part := client.recv(65536):
            answer += part
    return answer


def test_a_refusal_ends_the_connection_with_its_further_requests(serve: Serve) -> None:
    running = serve(max_waiting=1, searches_at_once=1)
    with taken(running.app.state.context.local_searches, 2):
        answer = pipeline(running, 20).lower()
        assert answer.count(b"http/1.1 503") == answer.count(b"http/1.1") == 1
        assert b"retry-after: 1\r\n" in answer
        assert b"connection: close\r\n" in answer
        assert running.client.get("/health").status_code == 200
    assert running.client.get("/health").status_code == 200


def test_further_requests_are_answered_in_their_order(filled: Running) -> None:
    assert pipeline(filled, 5).count(b"HTTP/1.1 200") == 5


def test_busy_threads_leave_the_interpreter_to_the_event_loop(serve: Serve) -> None:
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    running = serve()
    assert sys.getswitchinterval() < before / 10
    assert gc.get_threshold()[0] >= 50_000
    running.stop()
    assert sys.getswitchinterval() == before
    assert gc.get_threshold() == thresholds
