"""Sends short files to a parser process before the results of earlier files have arrived.

A message to a process and back costs as much as parsing a short file, if each waits for the other.
In a pipeline, the process parses while this one reads and writes. The language of a file is
detected there too, since that takes longer than parsing it.

Files are sent only as long as they fit into the pipe, so that sending never waits. A file that ends
the process, or exceeds its limits, fails alone: the files behind it are sent to another process.
"""

from __future__ import annotations

from collections import deque

from kb.ingest.parser_limits import Limits
from kb.ingest.parser_pool import Parsing, acquire, release, request_for
from kb.ingest.parser_process import OnWait, ParserProcess
from kb.ingest.parser_wire import Message
from kb.ports import Source

MAX_FILE_BYTES = 16 * 1024
_PIPE_BYTES = 60 * 1024  # a pipe holds 64 kB on Linux and macOS
_REQUEST_BYTES = 1024  # overhead per file


class ParserPipeline:
    """One parser process for many short files, used by one thread. Must be closed."""

    def __init__(self, max_chars: int, limits: Limits, on_wait: OnWait) -> None:
        self._max_chars = max_chars
        self._limits = limits
        self._on_wait = on_wait
        self._process: ParserProcess | None = None
        self._sent: deque[PipelinedParsing] = deque()  # files whose results have not arrived yet
        self._sent_bytes = 0

    def start(self, parser: str, source: Source) -> PipelinedParsing:
        """Send a file of at most `MAX_FILE_BYTES` to the process; see `parser_pool.start`."""
        room = _PIPE_BYTES - len(source.data) - _REQUEST_BYTES
        while self._sent_bytes > room:
            self._sent[0].prefetch()
        limits = self._limits.for_file(len(source.data))
        request = request_for(parser, source, self._max_chars, limits, "chunks and language")
        parsing = PipelinedParsing(self, request, limits, source, self._on_wait)
        self.send(parsing)
        return parsing

    def send(self, parsing: PipelinedParsing) -> None:
        if self._process is None:
            self._process = acquire(parsing.limits, self._on_wait)
        self._process.send(parsing.request, parsing.source.data, self._on_wait)
        parsing.attach(self._process)
        self._sent.append(parsing)
        self._sent_bytes += parsing.size

    def turn_of(self, parsing: PipelinedParsing) -> None:
        """Receive the results that precede that of `parsing`, or send the file again if its process
        has ended."""
        while parsing in self._sent and self._sent[0] is not parsing:
            self._sent[0].prefetch()
        if parsing not in self._sent:
            self.send(parsing)
            self.turn_of(parsing)

    def remove(self, parsing: PipelinedParsing, *, usable: bool) -> None:
        """Remove a file whose result has arrived or which has failed. If the process can no longer
        be used, the files behind it will be sent to another one."""
        if parsing not in self._sent:
            return
        usable = usable and parsing is self._sent[0]
        self._sent.remove(parsing)
        self._sent_bytes -= parsing.size
        if not usable:
            for each in self._sent:
                each.detach()
            self._clear()
            self._release(usable=False)

    def close(self) -> None:
        self._release(usable=not self._sent)
        self._clear()

    def _clear(self) -> None:
        self._sent.clear()
        self._sent_bytes = 0

    def _release(self, *, usable: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            release(process, usable=usable)


class PipelinedParsing(Parsing):
    """The parsing of one file in a pipeline."""

    def __init__(
        self, pipeline: ParserPipeline, request: Message, limits: Limits, source: Source,
        on_wait: OnWait,
    ) -> None:  # fmt: skip
        super().__init__(None, limits, source, on_wait)
        self.request = request
        self.limits = limits
        self.source = source
        self._pipeline = pipeline
        self._failure: Exception | None = None
        self._done = False

    @property
    def size(self) -> int:
        """An upper bound for the bytes that it takes in the pipe."""
        return len(self.source.data) + _REQUEST_BYTES

    @property
    def is_complete(self) -> bool:
        return self._done

    def attach(self, process: ParserProcess) -> None:
        self._process = process

    def detach(self) -> None:
        self._process = None

    def prefetch(self) -> None:
        """Receive the result now. An error is raised later, by `document`."""
        try:
            self.receive_all()
        except Exception as error:  # noqa: BLE001 (`_next` raises it)
            self._failure = error
            self._release(usable=False)

    def _next(self) -> Message:
        if self._failure is not None:
            raise self._failure
        return super()._next()

    def _receive(self) -> Message:
        if not self._done:
            self._pipeline.turn_of(self)
        return super()._receive()

    def _release(self, *, usable: bool) -> None:
        if not self._done:
            self._done, self._process = True, None
            self._pipeline.remove(self, usable=usable)
