"""Starts and stops one server: token, address, access rules, signals."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from kb.config import ServeConfig
from kb.errors import ConfigError
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.server.api import create_app
from kb.server.connections import protocol
from kb.server.guard import MAX_HEADER_BYTES, AccessRules
from kb.server.tokens import TokenRegistry, token_file_of
from kb.shutdown import LIMIT_S, Shutdown

_log = logger("kb.server")

TOKEN_VARIABLE = "KB_SERVE_TOKEN"
_MIN_TOKEN_CHARS = 16
_KEEP_ALIVE_S = 15
_M_MMAP_THRESHOLD = -3  # from <malloc.h>
_LARGE_BLOCK_BYTES = 4 * 1024 * 1024
# How long a thread may keep the interpreter while another waits for it. At Python's 5 ms, busy
# searches would delay each system call of the event loop by as much.
_SWITCH_S = 0.0001
# How many new objects Python creates before it collects garbage. At its 700, collecting takes a
# seventh of the processor time of a search.
_GARBAGE_OBJECTS = 50_000
_CLOSE_S = 1  # time to close the store
_ERROR_S = 2  # time to send errors to the clients of canceled requests


def read_token(token_file: str) -> str | None:
    """The token from the file, or else from the environment; None if neither is set."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token_file:
        try:
            token = Path(token_file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"cannot read {token_file}: {why}", "check the file") from error
    token = token.strip()
    if not token:
        return None
    if len(token) < _MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token needs at least {_MIN_TOKEN_CHARS} printable ASCII characters",
            'create one: python -c "import secrets; print(secrets.token_urlsafe())"',
        )
    return token


def rules_for(
    host: str, token: str | None, allow_hosts: str, tokens: TokenRegistry | None = None
) -> AccessRules:
    """The access rules of a server on `host`. Without a token, only this machine has access."""
    local = is_loopback(host)
    if not local and token is None and not (tokens is not None and tokens.is_required):
        raise ConfigError(
            f"other machines can reach {host}, but no token is set",
            f"run kb token add NAME, set {TOKEN_VARIABLE} or --token-file, or listen on 127.0.0.1",
        )
    hosts = {name.strip().lower() for name in allow_hosts.split(",") if name.strip()}
    if not local:
        hosts |= {host.lower(), socket.gethostname().lower()}
    return AccessRules(frozenset(hosts), open=not local, token=token, tokens=tokens)


def open_tokens(kb: KnowledgeBase) -> TokenRegistry:
    """The named tokens of the store's servers. Raises `ConfigError` if their file is unusable."""
    file = token_file_of(kb)
    if kb.config.serve.tokens and file.stamp() is None:  # perhaps a misspelled path
        _log.warning("there is no file %s, so no token of it is required", file.path)
    file.record_store()
    return TokenRegistry(file, time.time)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. Names are not resolved: DNS may change."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def ingest_folders(ingest_from: str) -> tuple[Path, ...]:
    """The folders that clients may ingest from: those given, or else the current folder, unless
    that is the root of the disk."""
    folders = [Path(part.strip()).expanduser() for part in ingest_from.split(",") if part.strip()]
    if folders:
        return tuple(folders)
    current = Path.cwd()
    return () if current == Path(current.anchor) else (current,)


class HttpServer(uvicorn.Server):
    """A uvicorn server with kb's limits and shutdown. Calls `ready` with its port once it listens.

    On a signal it drains pending requests, then calls `cancel`, which makes them fail soon, and
    finally drops the remaining connections, whose clients do not read. `shutdown` handles the
    signals, because uvicorn would raise them again at the end.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: ServeConfig,
        ready: Callable[[int], None],
        shutdown: Shutdown | None = None,
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        _return_large_blocks()
        super().__init__(
            uvicorn.Config(
                app,
                host=limits.host,
                port=limits.port,
                http=protocol(limits.client_timeout_s),
                ws="none",
                log_config=None,
                access_log=False,  # it would log queries
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=ceil(limits.drain_s) + _ERROR_S,
            )
        )
        self._ready = ready
        self._shutdown = shutdown or Shutdown()
        self._shutdown.limit_s = max(LIMIT_S, ceil(limits.drain_s) + _ERROR_S + _CLOSE_S)
        self._drain_s = limits.drain_s
        self._cancel = cancel

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        self._shutdown.on_signal(self._stop)
        yield

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
        sys.setswitchinterval(_SWITCH_S)
        gc.set_threshold(max(_GARBAGE_OBJECTS, thresholds[0]), *thresholds[1:])
        try:
            super().run(sockets)
        finally:
            sys.setswitchinterval(interval)
            gc.set_threshold(*thresholds)

    def _stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(int(self.servers[0].sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drained = asyncio.get_running_loop().call_later(self._drain_s, self._cancel)
        try:
            await super().shutdown(sockets)
        finally:
            drained.cancel()


class ApiServer(HttpServer):
    """The server of `kb serve`. Closes event streams, then drains pending requests."""

    def __init__(
        self,
        app: FastAPI,
        limits: ServeConfig,
        ready: Callable[[int], None],
        shutdown: Shutdown | None = None,
    ) -> None:
        super().__init__(app, limits, ready, shutdown, app.state.context.cancel)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.context.events.close()
        await super().shutdown(sockets)


def _return_large_blocks() -> None:
    """Make glibc return large blocks to the system when they are freed; by default, it keeps them
    after the first few large responses. Does nothing with other C libraries."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def serve(
    kb: KnowledgeBase,
    *,
    token: str | None,
    ready: Callable[[int], None],
    shutdown: Shutdown | None = None,
) -> None:
    """Run the server until a signal stops it. Calls `ready` with the port once it listens."""
    limits = kb.config.serve
    rules = rules_for(limits.host, token, limits.allow_hosts, open_tokens(kb))
    if not kb.exists():
        kb.create()
    app = create_app(kb, rules, ingest_from=ingest_folders(limits.ingest_from), warm=True)
    check_free(limits.host, limits.port)
    ApiServer(app, limits, ready, shutdown).run()


def check_free(host: str, port: int) -> None:
    """Raise `ConfigError` if the address is in use. uvicorn would exit with its own message."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = addresses[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name != "nt":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            "choose another port with --port",
        ) from error
