"""Parses files in separate processes, under limits.

    with start("pdf", source, max_chars, limits) as parsing:
        for chunk in parsing.document().chunks: ...

A hostile file can make its parser use all memory, run for hours or crash. So no file is parsed in
the process that holds the store: a parser process receives its bytes and returns its chunks. A
process that exceeds its limits is ended, and only its file fails. All threads share the parser
processes, which are started on demand, reused for the next file, and ended after a minute without
work.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from kb import deadline, shutdown
from kb.errors import ParserUnavailable
from kb.ingest import parser_wire as wire
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parsed_document import ChunkedDocument
from kb.ingest.parser_limits import OUT_OF_MEMORY, OUT_OF_TIME, Limits
from kb.ingest.parser_process import OnWait, ParserProcess, describe_exit
from kb.ingest.parser_support import ocr
from kb.logs import logger
from kb.ports import Source
from kb.types import ChunkDraft

_MAX_PROCESSES = 4  # further files wait
_IDLE_S = 60.0
_WAIT_S = 0.25
_BUFFER_BYTES = 512 * 1024  # of a result in memory; a longer one goes to disk


def _no_op() -> None:
    """The default of `on_wait`."""


def start(
    parser: str,
    source: Source,
    max_chars: int,
    limits: Limits,
    on_wait: OnWait = _no_op,
    *,
    want: str = "chunks",
) -> Parsing:
    """Send `source` to a process, which starts to parse it.

    `parser` is the location of the parser (see `parser_registry`). With `want="text"`, the process
    returns the text instead of chunks. `on_wait` is called a few times a second while the caller
    waits, here or for the result; an exception from it ends the parsing, and so does the thread's
    deadline. Raises `ParserUnavailable` if no process can be started.
    """
    limits = limits.for_file(len(source.data))
    if parser in ocr.PARSERS and ocr.is_available():
        limits = limits.for_ocr()
    request = request_for(parser, source, max_chars, limits, want)
    process = acquire(limits, on_wait)
    parsing = Parsing(process, limits, source, on_wait)
    try:
        process.send(request, source.data, on_wait)
    except BaseException:
        parsing.close()
        raise
    return parsing


def request_for(
    parser: str, source: Source, max_chars: int, limits: Limits, want: str
) -> wire.Message:
    """The message that precedes the bytes of a file."""
    return {
        "parser": parser,
        "max_chars": max_chars,
        "name": source.name,
        "mtime_ns": source.mtime_ns,
        "want": want,
        "size": len(source.data),
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
    }


def extract_text(parser: str, source: Source, max_chars: int, limits: Limits) -> str | None:
    """Return the text that the parser extracts from `source`; None if it is the file's own text.

    Raises the errors of `start` and `Parsing.document`.
    """
    with start(parser, source, max_chars, limits, want="text") as parsing:
        return parsing.text()


def acquire(limits: Limits, on_wait: OnWait) -> ParserProcess:
    """Wait for a process; `release` it afterwards."""
    return _POOL.acquire(limits.memory_bytes, on_wait)


def release(process: ParserProcess, *, usable: bool) -> None:
    """Keep a process for other files, or end it if it is not `usable`."""
    _POOL.release(process, usable=usable)


def warm_up() -> None:
    """Start a process now, so that it is ready when the first file is read."""
    _POOL.warm_up()


def close() -> None:
    """End all processes. The next file starts a new one."""
    _POOL.close()


# --- one file -------------------------------------------------------------------------------------


class Parsing:
    """The parsing of one file in another process, within the limits.

    Must be closed, which ends the process if it is not done.
    """

    def __init__(
        self, process: ParserProcess | None, limits: Limits, source: Source, on_wait: OnWait
    ) -> None:
        self._process = process
        self._limits = limits
        self._name, self._on_progress = source.name, source.on_progress
        self._on_wait = on_wait
        self._waited_s = 0.0
        self._bytes = 0
        self._body: bytes | bytearray = b""  # of the last message
        self._buffer: IO[bytes] | None = None

    def __enter__(self) -> Parsing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_complete(self) -> bool:
        """Whether the whole result has arrived, so that the process is free for another file."""
        return self._process is None

    @property
    def is_short(self) -> bool:
        """Whether the whole result has arrived, and is short enough for memory."""
        return self.is_complete and self._bytes <= _BUFFER_BYTES

    def document(self) -> ChunkedDocument:
        """Return the document as soon as its first chunks arrive; the rest of a long file is parsed
        while its chunks are iterated.

        Raises `Unsupported` and `Unreadable`, here or during the iteration, if the parser raises
        them or if the file exceeds the limits.
        """
        try:
            first = self._next()
            return wire.document_of(first.get("document"), self._chunks(first))
        except wire.MalformedMessage as error:
            raise _invalid_result(error) from error

    def receive_all(self) -> None:
        """Receive the rest of the result now, into a temporary file if it is long, so that nothing
        waits for the parser while the chunks are iterated. Raises as `document` does."""
        if self.is_complete or self._buffer is not None:
            return
        buffer = self._buffer = tempfile.SpooledTemporaryFile(_BUFFER_BYTES)  # noqa: SIM115  # see `close`
        try:
            more = True
            while more:
                more = bool(self._next_from_process().get("more"))
                buffer.write(len(self._body).to_bytes(8, "big") + self._body)
        except wire.MalformedMessage as error:
            raise _invalid_result(error) from error
        buffer.seek(0)

    def text(self) -> str | None:
        """Return the extracted text; None if it is the file's own. Raises as `document` does."""
        pieces: list[str] = []
        try:
            while not self.is_complete:
                piece = self._next().get("text")
                if not isinstance(piece, str):
                    return None
                pieces.append(piece)
        except wire.MalformedMessage as error:
            raise _invalid_result(error) from error
        return "".join(pieces)

    def close(self) -> None:
        self._release(usable=False)
        if self._buffer is not None:
            self._buffer.close()

    def _release(self, *, usable: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            _POOL.release(process, usable=usable)

    def _chunks(self, message: wire.Message) -> Iterator[ChunkDraft]:
        """Yield the chunks of `message` and of the messages after it."""
        try:
            while True:
                yield from map(wire.chunk_of, wire.rows_of(message))
                if not message.get("more"):
                    return
                message = self._next()
        except wire.MalformedMessage as error:
            raise _invalid_result(error) from error

    def _next(self) -> wire.Message:
        """Return the next part of the result."""
        if self._buffer is None:
            return self._next_from_process()
        size = int.from_bytes(self._buffer.read(8), "big")
        return wire.decode(self._buffer.read(size))

    def _next_from_process(self) -> wire.Message:
        """Wait for the next part of the result; pass on progress and log records before it."""
        while True:
            message = self._receive()
            if "progress" in message:
                self._on_progress(*wire.progress_of(message["progress"]))
            elif "log" in message:
                name, level, text = wire.log_of(message["log"])
                logger(name).log(level, "%s: %s", self._name, text)
            elif "error" in message:
                kind, reason = wire.error_of(message["error"])
                self._release(usable=kind != "memory")  # it may still hold the memory
                raise self._error(kind, reason)
            else:
                if not message.get("more"):
                    self._release(usable=True)
                return message

    def _receive(self) -> wire.Message:
        """Return the next message. Only the time spent waiting for the parser counts, since the
        store may be slow as well."""
        if (process := self._process) is None:
            raise wire.MalformedMessage("the result is incomplete")
        started = time.monotonic()

        def tick() -> None:
            if self._waited_s + time.monotonic() - started > self._limits.timeout_s:
                raise self._error("time", "")
            deadline.check()
            self._on_wait()

        body = process.receive(tick)
        self._waited_s += time.monotonic() - started
        if body is None:
            raise self._exit_error(process.wait())
        self._body = body
        self._bytes += len(body)
        if self._bytes > self._limits.output_bytes:
            raise Unreadable(f"contains more than {_size(self._limits.output_bytes)} of text")
        return wire.decode(body)

    def _error(self, kind: str, reason: str) -> Unreadable | Unsupported:
        """The exception for an error that the parser process reported."""
        if kind == "unsupported":
            return Unsupported(reason)
        if kind == "unavailable":
            return Unavailable(reason)
        if kind == "time":
            return Unreadable(
                f"takes longer than {self._limits.timeout_s:,.0f} s to parse; "
                "if you trust it, raise ingest.parse_timeout_s"
            )
        if kind == "memory":
            return Unreadable(
                f"needs more than {_size(self._limits.memory_bytes)} of memory to parse; "
                "if you trust it, raise ingest.parse_memory_bytes"
            )
        return Unreadable(reason)

    def _exit_error(self, status: int) -> Unreadable | Unsupported:
        """The exception for a process that ended without a result. Many libraries crash when an
        allocation fails."""
        if status in (OUT_OF_MEMORY, OUT_OF_TIME):
            return self._error("memory" if status == OUT_OF_MEMORY else "time", "")
        return Unreadable(
            f"its parser crashed ({describe_exit(status)}), possibly because it needed more than "
            f"{_size(self._limits.memory_bytes)} of memory"
        )


def _invalid_result(error: wire.MalformedMessage) -> Unreadable:
    return Unreadable(f"its parser returned an invalid result: {error}")


def _size(size_bytes: int) -> str:
    """Format a size: `1 GB`, `300 MB`."""
    mb = size_bytes / (1024 * 1024)
    return f"{mb / 1024:.3g} GB" if mb >= 1000 else f"{mb:.3g} MB"


# --- all processes --------------------------------------------------------------------------------


class _Pool:
    """The parser processes of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[ParserProcess] = []  # in the order of their last use
        self._busy: set[ParserProcess] = set()
        self._closed: threading.Event | None = None  # stops the thread that ends idle processes

    def acquire(self, memory_bytes: int, on_wait: OnWait) -> ParserProcess:
        """Wait for a process for one file; `release` it afterwards."""
        while True:
            with self._changed:
                if (process := self._idle_or_new(memory_bytes)) is not None:
                    self._busy.add(process)
                    return process
                self._changed.wait(_WAIT_S)
            deadline.check()
            on_wait()

    def _idle_or_new(self, memory_bytes: int) -> ParserProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.fits(memory_bytes):
                return process
            process.kill()
        return ParserProcess() if len(self._busy) < _MAX_PROCESSES else None

    def release(self, process: ParserProcess, *, usable: bool) -> None:
        """Keep a process for the next file, or end it if it is not `usable`."""
        with self._changed:
            usable = usable and process in self._busy  # otherwise `close` has ended it
            self._busy.discard(process)
            if usable:
                self._keep(process)
            self._changed.notify()
        if not usable:
            process.kill()

    def warm_up(self) -> None:
        with self._changed:
            if not self._idle and not self._busy:
                with suppress(ParserUnavailable):  # the first file will report it
                    self._keep(ParserProcess())

    def _keep(self, process: ParserProcess) -> None:
        process.idle_since = time.monotonic()
        self._idle.append(process)
        if self._closed is None:
            self._closed = threading.Event()
            threading.Thread(
                target=self._reap, args=(self._closed,), name="kb-parsers", daemon=True
            ).start()

    def _reap(self, closed: threading.Event) -> None:
        """End idle processes after a while; return when no process is left."""
        while not closed.wait(_IDLE_S / 4):
            with self._changed:
                while self._idle and time.monotonic() - self._idle[0].idle_since > _IDLE_S:
                    self._idle.pop(0).kill()
                if not self._idle and not self._busy and self._closed is closed:
                    self._closed = None
                    return

    def close(self) -> None:
        with self._changed:
            idle, busy = self._idle, self._busy
            self._idle, self._busy = [], set()
            if self._closed is not None:
                self._closed.set()
                self._closed = None
        for process in idle:
            process.kill()
        for process in busy:
            process.interrupt()

    def forget(self) -> None:
        """Reset the pool after a fork: the processes and the held locks are the parent's."""
        for process in (*self._idle, *self._busy):
            process.forget()
        self.__init__()  # type: ignore[misc]


_POOL = _Pool()
atexit.register(_POOL.close)
shutdown.before_exit.append(_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.forget)
