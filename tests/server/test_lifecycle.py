"""The server itself: its address, errors at startup, slow clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from kb import KnowledgeBase
from kb.errors import ConfigError
from kb.server.api import create_app
from kb.server.lifecycle import ingest_folders, is_loopback, read_token, rules_for
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.models.weightless import Weightless
from tests.schemas import validator
from tests.server.conftest import FILES, PATIENCE_S, Running, Serve

TOKEN = "a-token-that-is-long-enough"
POST = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


# --- addresses and access -------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    rules = rules_for(host, None, "")
    assert (rules.open, rules.token) == (False, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "kb.example.org", "", "::2"])
def test_another_address_needs_a_token(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match="token"):
        rules_for(host, None, "")
    rules = rules_for(host, TOKEN, "kb.example.org, other")
    assert rules.open
    assert {"kb.example.org", "other"} <= rules.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_the_command_refuses_to_start_without_a_token(run: Run, tmp_path: Path, host: str) -> None:
    done = run("serve", "--host", host, "--store", str(tmp_path / "kb.sqlite"))
    assert done.status == 2
    assert "token" in done.err
    assert not (tmp_path / "kb.sqlite").exists()


def test_without_the_extra_the_error_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("kb.server.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = run("serve", "--store", str(tmp_path / "kb.sqlite"))
    assert done.status == 2
    assert "kb-search[serve]" in done.err


def test_a_bug_is_logged_and_not_shown_to_the_client(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serve()
    monkeypatch.setattr(KnowledgeBase, "tags", lambda _: 1 / 0)
    answer = running.client.get("/tags")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "Zero" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_a_port_in_use_is_reported(run: Run, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port), "--store", str(tmp_path / "kb.sqlite"))
    assert done.status == 2
    assert f"port {port}" in done.err


def test_the_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_SERVE_TOKEN", raising=False)
    assert read_token("") is None
    monkeypatch.setenv("KB_SERVE_TOKEN", TOKEN)
    assert read_token("") == TOKEN
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}-of-the-file\n", encoding="utf-8")
    assert read_token(str(file)) == f"{TOKEN}-of-the-file"


@pytest.mark.parametrize("token", ["short", "with a ü that headers cannot carry", "a" * 15])
def test_an_invalid_token(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_SERVE_TOKEN", token)
    with pytest.raises(ConfigError) as refused:
        read_token("")
    assert token not in str(refused.value.to_dict())


def test_a_missing_token_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_token(str(tmp_path / "nothing"))


def test_folders_to_ingest_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ingest_folders("") == (tmp_path,)
    assert ingest_folders("/a, /b") == (Path("/a"), Path("/b"))
    monkeypatch.chdir(tmp_path.anchor)
    assert ingest_folders("") == ()


# --- large and slow requests ----------------------------------------------------------------------


def connected(running: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S)


def answer_to(raw: socket.socket) -> bytes:
    parts = []
    while part := raw.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_body_that_declares_a_large_size_is_not_read(serve: Serve) -> None:
    running = serve(max_body_bytes=1000)
    with connected(running) as raw:
        raw.sendall(POST + b"Content-Length: 1001\r\nConnection: close\r\n\r\n")
        told = answer_to(raw)
    assert told.startswith(b"HTTP/1.1 413")
    assert b'"too_large"' in told


def test_a_large_body_without_a_declared_size_is_cut_off(serve: Serve) -> None:
    running = serve(max_body_bytes=1000)

    def parts() -> list[bytes]:
        return [b"x" * 600] * 5

    sent = {"Content-Type": "application/json"}
    answer = running.client.post("/search", content=iter(parts()), headers=sent)
    assert answer.status_code == 413


def test_a_late_body_times_out(serve: Serve) -> None:
    running = serve(client_timeout_s=0.2)
    with connected(running) as raw:
        raw.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        told = raw.recv(65536)
    assert told.startswith(b"HTTP/1.1 408")
    assert running.client.get("/health").status_code == 200


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET /health HTTP/1.1\r\nHost: local"])
def test_late_headers_time_out(serve: Serve, begun: bytes) -> None:
    running = serve(client_timeout_s=0.2)
    with connected(running) as raw:
        raw.sendall(begun)
        assert answer_to(raw) == b""  # closed


def test_late_headers_of_a_second_request_time_out(serve: Serve) -> None:
    running = serve(client_timeout_s=0.5)
    with connected(running) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        told = answer_to(raw)
    assert told.count(b"HTTP/1.1 200") == 1


def test_headers_have_a_limit(filled: Running) -> None:
    with connected(filled) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000)
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + GET + b"\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        POST + b"Content-Length: 5, 6\r\n\r\n{}",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: +5\r\n\r\n{}",
        POST + b"Content-Length: 1" + b"0" * 5000 + b"\r\n\r\n{}",
        POST + b"Transfer-Encoding: gzip\r\n\r\n{}",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n{}",
        GET + b"X-Nul: a\0b\r\n\r\n",
        GET + b"X Space: a\r\n\r\n",
        GET + b"X-Line: a\r\n folded\0\r\n\r\n",
        GET + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n",
        GET + b"X-Long: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
        b"\0" * 100,
    ],
)
def test_invalid_http_is_refused(filled: Running, sent: bytes) -> None:
    """Also requests that a proxy and the server could parse differently."""
    with connected(filled) as raw:
        raw.sendall(sent)
        told = answer_to(raw)
    assert told.startswith(b"HTTP/1.1 400"), told
    assert told.count(b"HTTP/1.1 ") == 1  # what follows is not treated as a request
    head, _, body = told.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    validator("error.v1").validate(json.loads(body))
    assert filled.client.get("/health").status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//[", "http://a]b", "\x7f", "["])
def test_an_invalid_origin_is_refused(filled: Running, origin: str) -> None:
    answer = filled.client.get("/status", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign")


@pytest.mark.parametrize("depth", [70, 900, 947, 2_000])
def test_a_body_that_is_nested_deeply_is_refused(filled: Running, depth: int) -> None:
    """It could be parsed and stored, but not serialized in a list of documents."""
    for opening, closing in ((b'{"a":', b"}"), (b"[", b"]")):
        nested = b'{"a":' + opening * depth + b"1" + closing * depth + b"}"
        body = b'{"text": "x", "metadata": ' + nested + b"}"
        sent = {"Content-Type": "application/json"}
        answer = filled.client.post("/documents", content=body, headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert filled.client.get("/documents").status_code == 200


def test_many_small_lists_are_refused(filled: Running) -> None:
    body = b'{"text": "x", "metadata": {"a": [' + b"[]," * 100_000 + b"[]]}}"
    sent = {"Content-Type": "application/json"}
    answer = filled.client.post("/documents", content=body, headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    text = "[[{{" * 10_000  # brackets inside a string do not count
    assert filled.client.post("/documents", json={"text": text}).status_code == 201


MANY_FILES = 4_000  # many more than are written together


def test_a_disconnect_stops_the_ingest_between_two_files(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(MANY_FILES):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nText.\n", encoding="utf-8")
    running = serve(ingest_from=(folder,))
    body = b'{"paths": ["%s"]}' % str(folder).encode()
    with connected(running) as raw:
        raw.sendall(POST.replace(b"/search", b"/ingest"))
        raw.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        while not running.kb.documents(limit=1):
            pass
    context = running.app.state.context
    while context.ingests.task_count:
        pass
    assert 0 < len(running.kb.documents()) < MANY_FILES


# --- shutdown -------------------------------------------------------------------------------------


def test_a_search_under_way_is_answered_before_the_end(
    serve: Serve, library: Callable[..., Path]
) -> None:
    begun, go = threading.Event(), threading.Event()

    class Waiting(Weightless):
        def encode(self, texts: Any, *, as_query: bool = False, **options: Any) -> Any:
            if as_query:
                begun.set()
                go.wait(PATIENCE_S)
            return super().encode(texts, as_query=as_query, **options)

    running = serve(encoder=Waiting())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(running.search("retry storm")))
    asking.start()
    assert begun.wait(PATIENCE_S)
    running.server.should_exit = True
    go.set()
    asking.join(PATIENCE_S)
    assert answers[0]["returned"]


def test_event_streams_are_closed_at_shutdown(filled: Running) -> None:
    stream = filled.client.stream("GET", "/events")
    lines = stream.__enter__().iter_lines()
    next(lines)
    filled.stop()
    assert [line for line in lines if line.startswith("error")] == []
    with pytest.raises(httpx.TransportError):
        filled.client.get("/health")


def command(store: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "kb", "--store", str(store), "serve", "--port", "0", *more]


@pytest.mark.skipif(os.name == "nt", reason="no signals there")
def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    store = tmp_path / "kb.sqlite"
    environment = os.environ | {"KB_SERVE_TOKEN": TOKEN, "KB_MODELS_ENCODER": "none"}
    with subprocess.Popen(
        command(store, "-v"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        sent = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
            assert client.get("/status").status_code == 401
            assert client.get("/status", headers=sent).status_code == 200
            assert client.post("/search", json={"query": "x"}, headers=sent).status_code == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 130)
    assert "Traceback" not in errors
    # Reported at the start, since the name may be mistyped.
    assert errors.index(f"new store: {store}") < errors.index("press Ctrl-C to stop")
    assert TOKEN not in errors  # a secret is in no log
    with KnowledgeBase(store) as kb:
        assert kb.documents() == []


def test_the_model_is_loaded_at_the_start(tmp_path: Path) -> None:
    asked, told = threading.Event(), list[str]()

    class Loading(Weightless):
        def encode(self, texts: Any, **options: Any) -> Any:
            asked.set()
            return super().encode(texts, **options)

    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Loading()) as kb:
        kb.create()
        context = create_app(kb, warm=True).state.context
        context.events.publish = lambda _, data: told.append(data["state"])
        context.warmup.start()
        assert asked.wait(PATIENCE_S)
        context.warmup.stop()
        context.warmup.stop()  # a second call has nothing to wait for
    assert told == ["loading", "loaded"]


def test_a_model_that_cannot_be_loaded_stops_nothing(tmp_path: Path) -> None:
    class Broken(Weightless):
        def encode(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("no memory")

    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Broken()) as kb:
        kb.create()
        app = create_app(kb, warm=True)
        with TestClient(app, base_url="http://localhost") as client:
            assert client.get("/health").status_code == 200
        assert app.state.context.events._latest["model"] == {"state": "loaded"}


@pytest.mark.parametrize("path", ["/", "/assets/app.js"])
def test_head_requests_for_the_page(serve: Serve, path: str) -> None:
    running = serve()
    got, head = running.client.get(path), running.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert head.headers["etag"] == got.headers["etag"]


def test_no_thread_is_left_behind(serve: Serve) -> None:
    before = {thread.name for thread in threading.enumerate()}
    running = serve()
    running.client.get("/health")
    running.stop()
    left = {thread.name for thread in threading.enumerate()} - before
    assert {name for name in left if name.startswith("kb-")} == set()
