"""HTTP connections with a limit on their total time.

A timeout of Python's sockets starts again with every byte that arrives, so a server that sends its
header slowly could hold a caller for hours. Here each step (connect, TLS, send, header, body) gets
only what is left of one `TimeLimit`.

Only HTTPS to another machine goes through the system's proxy, as a tunnel in which the proxy sees
neither the key nor the texts. Plain HTTP goes to the server itself.

Imported on the first request, since `ssl` and `urllib.request` are slow to load.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib import request as urllib_request
from urllib.request import Request

from kb.models.network import is_loopback, is_this_machine

_LOCALHOST = ("127.0.0.1", "::1")
_CHECK_S = 0.2  # between two checks whether a request is still wanted


class TimeLimit:
    """The time that is left for a request. `restart` resets it to the whole time. `check`, if
    given, is called several times a second while a response is awaited, and ends the request by
    raising an error."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._check = check
        self.restart()

    def restart(self) -> None:
        self._end = self._clock() + self._seconds

    def left_s(self) -> float:
        """The seconds that are left. Raises `TimeoutError` if there are none."""
        left_s = self._end - self._clock()
        if left_s <= 0:
            raise TimeoutError("no response in time")
        return left_s

    def receive(self, connection: socket.socket, receive: Callable[[], int]) -> int:
        """Call `receive`, which reads from `connection`, within the time that is left."""
        if self._check is None:
            connection.settimeout(self.left_s())
            return receive()
        while True:
            self._check()
            connection.settimeout(min(_CHECK_S, self.left_s()))
            try:
                return receive()
            except TimeoutError:
                continue  # `left_s` raises if it was the last one


def open_url(request: Request, limit: TimeLimit, *, redirects: bool) -> HTTPResponse:
    """Send the request and return the response, whose body is read under the same limit. Raises
    `OSError` and `HTTPException`; a status of 400 or more is an `HTTPError`, and so is a redirect
    that is not followed."""
    director = urllib_request.OpenerDirector()
    for handler in (
        _Proxies(), urllib_request.UnknownHandler(), _Connections(limit),
        urllib_request.HTTPDefaultErrorHandler(), _Redirects(redirects),
        urllib_request.HTTPErrorProcessor(),
    ):  # fmt: skip
        director.add_handler(handler)
    try:
        response: HTTPResponse = director.open(request, timeout=limit.left_s())
    except ValueError as error:  # of `urlsplit`
        raise ConnectionError("the server redirects to an invalid address") from error
    return response


# --- handlers -------------------------------------------------------------------------------------


class _Proxies(urllib_request.ProxyHandler):
    """The system's proxy for HTTPS, except to this machine."""

    def __init__(self) -> None:
        proxies = urllib_request.getproxies()
        super().__init__({"https": proxies["https"]} if "https" in proxies else {})

    def proxy_open(self, req: Request, proxy: str, type: str) -> Any:
        return None if is_this_machine(req.full_url) else super().proxy_open(req, proxy, type)


class _Redirects(urllib_request.HTTPRedirectHandler):
    """Follows redirects if allowed, and never from HTTPS to HTTP."""

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed

    def redirect_request(self, req: Request, fp: Any, *rest: Any) -> Request | None:
        target = super().redirect_request(req, fp, *rest) if self._allowed else None
        if target is not None and req.type == "https" and target.type != "https":
            return None
        return target


class _Connections(urllib_request.AbstractHTTPHandler):
    """Opens a connection for each request, within the remaining time."""

    def __init__(self, limit: TimeLimit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_HttpConnection, req, limit=self._limit)  # type: ignore[arg-type]

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_HttpsConnection, req, limit=self._limit)  # type: ignore[arg-type]

    http_request = https_request = urllib_request.AbstractHTTPHandler.do_request_


# --- connections ----------------------------------------------------------------------------------


class _HttpConnection(HTTPConnection):
    def __init__(self, *args: Any, limit: TimeLimit, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limit = limit
        self._create_connection = self._connect_socket

    def _connect_socket(self, address: tuple[str, int], *_: Any) -> socket.socket:
        return _connect(*address, self._limit)


class _HttpsConnection(_HttpConnection):
    default_port = HTTPSConnection.default_port
    _tunnel_host: str | None

    def connect(self) -> None:
        super().connect()  # and, through a proxy, opens the tunnel
        self.sock.settimeout(self._limit.left_s())  # limits the whole handshake
        host = self._tunnel_host or self.host
        self.sock = _tls_context().wrap_socket(self.sock, server_hostname=host)
        self.sock.limit = self._limit  # type: ignore[attr-defined]  # a `_TlsSocket`


class _Socket(socket.socket):
    """A socket whose operations take no longer than the remaining time."""

    limit: TimeLimit | None = None

    def _limit_time(self) -> None:
        if self.limit is not None:
            self.settimeout(self.limit.left_s())

    def recv_into(self, *args: Any, **options: Any) -> int:
        receive = partial(super().recv_into, *args, **options)
        return receive() if self.limit is None else self.limit.receive(self, receive)

    def sendall(self, *args: Any, **options: Any) -> None:
        self._limit_time()
        super().sendall(*args, **options)


class _TlsSocket(ssl.SSLSocket):
    """A `_Socket` over TLS, where `sendall` calls `send` for each part."""

    limit: TimeLimit | None = None

    def _limit_time(self) -> None:
        if self.limit is not None:
            self.settimeout(self.limit.left_s())

    def recv_into(self, *args: Any, **options: Any) -> int:
        receive = partial(super().recv_into, *args, **options)
        return receive() if self.limit is None else self.limit.receive(self, receive)

    def send(self, *args: Any, **options: Any) -> int:
        self._limit_time()
        return super().send(*args, **options)


@cache
def _tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    context.sslsocket_class = _TlsSocket
    return context


def _connect(host: str, port: int, limit: TimeLimit) -> socket.socket:
    """Connect to the first address that accepts. Each gets an equal share of the remaining time."""
    failures: list[OSError] = []
    addresses = _addresses(host, port, limit)
    for at, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            return _connect_to(
                _Socket(family, kind, protocol), address, limit, parts=len(addresses) - at
            )
        except OSError as error:
            failures.append(error)
    raise failures[0] if failures else OSError(f"{host} has no address")


def _connect_to(connection: _Socket, address: Any, limit: TimeLimit, *, parts: int) -> _Socket:
    try:
        connection.settimeout(limit.left_s() / parts)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    connection.limit = limit
    return connection


def _addresses(host: str, port: int, limit: TimeLimit) -> list[Any]:
    """The addresses of a host. `localhost` is not looked up. A lookup has no timeout, so it runs in
    a thread that can be abandoned."""
    if host.lower() == "localhost" or is_loopback(host):
        hosts = _LOCALHOST if host.lower() == "localhost" else (host,)
        return [
            address
            for each in hosts
            for address in socket.getaddrinfo(
                each, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        ]
    outcome: list[list[Any] | OSError] = []

    def look_up() -> None:
        try:
            outcome.append(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            outcome.append(error if isinstance(error, OSError) else OSError(f"invalid name {host}"))

    thread = threading.Thread(target=look_up, name="kb-lookup", daemon=True)
    thread.start()
    thread.join(limit.left_s())
    if not outcome:
        raise TimeoutError("no response in time")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]
