"""The server side of `kb.cli.socket_client`: a running `kb serve` or `kb watch` answers `kb search`
over a socket beside the store.

Only its owner can reach it: the file is for them alone, and who connects is asked for by the
system. A request runs the search command itself, with the open knowledge base and with sheets in
place of stdout and stderr, so that what is printed is the same, to the letter. Requests that do not
fit (another version, other settings, another store) are sent away: their command works alone.
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
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from kb import __version__
from kb.cli import output, socket_client
from kb.cli.invocation import Session
from kb.cli.log_handlers import wants_stderr
from kb.config import Config, ServeConfig, load
from kb.deadline import Deadline
from kb.errors import KbError, Stopped
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.types import JsonDict

_AT_ONCE = 4
_READ_S = 5.0
_MOST_BYTES = 1 << 20
_LONGEST_PATH = 100  # of a socket: 108 bytes on Linux, 104 elsewhere
_log = logger("kb.instant")


@contextmanager
def answering(kb: KnowledgeBase) -> Iterator[None]:
    """Answer at the store's socket while what is inside runs; quietly not, where that cannot be."""
    desk = _Desk(kb) if os.name == "posix" else None
    if desk is None or not desk.open():
        yield
        return
    try:
        yield
    finally:
        desk.close()


class Sheet(io.StringIO):
    """A stream somewhere else, with what `page` asks of one."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__()
        self._terminal = bool(told["terminal"])
        self.colour = bool(told["colour"])
        self.columns = int(told["columns"])
        self.told_encoding = str(told["encoding"])

    def isatty(self) -> bool:
        return self._terminal


class Lent(Session):
    """A session whose knowledge base stays open."""

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__()
        self._kb = kb

    def open(self, overrides: Mapping[str, Any] | None = None) -> KnowledgeBase:
        assert not overrides, "a search changes no settings"
        self.warn_of_ignored(self._kb.config)
        return _StaysOpen(self._kb)  # type: ignore[return-value]  # entered, it is one


class _StaysOpen:
    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __enter__(self) -> KnowledgeBase:
        return self._kb

    def __exit__(self, *_: object) -> None:
        pass


class _Desk:
    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._store = os.path.realpath(kb.path)
        self._path = self._store + socket_client.SUFFIX
        self._settings = socket_client.settings_of(dict(os.environ))
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="kb-instant")
        self._asked: dict[int, Deadline] = {}  # by the number of the connection
        self._listening: socket.socket | None = None
        self._ours: tuple[int, int] | None = None

    # --- from start to end ------------------------------------------------------------------------

    def open(self) -> bool:
        if len(os.fsencode(self._path)) > _LONGEST_PATH or _is_answered(self._path):
            return False
        try:
            self._listening = self._listen()
        except OSError as error:  # a folder that cannot be written, a disk without sockets
            _log.info("no socket at %s: %s", self._path, error)
            return False
        threading.Thread(target=self._accept, name="kb-instant", daemon=True).start()
        self._threads.submit(self._warm)
        return True

    def _listen(self) -> socket.socket:
        """Made beside and moved into its place, so that it is the owner's alone from the first
        moment, and one that a killed process has left is replaced."""
        part = f"{self._path}.{os.getpid()}"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                os.unlink(part)
            listening.bind(part)
            os.chmod(part, 0o600)
            listening.listen(16)
            info = os.lstat(part)
            os.replace(part, self._path)
        except OSError:
            listening.close()
            raise
        self._ours = (info.st_dev, info.st_ino)
        return listening

    def close(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with suppress(OSError):
            info = os.lstat(self._path)
            if (info.st_dev, info.st_ino) == self._ours:  # and not another's by now
                os.unlink(self._path)
        for deadline in list(self._asked.values()):
            deadline.cancel()
        self._threads.shutdown(cancel_futures=True)

    def _warm(self) -> None:
        """The first question is to be answered as fast as the others."""
        with suppress(KbError):
            if (encoder := self._kb.encoder()) is not None:
                encoder.encode(["warm"], as_query=True)  # before, or it were a slow search
            self._kb.search("warm", top=1)

    def _accept(self) -> None:
        """Begins what is asked, and cancels it when the one who asked has gone."""
        ears = select.poll()
        with suppress(OSError, ValueError):  # closed meanwhile
            while (listening := self._listening) is not None:
                ears.register(listening, select.POLLIN)
                own, heard = listening.fileno(), [number for number, _ in ears.poll()]
                for number in heard:
                    if number != own:  # it has hung up, or is closed on this side
                        ears.unregister(number)
                        if (deadline := self._asked.pop(number, None)) is not None:
                            deadline.cancel()
                # After those that have gone, whose numbers new ones may get.
                if own in heard and not self._begin(listening, ears):
                    return

    def _begin(self, listening: socket.socket, ears: select.poll) -> bool:
        connection, _ = listening.accept()
        # Who waits no longer has done the work alone.
        deadline = Deadline(socket_client.ANSWER_S)
        self._asked[connection.fileno()] = deadline
        ears.register(connection, 0)
        try:
            done = self._threads.submit(self._serve, connection, deadline)
        except RuntimeError:  # closed meanwhile
            connection.close()
            return False
        done.add_done_callback(_closing(connection))  # also where it never came to it
        return True

    # --- one request ------------------------------------------------------------------------------

    def _serve(self, connection: socket.socket, deadline: Deadline) -> None:
        try:
            if socket_client.peer_uid(connection) != os.getuid():
                return
            connection.settimeout(_READ_S)
            request = _read(connection)
            with deadline:
                answer = self._answer(request)
            deadline.check()  # an error of ours, such as too little time, is none of theirs
            connection.sendall(json.dumps(answer).encode())
        except Stopped as error:
            _log.info("a search was given up: %s", error)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.info("a request that makes no sense: %s", error)
        # Whoever asked works alone then; this process goes on.
        except Exception:  # noqa: BLE001
            _log.exception("internal error")

    def _answer(self, request: JsonDict) -> JsonDict:
        if (why := self._unfit(request)) is not None:
            return {"answered": False, "why": why}
        from kb.cli.run import run

        out, err = Sheet(request["out"]), Sheet(request["err"])
        with output.written_to(out, err):
            status = run([str(arg) for arg in request["args"]], Lent(self._kb))
        return {"answered": True, "status": status, "out": out.getvalue(), "err": err.getvalue()}

    def _unfit(self, request: JsonDict) -> str | None:
        """Why the answer could be another than that of the command alone."""
        fits = {
            "protocol": socket_client.PROTOCOL,
            "version": __version__,
            "prefix": sys.prefix,
            "store": self._store,
            "settings": self._settings,
        }
        for name, ours in fits.items():
            if request[name] != ours:
                return name
        if request["args"][:1] != ["search"]:
            return "args"
        try:
            now = load(self._kb.path)
        except KbError:  # the command will say what is wrong with them
            return "settings"
        if wants_stderr(now):  # its own stderr, and not that of this process
            return "log"
        return None if _searching(now) == _searching(self._kb.config) else "settings"


def _closing(connection: socket.socket) -> Callable[[object], None]:
    def close(_done: object) -> None:
        with suppress(OSError):  # the other side has closed it
            connection.shutdown(socket.SHUT_RDWR)  # by itself, `close` waits for the poll
        connection.close()

    return close


def _searching(config: Config) -> Config:
    """The settings that a search could notice. Those that are ignored are named by a warning."""
    return replace(config, serve=ServeConfig(), origins={}, trusted=())


def _read(connection: socket.socket) -> JsonDict:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise ValueError("a request that is too long")
    request = json.loads(b"".join(parts))
    if not isinstance(request, dict):
        raise TypeError("a request that is no object")
    return request


def _is_answered(path: str) -> bool:
    """Whether another process is there already."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(socket_client.CONNECT_S)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
