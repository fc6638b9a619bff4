"""Searches that take minutes on a real server: it still serves others, and it stops."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import KnowledgeBase
from tests import hostile
from tests.server.conftest import PATIENCE_S, Running, settings, start

WATCHDOG_S = 60.0
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
Open = Callable[..., Running]


@pytest.fixture
def store(hostile_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(hostile_store, tmp_path / "kb.sqlite"))


@pytest.fixture
def serve_it(store: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def opened(**limits: Any) -> Running:
            kb = stack.enter_context(
                KnowledgeBase(store, config=settings(**limits), encoder="none")
            )
            running = start(kb, None, ())
            stack.callback(running.stop)
            stack.callback(running.client.close)
            return running

        yield opened


def leave(url: str, path: str = "/search", query: str = hostile.EXPRESSION) -> None:
    """Send a request, and disconnect before the response."""
    with suppress(httpx.TimeoutException):
        httpx.post(url + path, json={"query": query}, timeout=httpx.Timeout(PATIENCE_S, read=0.3))


def test_too_long_is_an_error_with_a_code(serve_it: Open) -> None:
    running = serve_it(request_timeout_s=0.1)
    for answer in (
        running.client.post("/search", json={"query": hostile.EXPRESSION}),
        running.client.get("/search/compare-methods", params={"q": hostile.EXPRESSION}),
    ):
        assert answer.status_code == 504
        assert answer.json()["code"] == "deadline"
        assert "serve.request_timeout_s" in answer.json()["hint"]


def test_eight_that_take_long_leave_room_for_others(serve_it: Open) -> None:
    running = serve_it(request_timeout_s=1.0)
    with ThreadPoolExecutor(8) as others:
        asked = [
            others.submit(running.client.post, "/search", json={"query": hostile.EXPRESSION})
            for _ in range(8)
        ]
        answers = {each.result().status_code for each in asked}
    assert answers <= {504, 503}  # a queued one was never started
    assert running.search("harbour keys")["returned"] > 0


def test_clients_that_leave_stop_their_searches(serve_it: Open) -> None:
    running = serve_it(request_timeout_s=3600.0, searches_at_once=2)
    with ThreadPoolExecutor(4) as leaving:
        list(leaving.map(leave, [running.url] * 4))
    assert running.search("harbour keys")["returned"] > 0
    context = running.app.state.context
    while context.searches.task_count:  # including those that were running
        threading.Event().wait(0.01)


def test_more_highlights_than_a_page_has(serve_it: Open) -> None:
    client = serve_it().client
    asked = {"query": "harbour", "texts": ["the harbour"] * 2000}
    assert len(client.post("/search/highlights", json=asked).json()["ranges"]) == 2000
    refused = client.post("/search/highlights", json=asked | {"texts": ["a"] * 2001})
    assert (refused.status_code, refused.json()["hint"]) == (422, "send at most 2,000")


def test_evaluations_are_in_no_others_way(serve_it: Open) -> None:
    """Each runs for minutes while its client waits."""
    running = serve_it(searches_at_once=1)
    judged = {"queries": {"q": hostile.EXPRESSION}, "qrels": {"q": {"lib/harbour.txt": 1}}}
    with ThreadPoolExecutor(2) as others:
        wait = httpx.Timeout(PATIENCE_S, read=2.0)
        asked = [
            others.submit(httpx.post, f"{running.url}/search/evaluate", json=judged, timeout=wait)
            for _ in range(2)
        ]
        while running.app.state.context.evaluations.task_count < 2:
            threading.Event().wait(0.01)
        assert running.search("harbour keys")["returned"] > 0
        assert all(isinstance(each.exception(), httpx.ReadTimeout) for each in asked)
    for name in ("methods", "measures"):
        refused = running.client.post("/search/evaluate", json=judged | {name: ["x"] * 21})
        assert (refused.status_code, refused.json()["hint"]) == (422, "send at most 20")


# --- shutdown -------------------------------------------------------------------------------------


@contextmanager
def process(store: Path, *command: str, **variables: str) -> Iterator[tuple[Any, str]]:
    """A server in a separate process, and its address."""
    environment = os.environ | {"KB_MODELS_ENCODER": "none", "KB_SEARCH_TIMEOUT_S": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "kb", "--store", str(store), *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment | {"KB_SERVE_REQUEST_TIMEOUT_S": "3600"} | variables,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().strip().rstrip("/")
        finally:
            server.kill()


@contextmanager
def asking(url: str, count: int = 4) -> Iterator[None]:
    """Clients that wait for a response that takes minutes; started on entry."""
    sockets = []
    host, _, port = url.removeprefix("http://").rpartition(":")
    body = b'{"query": "' + hostile.EXPRESSION.encode() + b'"}'
    for _ in range(count):
        client = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        head = f"POST /search HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        sockets.append(client)
    try:
        while "kb_searches_taken 4" not in httpx.get(f"{url}/metrics", timeout=PATIENCE_S).text:
            threading.Event().wait(0.05)
        yield
    finally:
        for client in sockets:
            client.close()


@posix
def test_sigterm_ends_the_server_whatever_it_does(store: Path) -> None:
    with process(store, "serve", "--port", "0", KB_SERVE_DRAIN_S="0.5") as (server, url):
        with asking(url):
            server.send_signal(signal.SIGTERM)
            _, told = server.communicate(timeout=WATCHDOG_S)
        assert server.returncode == 0
        assert "abandoned" not in told
        assert "Traceback" not in told
    assert not os.path.exists(f"{store}.sock")


@posix
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(store: Path, second: signal.Signals) -> None:
    served = process(store, "serve", "--port", "0", KB_SERVE_DRAIN_S="3600")
    with served as (server, url), asking(url):
        server.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0.5)  # it waits for the clients
        server.send_signal(second)
        assert server.wait(WATCHDOG_S) == 128 + second


@posix
@pytest.mark.slow
def test_sigterm_ends_an_ingest_between_two_files(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(2000):
        (folder / f"{number}.md").write_text(f"# {number}\n\n" + "Some words.\n\n" * 40)
    command = ("serve", "--port", "0", "--ingest-from", str(folder))
    with process(store, *command, KB_SERVE_DRAIN_S="0.2") as (server, url):
        asked = {"paths": [str(folder)]}
        with ThreadPoolExecutor(1) as client, KnowledgeBase(store, encoder="none") as kb:
            answer = client.submit(httpx.post, f"{url}/ingest", json=asked, timeout=PATIENCE_S)
            while len(kb.documents(limit=4)) < 4:
                threading.Event().wait(0.01)
            server.send_signal(signal.SIGTERM)
            assert server.wait(WATCHDOG_S) == 0
            assert answer.result().json()["code"] == "cancelled"
            assert len(kb.documents()) < 2000


@posix
@pytest.mark.slow
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("mcp", "--http", "127.0.0.1:0")])
def test_work_that_cannot_be_stopped_is_abandoned(store: Path, command: tuple[str, ...]) -> None:
    """An endpoint that accepts texts to embed and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        address = f"http://127.0.0.1:{endpoint.getsockname()[1]}/v1"
        variables = {
            "KB_MODELS_ENCODER": "endpoint",
            "KB_MODELS_ENDPOINT_URL": address,
            "KB_MODELS_ENDPOINT_MODEL": "m",
            "KB_MODELS_ENDPOINT_TIMEOUT_S": "3600",
        }
        with process(store, *command, **variables) as (server, _):
            endpoint.settimeout(PATIENCE_S)
            waiting, _ = endpoint.accept()  # the worker has connected
            with waiting:
                server.send_signal(signal.SIGTERM)
                _, told = server.communicate(timeout=WATCHDOG_S)
            assert (server.returncode, "abandoned" in told) == (1, True)
    with KnowledgeBase(store, encoder="none") as kb:
        assert kb.doctor().healthy
