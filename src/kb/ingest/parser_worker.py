"""A parser process: reads one file after the other from its standard input, and answers with the
chunks of each on its standard output.

It is started by `parser_pool`, and ends when its input does. What it imports is kept to the least:
the first file of a run waits for it to start.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, BinaryIO

from kb import __version__
from kb.ingest import parser_wire as wire
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.parsed_document import ChunkedDocument, parse_and_chunk
from kb.ingest.parser_limits import OUT_OF_MEMORY, limit_cpu, limit_memory
from kb.ingest.parser_registry import load_parser
from kb.ports import Parser, Source

_REASON_CHARS = 2000
_STEPS = 100  # of one file, however often its parser tells


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it, not the keyboard
    requests, answers = _pipes()
    parsers: dict[tuple[str, int], Parser] = {}
    _send(answers, {"version": __version__})
    while (request := wire.read(requests.read)) is not None:
        limit_memory(request["memory_bytes"])
        limit_cpu(request["cpu_s"])
        answer = _Answer(answers)
        try:
            data = requests.read(request["size"])
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # the rest of the file would be taken for the next request
        _serve(request, data, answer, parsers)
        del data
        limit_cpu(0)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output under other numbers: what a parser prints must not get between the
    messages, and goes to standard error."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt

        for number in (requests, answers):
            msvcrt.setmode(number, os.O_BINARY)
    return open(requests, "rb"), open(answers, "wb", buffering=0)


def _send(answers: BinaryIO, message: wire.Message) -> None:
    data = memoryview(wire.encode(message))
    try:
        while data:
            data = data[answers.write(data) :]
    except BrokenPipeError:
        os._exit(0)  # the parent has ended, and nobody waits for the rest


def _serve(
    request: wire.Message, data: bytes, answer: _Answer, parsers: dict[tuple[str, int], Parser]
) -> None:
    try:
        key = request["parser"], request["max_chars"]
        if key not in parsers:
            parsers[key] = load_parser(*key)
            if "logging" in sys.modules:
                _forward_logs(answer)
        source = Source(request["name"], data, request["mtime_ns"], answer.tell)
        if request["want"] == "text":
            answer.text(parsers[key].parse(source).text)
        else:
            answer.document(parse_and_chunk(parsers[key], source, request["max_chars"]))
    except MemoryError:
        answer.fail("memory", "")
    except Unsupported as unsupported:
        kind = "unavailable" if isinstance(unsupported, Unavailable) else "unsupported"
        answer.fail(kind, unsupported.reason)
    except SystemExit as left:
        answer.fail("unreadable", f"its parser has left: SystemExit: {left}")
    # Parsers read files of any origin, and some are other people's: whatever they raise is the
    # failure of this file alone.
    except Exception as error:  # noqa: BLE001
        from kb.ingest.report import reason_of

        answer.fail("memory" if _lacked_memory(error) else "unreadable", reason_of(error))


def _lacked_memory(error: BaseException) -> bool:
    """Whether a parser has made another error of a `MemoryError`."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, MemoryError) or (cause is not None and _lacked_memory(cause))


class _Answer:
    """The answer to one request, sent in messages of a bounded length."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._told = (-1, 0)
        self._head: wire.Message = {}
        self._rows: list[Any] = []
        self._chars = 0

    def tell(self, part: int, parts: int) -> None:
        """How far the parser is: behind the chunks it has made, a hundred times for a file at
        most."""
        if parts <= 0 or not 0 <= part <= parts:
            return
        now = (part * _STEPS // parts, parts)
        if now != self._told:
            self._told = now
            if self._rows:
                self._flush(more=True)
            _send(self._answers, {"tell": [int(part), int(parts)]})

    def document(self, document: ChunkedDocument) -> None:
        self._head = {"document": wire.document_message(document)}
        for chunk in document.chunks:
            self._rows.append(wire.chunk_message(chunk))
            self._chars += len(chunk.text) + sum(map(len, chunk.heading_path))
            if self._chars >= wire.BATCH_CHARS:
                self._flush(more=True)
        self._flush(more=False)

    def _flush(self, *, more: bool) -> None:
        _send(self._answers, {**self._head, "chunks": self._rows, "more": more})
        self._head, self._rows, self._chars = {}, [], 0

    def text(self, text: str | None) -> None:
        if text is not None:
            for start in range(0, len(text), wire.PIECE_CHARS):
                piece = text[start : start + wire.PIECE_CHARS]
                _send(self._answers, {"text": piece, "more": True})
        _send(self._answers, {"text": None if text is None else "", "more": False})

    def fail(self, kind: str, reason: str) -> None:
        try:
            _send(self._answers, {"error": [kind, reason[:_REASON_CHARS]]})
        except MemoryError:
            os._exit(OUT_OF_MEMORY)

    def log(self, name: str, level: int, text: str) -> None:
        _send(self._answers, {"log": [name, level, text]})


def _forward_logs(answer: _Answer) -> None:
    """Send what the parsers log to the parent, whose handlers write it."""
    import logging

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            answer.log(record.name, record.levelno, record.getMessage())

    logging.getLogger("kb").handlers = [Forward()]


if __name__ == "__main__":
    main()
