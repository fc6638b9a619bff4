"""A language model for tests: a real HTTP server with scripted responses, and a simple judge."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kb.types import ModelSpec


class Endpoint:
    """Sends `lines` as server-sent events, or `body` with `status`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.lines: list[bytes] = []
        self.status, self.body = 200, b""
        self.type = "text/event-stream"
        self.hang = False
        self.over = threading.Event()
        self.url = ""

    def say(self, *parts: str) -> None:
        events = [{"choices": [{"delta": {"content": part}}]} for part in parts]
        self.lines = [b"data: %s\n\n" % json.dumps(event).encode() for event in events]
        self.lines.append(b"data: [DONE]\n\n")


@contextmanager
def serving(script: Endpoint) -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            length = int(self.headers["Content-Length"])
            script.requests.append(json.loads(self.rfile.read(length)))
            script.headers.append(dict(self.headers))
            self.send_response(script.status)
            self.send_header("Content-Type", script.type)
            self.end_headers()
            self.wfile.write(script.body)
            for line in script.lines:
                self.wfile.write(line)
                self.wfile.flush()
            if script.hang:
                script.over.wait(60)

        def log_message(self, *_: Any) -> None:
            """Keep the terminal clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield script
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving(Endpoint()) as started:
        yield started


class WordJudge:
    """Scores a passage by the share of the query's words that it contains."""

    spec = ModelSpec("kb-judge", "1", 0, gives=frozenset({"score"}))

    def scores(self, query: str, passages: list[str]) -> list[float]:
        words = set(query.lower().strip(".").split())
        return [10 * len(words & set(text.lower().split())) / len(words) - 7 for text in passages]
