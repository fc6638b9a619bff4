"""One server from start to end: where it listens, who may ask, and how it stops."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
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
from kb.server.api import create_app
from kb.server.connections import protocol
from kb.server.guard import MOST_HEADER_BYTES, Rules
from kb.shutdown import LIMIT_S, Shutdown

TOKEN_VARIABLE = "KB_SERVE_TOKEN"
_LEAST_TOKEN_CHARS = 16
_KEEP_ALIVE_S = 15
_M_MMAP_THRESHOLD = -3  # of <malloc.h>
_LARGE_BLOCK_BYTES = 4 * 1024 * 1024
_ANSWER_S = 2  # for the answer to a request that was cancelled


def read_token(token_file: str) -> str | None:
    """The token, from the file or else from the environment; None where none is set."""
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
    if len(token) < _LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token is not {_LEAST_TOKEN_CHARS} plain characters or more",
            'make one: python -c "import secrets; print(secrets.token_urlsafe())"',
        )
    return token


def rules_for(host: str, token: str | None, allow_hosts: str) -> Rules:
    """Who may ask a server that listens on `host`. Without a token, nobody but this machine."""
    local = is_loopback(host)
    if not local and token is None:
        raise ConfigError(
            f"{host} can be reached by other machines, and there is no token",
            f"set {TOKEN_VARIABLE} or --token-file, or listen on 127.0.0.1",
        )
    named = {name.strip().lower() for name in allow_hosts.split(",") if name.strip()}
    if not local:
        named |= {host.lower(), socket.gethostname().lower()}
    return Rules(frozenset(named), open=not local, token=token)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. A name counts by what it is, not by what a resolver
    says today."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def ingest_folders(ingest_from: str) -> tuple[Path, ...]:
    """The folders that clients may have ingested: those that are named, or where we are, unless
    that is the whole disk."""
    named = [Path(part.strip()).expanduser() for part in ingest_from.split(",") if part.strip()]
    if named:
        return tuple(named)
    here = Path.cwd()
    return () if here == Path(here.anchor) else (here,)


class Listener(uvicorn.Server):
    """uvicorn's, with our limits, which tells when it can be asked.

    The signals are those of `shutdown`: uvicorn would raise them a second time when it has come to
    its end. It waits for what is under way, then calls `cancel`, which has it answered soon, and
    after that drops what is left: clients that do not read."""

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
                access_log=False,  # it would write down what was asked for
                server_header=False,
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=ceil(limits.drain_s) + _ANSWER_S,
            )
        )
        self._ready = ready
        self._shutdown = shutdown or Shutdown()
        self._shutdown.limit_s = max(LIMIT_S, limits.drain_s + LIMIT_S / 2)
        self._drain_s = limits.drain_s
        self._cancel = cancel

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        self._shutdown.on_signal(self._stop)
        yield

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


class Server(Listener):
    """That of `kb serve`, which lets listeners go before it waits for those that are to be answered
    still."""

    def __init__(
        self,
        app: FastAPI,
        limits: ServeConfig,
        ready: Callable[[int], None],
        shutdown: Shutdown | None = None,
    ) -> None:
        super().__init__(app, limits, ready, shutdown, app.state.desk.cancel)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.desk.events.close()
        await super().shutdown(sockets)


def _return_large_blocks() -> None:
    """Have large blocks of memory go back to the system when they are freed. glibc would keep them
    after the first few large answers, for good. Other C libraries have no such function."""
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
    """Answer until the process is told to stop. `ready` hears the port when it listens."""
    limits = kb.config.serve
    rules = rules_for(limits.host, token, limits.allow_hosts)
    if not kb.path.exists():
        kb.create()
    app = create_app(kb, rules, ingest_from=ingest_folders(limits.ingest_from), warm=True)
    check_free(limits.host, limits.port)
    Server(app, limits, ready, shutdown).run()


def check_free(host: str, port: int) -> None:
    """uvicorn would end the process with a line of its own."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(found[0], socket.SOCK_STREAM) as probe:
            if os.name != "nt":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[4])
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}", "choose another with --port"
        ) from error
