"""Where files of any origin are parsed: in processes of their own, under limits.

    with start("pdf", source, max_chars, limits) as parsing:
        for chunk in parsing.document().chunks: ...

A file can make its parser take all memory, run for hours or crash. So no file is parsed in the
process that holds the store: a parser process gets its bytes and answers with its chunks. One that
breaks its limits is ended, and costs its file alone. All threads share the parser processes, which
are started when they are needed, kept for the next file, and ended after a minute without one.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from kb import deadline
from kb.errors import ParserUnavailable
from kb.ingest import parser_wire as wire
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parsed_document import ChunkedDocument
from kb.ingest.parser_limits import OUT_OF_MEMORY, OUT_OF_TIME, Limits
from kb.ingest.parser_process import OnWait, ParserProcess, ending
from kb.logs import logger
from kb.ports import Source
from kb.types import ChunkDraft

_MOST_PROCESSES = 4  # a file that comes while all are at work waits
_IDLE_S = 60.0
_WAIT_S = 0.25


def _nothing() -> None:
    """For callers who have nothing to do while they wait."""


def start(
    parser: str,
    source: Source,
    max_chars: int,
    limits: Limits,
    on_wait: OnWait = _nothing,
    *,
    want: str = "chunks",
) -> Parsing:
    """Send `source` to a process, which begins to parse it with the parser of this place (see
    `parsers.registry`). With `want="text"`, only its text will be asked for.

    `on_wait` is called a few times a second while the caller has to wait, now and later. What it
    raises ends the parsing, and so does the deadline of the thread. Raises `ParserUnavailable` if
    no process can be started.
    """
    size = len(source.data)
    limits = limits.for_file(size)
    request = {
        "parser": parser,
        "max_chars": max_chars,
        "name": source.name,
        "mtime_ns": source.mtime_ns,
        "want": want,
        "size": size,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
    }
    process = _POOL.take(limits.memory_bytes, on_wait)
    parsing = Parsing(process, limits, source, on_wait)
    try:
        process.send(request, source.data, on_wait)
    except BaseException:
        parsing.close()
        raise
    return parsing


def extract_text(parser: str, source: Source, max_chars: int, limits: Limits) -> str | None:
    """The text that the parser takes out of `source`; None where that is the file's own. Raises
    what `start` and `Parsing.document` do."""
    with start(parser, source, max_chars, limits, want="text") as parsing:
        return parsing.text()


def prepare() -> None:
    """Start a process now, so that it is ready when the first file is read."""
    _POOL.prepare()


def close() -> None:
    """End all processes. The next file starts another one."""
    _POOL.close()


# --- one file -------------------------------------------------------------------------------------


class Parsing:
    """A file that is being parsed in another process, for as long as it keeps to the limits. To be
    closed, which ends what is not done."""

    def __init__(
        self, process: ParserProcess, limits: Limits, source: Source, on_wait: OnWait
    ) -> None:
        self._process: ParserProcess | None = process
        self._limits = limits
        self._name, self._tell = source.name, source.tell
        self._on_wait = on_wait
        self._waited_s = 0.0
        self._bytes = 0

    def __enter__(self) -> Parsing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_complete(self) -> bool:
        """Whether all of the answer is here, and its process free for another file."""
        return self._process is None

    def document(self) -> ChunkedDocument:
        """The document, as soon as its first chunks are known; a long file is parsed further while
        they are read. Raises `Unsupported` and `Unreadable`, now or while the chunks are read: as
        the parser does, and where the file breaks the limits."""
        try:
            first = self._next()
            return wire.document_of(first.get("document"), self._chunks(first))
        except wire.Malformed as error:
            raise _senseless(error) from error

    def text(self) -> str | None:
        pieces: list[str] = []
        try:
            while not self.is_complete:
                piece = self._next().get("text")
                if not isinstance(piece, str):
                    return None
                pieces.append(piece)
        except wire.Malformed as error:
            raise _senseless(error) from error
        return "".join(pieces)

    def close(self) -> None:
        self._release(usable=False)

    def _release(self, *, usable: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            _POOL.give_back(process, usable=usable)

    def _chunks(self, message: wire.Message) -> Iterator[ChunkDraft]:
        """The chunks of `message` and of those that follow it."""
        try:
            while True:
                yield from map(wire.chunk_of, wire.rows_of(message))
                if not message.get("more"):
                    return
                message = self._next()
        except wire.Malformed as error:
            raise _senseless(error) from error

    def _next(self) -> wire.Message:
        """The next part of the answer. What the parser tells or logs before it is passed on."""
        while True:
            message = self._receive()
            if "tell" in message:
                self._tell(*wire.progress_of(message["tell"]))
            elif "log" in message:
                name, level, text = wire.log_of(message["log"])
                logger(name).log(level, "%s: %s", self._name, text)
            elif "error" in message:
                kind, reason = wire.error_of(message["error"])
                self._release(usable=kind != "memory")  # it may have kept what it got
                raise self._error(kind, reason)
            else:
                if not message.get("more"):
                    self._release(usable=True)
                return message

    def _receive(self) -> wire.Message:
        """The next message. What counts is the time that is spent waiting for the parser: the
        store that takes its chunks may be slow as well."""
        if (process := self._process) is None:
            raise wire.Malformed("its end is missing")
        started = time.monotonic()

        def tick() -> None:
            if self._waited_s + time.monotonic() - started > self._limits.timeout_s:
                raise self._error("time", "")
            deadline.check()
            self._on_wait()

        body = process.receive(tick)
        self._waited_s += time.monotonic() - started
        if body is None:
            raise self._ended(process.end())
        self._bytes += len(body)
        if self._bytes > self._limits.output_bytes:
            raise Unreadable(f"gives more than {_size(self._limits.output_bytes)} of text")
        return wire.decode(body)

    def _error(self, kind: str, reason: str) -> Unreadable | Unsupported:
        """What the parser has raised, in the process where it has run."""
        if kind == "unsupported":
            return Unsupported(reason)
        if kind == "unavailable":
            return Unavailable(reason)
        if kind == "time":
            return Unreadable(
                f"takes longer than {self._limits.timeout_s:,.0f} s to be parsed "
                "(see the setting ingest.parse_timeout_s)"
            )
        if kind == "memory":
            return Unreadable(
                f"needs more than {_size(self._limits.memory_bytes)} of memory to be parsed "
                "(see the setting ingest.parse_memory_bytes)"
            )
        return Unreadable(reason)

    def _ended(self, status: int) -> Unreadable | Unsupported:
        """What a process that is gone leaves unsaid. Many libraries crash where they get no
        memory."""
        if status in (OUT_OF_MEMORY, OUT_OF_TIME):
            return self._error("memory" if status == OUT_OF_MEMORY else "time", "")
        return Unreadable(
            f"its parser crashed ({ending(status)}), perhaps since it needed more than "
            f"{_size(self._limits.memory_bytes)} of memory"
        )


def _senseless(error: wire.Malformed) -> Unreadable:
    return Unreadable(f"its parser gave an answer that makes no sense: {error}")


def _size(size_bytes: int) -> str:
    """`1 GB`, `300 MB`."""
    mb = size_bytes / (1024 * 1024)
    return f"{mb / 1024:.3g} GB" if mb >= 1000 else f"{mb:.3g} MB"


# --- all processes --------------------------------------------------------------------------------


class _Pool:
    """The parser processes of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[ParserProcess] = []  # the one that was used last at the end
        self._busy: set[ParserProcess] = set()
        self._closed: threading.Event | None = None  # ends the thread that ends idle processes

    def take(self, memory_bytes: int, on_wait: OnWait) -> ParserProcess:
        """A process for one file, which is to be given back."""
        while True:
            with self._changed:
                if (process := self._free(memory_bytes)) is not None:
                    self._busy.add(process)
                    return process
                self._changed.wait(_WAIT_S)
            deadline.check()
            on_wait()

    def _free(self, memory_bytes: int) -> ParserProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.fits(memory_bytes):
                return process
            process.kill()
        return ParserProcess() if len(self._busy) < _MOST_PROCESSES else None

    def give_back(self, process: ParserProcess, *, usable: bool) -> None:
        """Keep a process for the next file; end one that is not `usable`."""
        with self._changed:
            usable = usable and process in self._busy  # else `close` has ended it
            self._busy.discard(process)
            if usable:
                self._keep(process)
            self._changed.notify()
        if not usable:
            process.kill()

    def prepare(self) -> None:
        with self._changed:
            if not self._idle and not self._busy:
                with suppress(ParserUnavailable):  # which the first file will report
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
        """End processes that have had nothing to do for a while. Ends with the last of them."""
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
        """In a fork: the processes are those of the parent, and its locks may be held for ever."""
        for process in (*self._idle, *self._busy):
            process.forget()
        self.__init__()  # type: ignore[misc]


_POOL = _Pool()
atexit.register(_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.forget)
