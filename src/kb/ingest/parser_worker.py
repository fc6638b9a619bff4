"""The program of a parser process: reads files from standard input, and writes their chunks to
standard output.

`parser_pool` starts it. It ends when its input ends, even while it parses a file. It imports as
little as possible, since the first file of a run waits for it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import Any, BinaryIO

from kb import __version__
from kb.ingest import parser_wire as wire
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.parsed_document import ChunkedDocument, parse_and_chunk
from kb.ingest.parser_limits import OUT_OF_MEMORY, exit_with_parent, limit_cpu, limit_memory
from kb.ingest.parser_registry import load_parser
from kb.ports import Parser, Source

_REASON_CHARS = 2000
_STEPS = 100  # progress messages for one file, at most


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process, not the keyboard
    requests, responses = _pipes()
    exit_with_parent(requests.fileno())
    parsers: dict[tuple[str, int], Parser] = {}
    _send(responses, {"version": __version__})
    while (request := wire.read(requests.read)) is not None:
        limit_memory(request["memory_bytes"])
        limit_cpu(request["cpu_s"])
        response = _Response(responses)
        try:
            data = requests.read(request["size"])
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # the rest of the file would be read as the next request
        _serve(request, data, response, parsers)
        del data
        limit_cpu(0)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Duplicate standard input and output, and redirect the originals: output that a parser prints
    goes to standard error, not between the messages."""
    requests, responses = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt

        for number in (requests, responses):
            msvcrt.setmode(number, os.O_BINARY)
    return open(requests, "rb"), open(responses, "wb", buffering=0)


def _send(responses: BinaryIO, message: wire.Message) -> None:
    data = memoryview(wire.encode(message))
    try:
        while data:
            data = data[responses.write(data) :]
    except BrokenPipeError:
        os._exit(0)  # the parent has ended


def _serve(
    request: wire.Message, data: bytes, response: _Response, parsers: dict[tuple[str, int], Parser]
) -> None:
    try:
        key = request["parser"], request["max_chars"]
        if key not in parsers:
            parsers[key] = load_parser(*key)
            if "logging" in sys.modules:
                _forward_logs(response)
        source = Source(request["name"], data, request["mtime_ns"], response.progress)
        if request["want"] == "text":
            response.text(parsers[key].parse(source).text)
        else:
            document = parse_and_chunk(parsers[key], source, request["max_chars"])
            if request["want"] == "chunks and language":
                document = _with_language(document)
            response.document(document)
    except MemoryError:
        response.fail("memory", "")
    except Unsupported as unsupported:
        kind = "unavailable" if isinstance(unsupported, Unavailable) else "unsupported"
        response.fail(kind, unsupported.reason)
    except SystemExit as exit_:
        response.fail("unreadable", f"its parser exited: SystemExit: {exit_}")
    # Files and parsers may come from anywhere: any error fails this file alone.
    except Exception as error:  # noqa: BLE001
        from kb.ingest.report import reason_of

        response.fail("memory" if _lacked_memory(error) else "unreadable", reason_of(error))


def _with_language(document: ChunkedDocument) -> ChunkedDocument:
    if document.lang or document.attributes.lang:
        return document
    from kb.text.language import sample_language

    chunks = list(document.chunks)
    return replace(document, lang=sample_language(chunks), chunks=chunks, lang_detected=True)


def _lacked_memory(error: BaseException) -> bool:
    """Whether the error is a `MemoryError`, or was caused by one."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, MemoryError) or (cause is not None and _lacked_memory(cause))


class _Response:
    """The response to one request, sent in messages of bounded length."""

    def __init__(self, responses: BinaryIO) -> None:
        self._stream = responses
        self._reported = (-1, 0)
        self._head: wire.Message = {}
        self._rows: list[Any] = []
        self._chars = 0

    def progress(self, part: int, parts: int) -> None:
        """Send the parser's progress after its chunks, at most a hundred times for a file."""
        if parts <= 0 or not 0 <= part <= parts:
            return
        now = (part * _STEPS // parts, parts)
        if now != self._reported:
            self._reported = now
            if self._rows:
                self._flush(more=True)
            _send(self._stream, {"progress": [int(part), int(parts)]})

    def document(self, document: ChunkedDocument) -> None:
        self._head = {"document": wire.document_message(document)}
        for chunk in document.chunks:
            self._rows.append(wire.chunk_message(chunk))
            self._chars += len(chunk.text) + sum(map(len, chunk.heading_path))
            if self._chars >= wire.BATCH_CHARS:
                self._flush(more=True)
        self._flush(more=False)

    def _flush(self, *, more: bool) -> None:
        _send(self._stream, {**self._head, "chunks": self._rows, "more": more})
        self._head, self._rows, self._chars = {}, [], 0

    def text(self, text: str | None) -> None:
        if text is not None:
            for start in range(0, len(text), wire.PIECE_CHARS):
                piece = text[start : start + wire.PIECE_CHARS]
                _send(self._stream, {"text": piece, "more": True})
        _send(self._stream, {"text": None if text is None else "", "more": False})

    def fail(self, kind: str, reason: str) -> None:
        try:
            _send(self._stream, {"error": [kind, reason[:_REASON_CHARS]]})
        except MemoryError:
            os._exit(OUT_OF_MEMORY)

    def log(self, name: str, level: int, text: str) -> None:
        _send(self._stream, {"log": [name, level, text]})


def _forward_logs(response: _Response) -> None:
    """Send log records of the parsers to the parent, whose handlers write them."""
    import logging

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            response.log(record.name, record.levelno, record.getMessage())

    logging.getLogger("kb").handlers = [Forward()]


if __name__ == "__main__":
    main()
