"""A real HTTP server on this machine, in a thread, with responses that a test defines."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """`cut` sends no more than so many bytes of the body, and hangs up; with `mute`, nothing is
    sent at all."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    mute: bool = False


def answer(value: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): told for name, told in headers.items()}
    return Answer(status, json.dumps(value).encode(), named)


@dataclass
class Server:
    url: str
    asked: list[ReceivedRequest]


@contextmanager
def serving(respond: Callable[[ReceivedRequest], Answer]) -> Iterator[Server]:
    """A server whose responses `respond` returns; a silent one is released at the end."""
    asked: list[ReceivedRequest] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            request = ReceivedRequest(
                self.command, self.path, dict(self.headers), self.rfile.read(length)
            )
            asked.append(request)
            given = respond(request)
            if given.mute:
                over.wait(60)
                return
            self.send_response(given.status)
            self.send_header("Content-Length", str(len(given.body)))
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(given.body[: given.cut])

        do_GET = do_POST = _take  # noqa: N815  # as the library calls them

        def log_message(self, *_: Any) -> None:
            """Keep the terminal clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
