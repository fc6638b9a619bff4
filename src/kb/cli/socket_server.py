"""The server side of `kb.cli.socket_client`: a running `kb serve` or `kb watch` runs `kb search`
for other processes, over a socket beside the store.

Only the store's owner can connect: the socket's mode is 0600, and the system reports the peer's
user id. A request runs the search command itself, with the open knowledge base and with stand-ins
for stdout and stderr, so the output is identical. A request from another version, with other
settings or for another store is declined, and its command runs the search in its own process.
"""

from __future__ import annotations

import io
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from kb import __version__
from kb.cli import output, socket_client
from kb.cli.invocation import Invocation
from kb.cli.log_handlers import wants_stderr
from kb.config import Config, ServeConfig, load
from kb.deadline import Deadline
from kb.errors import KbError, Stopped
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.types import JsonDict

_THREADS = 4
_READ_TIMEOUT_S = 5.0
_MAX_REQUEST_BYTES = 1 << 20
_MAX_PATH_BYTES = 100  # the system's limit for sockets is 108 on Linux, 104 elsewhere
_log = logger("kb.socket")


@contextmanager
def serve_socket(kb: KnowledgeBase) -> Iterator[None]:
    """Serve searches at the store's socket while the block runs. Does nothing if a socket cannot
    be created, or if another process serves it already."""
    server = _SocketServer(kb) if os.name == "posix" else None
    if server is None or not server.open():
        yield
        return
    try:
        yield
    finally:
        server.close()


class RemoteStream(io.StringIO):
    """Collects output for a stream of the client, with that stream's capabilities."""

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        super().__init__()
        self._terminal = bool(capabilities["terminal"])
        self.color = bool(capabilities["color"])
        self.links = bool(capabilities["links"])
        self.columns = int(capabilities["columns"])
        self.client_encoding = str(capabilities["encoding"])
        self.paged = False  # whether the client shows the text in its pager

    def isatty(self) -> bool:
        return self._terminal


class SharedInvocation(Invocation):
    """An invocation that uses the server's open knowledge base and leaves it open."""

    def __init__(self, kb: KnowledgeBase, terminal: str) -> None:
        super().__init__()
        self._kb = kb
        self._terminal = terminal

    @property
    def terminal(self) -> str:
        return self._terminal

    def open(self, overrides: Mapping[str, Any] | None = None) -> KnowledgeBase:
        assert not overrides, "a search changes no settings"
        self.warn_ignored_settings(self._kb.config)
        return nullcontext(self._kb)  # type: ignore[return-value]  # `with` yields the real one


class _SocketServer:
    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._store = os.path.realpath(kb.path)
        self._path = self._store + socket_client.SUFFIX
        self._settings = socket_client.settings_variables(dict(os.environ))
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kb-socket")
        self._deadlines: dict[int, Deadline] = {}  # by the connection's file descriptor
        self._listener: socket.socket | None = None
        self._identity: tuple[int, int] | None = None

    # --- start and stop ---------------------------------------------------------------------------

    def open(self) -> bool:
        if len(os.fsencode(self._path)) > _MAX_PATH_BYTES or _is_served(self._path):
            return False
        try:
            self._listener = self._listen()
        except OSError as error:  # a read-only folder, a file system without sockets
            _log.info("cannot open the socket %s: %s", self._path, error)
            return False
        threading.Thread(target=self._accept, name="kb-socket", daemon=True).start()
        self._threads.submit(self._warm_up)
        return True

    def _listen(self) -> socket.socket:
        """Create the socket under another name and rename it, so that it is never open to other
        users, and replaces a socket left by a killed process."""
        temporary = f"{self._path}.{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            listener.bind(temporary)
            os.chmod(temporary, 0o600)
            listener.listen(16)
            info = os.lstat(temporary)
            os.replace(temporary, self._path)
        except OSError:
            listener.close()
            raise
        self._identity = (info.st_dev, info.st_ino)
        return listener

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with suppress(OSError):
            info = os.lstat(self._path)
            if (info.st_dev, info.st_ino) == self._identity:  # not replaced by another process
                os.unlink(self._path)
        for deadline in list(self._deadlines.values()):
            deadline.cancel()
        self._threads.shutdown(cancel_futures=True)

    def _warm_up(self) -> None:
        """Load the model and the vectors, so that the first search is as fast as later ones."""
        with suppress(KbError):
            if (encoder := self._kb.encoder()) is not None:
                # Load first, so that the warm-up is not logged as a slow search.
                encoder.encode(["warm"], as_query=True)
            self._kb.search("warm", top=1)

    def _accept(self) -> None:
        """Start a search for each connection, and cancel it when its client disconnects."""
        poll = select.poll()
        with suppress(OSError, ValueError):  # closed in the meantime
            while (listener := self._listener) is not None:
                poll.register(listener, select.POLLIN)
                own, ready = listener.fileno(), [fd for fd, _ in poll.poll()]
                for fd in ready:
                    if fd != own:  # closed by the client or by this process
                        poll.unregister(fd)
                        if (deadline := self._deadlines.pop(fd, None)) is not None:
                            deadline.cancel()
                # Accept last: a new connection may reuse a file descriptor closed above.
                if own in ready and not self._start(listener, poll):
                    return

    def _start(self, listener: socket.socket, poll: select.poll) -> bool:
        connection, _ = listener.accept()
        # A client that has waited this long runs the search itself.
        deadline = Deadline(socket_client.ANSWER_S)
        self._deadlines[connection.fileno()] = deadline
        poll.register(connection, 0)
        try:
            future = self._threads.submit(self._serve, connection, deadline)
        except RuntimeError:  # closed in the meantime
            connection.close()
            return False
        future.add_done_callback(_close_callback(connection))  # also if it was canceled
        return True

    # --- one request ------------------------------------------------------------------------------

    def _serve(self, connection: socket.socket, deadline: Deadline) -> None:
        try:
            if socket_client.peer_uid(connection) != os.getuid():
                return
            connection.settimeout(_READ_TIMEOUT_S)
            request = _read(connection)
            connection.sendall(socket_client.ACKNOWLEDGEMENT)
            with deadline:
                response = self._respond(request)
            deadline.check()  # an expired deadline is not the client's error
            connection.sendall(json.dumps(response).encode())
        except Stopped as error:
            _log.info("search canceled: %s", error)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.info("invalid request: %s", error)
        # The client then runs the search itself; the server keeps running.
        except Exception:  # noqa: BLE001
            _log.exception("internal error")

    def _respond(self, request: JsonDict) -> JsonDict:
        if (reason := self._mismatch(request)) is not None:
            return {"answered": False, "why": reason}
        from kb.cli.run import run

        out, err = RemoteStream(request["out"]), RemoteStream(request["err"])
        with output.redirect(out, err):
            shared = SharedInvocation(self._kb, str(request["terminal"]))
            status = run([str(arg) for arg in request["args"]], shared)
        return {
            "answered": True,
            "status": status,
            "out": out.getvalue(),
            "err": err.getvalue(),
            "paged": out.paged,
        }

    def _mismatch(self, request: JsonDict) -> str | None:
        """Return why the result could differ from that of the command in its own process; None if
        it could not."""
        expected = {
            "protocol": socket_client.PROTOCOL,
            "version": __version__,
            "prefix": sys.prefix,
            "store": self._store,
            "settings": self._settings,
        }
        for name, value in expected.items():
            if request[name] != value:
                return name
        if request["args"][:1] != ["search"]:
            return "args"
        try:
            config = load(self._kb.path)
        except KbError:  # the command reports it
            return "settings"
        if wants_stderr(config):  # the client's stderr, not this process's
            return "log"
        same = _search_settings(config) == _search_settings(self._kb.config)
        return None if same else "settings"


def _close_callback(connection: socket.socket) -> Callable[[object], None]:
    def close(_future: object) -> None:
        with suppress(OSError):  # closed by the client
            connection.shutdown(socket.SHUT_RDWR)  # `close` alone would wait for the poll
        connection.close()

    return close


def _search_settings(config: Config) -> Config:
    """Return the settings that affect a search. Ignored settings do too: they cause a warning."""
    return replace(config, serve=ServeConfig(), origins={}, trusted=())


def _read(connection: socket.socket) -> JsonDict:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MAX_REQUEST_BYTES:
            raise ValueError("the request is too long")
    request = json.loads(b"".join(parts))
    if not isinstance(request, dict):
        raise TypeError("the request is not an object")
    return request


def _is_served(path: str) -> bool:
    """Whether another process accepts connections at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(socket_client.CONNECT_S)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
