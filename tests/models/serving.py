"""A real HTTP server on this machine, in a thread, with responses that a test defines."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """A response. `cut` limits the bytes of the body, after which the connection is closed; with
    `mute`, nothing is sent at all."""

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


@dataclass
class RawServer:
    """`received` has the bytes of each connection, as they arrive."""

    url: str
    received: list[bytearray]
    over: threading.Event

    def trickle(self, connection: socket.socket, data: bytes, pause_s: float = 0.02) -> None:
        """Send `data` byte by byte, until the test is over."""
        for byte in data:
            if self.over.wait(pause_s):
                return
            connection.sendall(bytes([byte]))


@contextmanager
def raw_serving(
    handle: Callable[[RawServer, socket.socket], None] = lambda *_: None,
) -> Iterator[RawServer]:
    """A server of bare connections: `handle` is called with each of them, after the first bytes.
    Later bytes are received too."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = RawServer(f"http://127.0.0.1:{listener.getsockname()[1]}", [], threading.Event())
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def converse(connection: socket.socket) -> None:
        received = bytearray()
        server.received.append(received)
        with suppress(OSError):
            received += connection.recv(1 << 16)
            handle(server, connection)
            while more := connection.recv(1 << 16):
                received += more

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                thread = threading.Thread(target=converse, args=(connection,))
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        server.over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in threads:
            thread.join()
