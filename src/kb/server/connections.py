"""Limits the number of open connections, and closes each of them properly.

An incomplete request or an unread response costs its client only a connection, so anyone can hold
many. When there are too many, a new connection replaces the oldest idle one, preferably one from
the address that has the most. A complete request is never replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from enum import IntEnum
from functools import partial
from typing import Any, cast

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kb.errors import MalformedRequest, TooBusy
from kb.server.guard import SECURITY_HEADERS
from kb.server.start_queue import StartQueue

MAX_CONNECTIONS = 512
_LINGER_S = 2.0  # how long a client that is still sending its body has to read an error
_CLOSE = (b"connection", b"close")
_FIRST_PATHS = frozenset({"/health"})
_BUSY = 503  # ends the connection, so that further requests on it need not be refused one by one


class Stage(IntEnum):
    """What a connection is doing. Lower stages are replaced first."""

    ENDING = 0
    WAITING = 1  # for a request or the rest of its headers
    BODY = 2
    UNREAD = 3  # the client does not read the response
    BUSY = 4  # serving a request; never replaced


class ConnectionPool:
    """The open connections of one server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: set[Connection] = set()

    def admit(self, new: Connection) -> bool:
        """Add a connection, in place of an idle one if necessary. Return False if all are busy."""
        if len(self._open) >= self._limit and not self._replace_idle():
            return False
        self._open.add(new)
        return True

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)

    def _replace_idle(self) -> bool:
        per_address = Counter(each.address for each in self._open)
        idle = [each for each in self._open if each.stage < Stage.BUSY]
        if not idle:
            return False
        victim = min(idle, key=lambda each: (-per_address[each.address], each.stage, each.since))
        self._open.discard(victim)
        victim.abort()
        return True


def connection_limit() -> int:
    """The number of connections that leaves half of the open-file limit for the store."""
    try:
        import resource
    except ImportError:  # Windows has no limit
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MAX_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 2)


def protocol(timeout_s: float) -> type[asyncio.Protocol]:
    """The protocol of a server whose clients must send their headers within `timeout_s`."""
    bound = partial(
        Connection,
        pool=ConnectionPool(connection_limit()),
        starts=StartQueue(_FIRST_PATHS),
        timeout_s=timeout_s,
    )
    return cast(type[asyncio.Protocol], bound)


class Connection(H11Protocol):
    """A uvicorn connection that belongs to a pool, limits the time for headers, and is always
    closed."""

    def __init__(
        self,
        *args: Any,
        pool: ConnectionPool,
        starts: StartQueue,
        timeout_s: float,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._pool = pool
        self._starts = starts
        self._timeout_s = timeout_s
        self._inner = self.app
        self.app = cast(Any, self._run)
        self._socket: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_ending = False
        self.since = self.loop.time()

    # --- for the pool -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def stage(self) -> Stage:
        if self._is_ending:
            return Stage.ENDING
        if self.cycle is None or self.cycle.response_complete:
            return Stage.WAITING
        if self.flow.write_paused:
            return Stage.UNREAD
        if self.conn.their_state is h11.SEND_BODY and not self.cycle.response_started:
            return Stage.BODY
        return Stage.BUSY

    def abort(self) -> None:
        """Close the connection now, and drop unsent data."""
        self._is_ending = True
        if self._socket is not None:
            self._socket.abort()

    # --- callbacks of the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._socket = transport
        super().connection_made(cast(asyncio.Transport, _ClosingTransport(transport, self)))
        if self._pool.admit(self):
            self._set_timer(self._timeout_s)
        else:
            error = TooBusy("too many requests at once", "try again in a moment")
            transport.write(_raw_response(503, b"Service Unavailable", error.to_dict()))
            self.close()

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return  # the rest of a refused body
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # too late for an error: the response has started
            self.abort()
        self._expect_headers()

    def _expect_headers(self) -> None:
        if self._is_ending:
            return
        if self.conn.their_state is not h11.IDLE:
            self._clear_timer()
        elif self._timer is None:
            self._set_timer(self._timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_timer()
        self._pool.remove(self)
        self._is_ending = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Handle the shutdown of the server: drop incomplete requests now, and unread responses
        after a moment."""
        if self._is_ending or self.stage is Stage.BODY:
            self.abort()
            return
        if self.stage is Stage.UNREAD:
            self._set_timer(_LINGER_S)
        super().shutdown()

    # --- requests ---------------------------------------------------------------------------------

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. If it leaves the response unfinished, the connection is closed."""
        self.since = self.loop.time()
        cycle = self.cycle

        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start" and (
                message["status"] == _BUSY or self._is_body_unfinished()
            ):
                message = {**message, "headers": [*message["headers"], _CLOSE]}
            await send(message)

        try:
            await self._starts.wait(scope["path"])
            await cast(Any, self._inner)(scope, receive, send_and_close)
        except asyncio.CancelledError:  # shutdown no longer waits for this client
            cycle.disconnected = True
            self.abort()
        finally:
            if cycle.response_started and not cycle.response_complete:
                cycle.disconnected = True
                self.abort()

    def _is_body_unfinished(self) -> bool:
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _has_further_requests(self) -> bool:
        return self.flow.read_paused or bool(self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # replaced by error.v1
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self._socket is None:
            self.abort()
            return
        error = MalformedRequest("the request is not valid HTTP", "send HTTP/1.1")
        self._socket.write(_raw_response(400, b"Bad Request", error.to_dict()))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.close()

    # --- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection once everything is sent. A client that is still sending its body or
        further requests gets time to read the response, which closing at once could discard."""
        if self._is_ending or self._socket is None:
            return
        self._is_ending = True
        is_sending = self._is_body_unfinished() or self._has_further_requests()
        if not is_sending or not self._socket.can_write_eof():
            self._socket.close()
            self._set_timer(self._timeout_s)
            return
        try:
            self._socket.write_eof()
        except OSError:  # the client has already disconnected
            self._socket.abort()
        else:
            self._socket.resume_reading()
            self._set_timer(_LINGER_S)

    def _set_timer(self, seconds: float) -> None:
        self._clear_timer()
        self._timer = self.loop.call_later(seconds, self.abort)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    @property
    def is_ending(self) -> bool:
        return self._is_ending


class _ClosingTransport:
    """A transport that delegates `close` to its connection."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def is_closing(self) -> bool:
        return self._connection.is_ending or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _raw_response(status: int, phrase: bytes, error: dict[str, str]) -> bytes:
    """An error response without a request."""
    body = json.dumps(error).encode()
    headers = SECURITY_HEADERS | {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "connection": "close",
    }
    if status == 503:
        headers["retry-after"] = "1"
    lines = [b"HTTP/1.1 %d %s" % (status, phrase)]
    lines += [f"{name}: {value}".encode() for name, value in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
