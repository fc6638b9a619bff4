"""The messages between a parser process and its parent.

A message is its length in four bytes and a JSON object. JSON, not pickle: a process that has parsed
a hostile file must not be able to run code in its parent. The raw bytes of the file follow its
request.

    -> {parser, max_chars, name, mtime_ns, want, size, memory_bytes, cpu_s}, then `size` bytes
    <- {version}                    once, when the process is ready
    <- {progress: [part, parts]}    the parser's progress
    <- {log: [name, level, text]}
    <- {document, chunks, more}     the document, with its first chunks
    <- {chunks, more}               further chunks, until `more` is false
    <- {text, more}                 instead, if the text was requested
    <- {error: [kind, reason]}      instead of the rest

`want` is `chunks`, `chunks and language` or `text`. With the second, the process detects the
language of a document that declares none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from kb.ingest.parsed_document import ChunkedDocument
from kb.types import Attributes, ChunkDraft, Span

Message = dict[str, Any]

FRAME_BYTES = 64 * 1024 * 1024  # no message is longer
BATCH_CHARS = 128 * 1024  # of chunks in one message
PIECE_CHARS = 1024 * 1024  # of a text in one message
SIZE = struct.Struct("<I")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_TEXTS = ("title", "kind", "scope", "trust", "lang", "date", "created_at", "updated_at",
          "expires_at")  # fmt: skip


class MalformedMessage(Exception):
    """A message that a parser process of kb never sends."""


def encode(message: Message) -> bytes:
    """Encode `message` with its length. Lone surrogates, which a plug-in may return, are kept."""
    body = _JSON.encode(message).encode("utf-8", "surrogatepass")
    return SIZE.pack(len(body)) + body


def decode(body: bytes | bytearray) -> Message:
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error
    if not isinstance(message, dict):
        raise MalformedMessage("not an object")
    return message


def read(recv: Callable[[int], bytes]) -> Message | None:
    """Return the next message from `recv`, which reads a number of bytes; None at the end of the
    stream."""
    head = recv(SIZE.size)
    if len(head) < SIZE.size:
        return None
    (size,) = SIZE.unpack(head)
    return decode(recv(size))


# --- documents ------------------------------------------------------------------------------------


def document_message(document: ChunkedDocument) -> Message:
    attributes = {name: getattr(document.attributes, name) for name in _TEXTS}
    return {
        "type": document.type,
        "title": document.title,
        "lang": document.lang,
        "lang_detected": document.lang_detected,
        "warnings": list(document.warnings),
        "attributes": attributes
        | {
            "tags": list(document.attributes.tags),
            "metadata": dict(document.attributes.metadata),
        },
    }


def document_of(message: Any, chunks: Any) -> ChunkedDocument:
    """Decode the document of a `document` message, with these chunks."""
    attributes = _field(message, "attributes", dict)
    texts = {name: _optional_text(attributes, name) for name in _TEXTS}
    return ChunkedDocument(
        type=_field(message, "type", str),
        title=_optional_text(message, "title"),
        lang=_optional_text(message, "lang"),
        attributes=Attributes(
            tags=_texts(attributes.get("tags")),
            metadata=_field(attributes, "metadata", dict),
            **texts,
        ),
        warnings=_texts(message.get("warnings")),
        chunks=chunks,
        lang_detected=_field(message, "lang_detected", bool),
    )


def chunk_message(draft: ChunkDraft) -> list[Any]:
    spans = [
        [span.kind, span.start, span.end, span.page, span.symbol, span.lang, dict(span.extra)]
        for span in draft.spans
    ]
    return [draft.text, draft.heading_path, draft.section_label, spans]


def chunk_of(row: Any) -> ChunkDraft:
    try:
        text, path, label, spans = row
        chunk = ChunkDraft(text, _texts(path), label, tuple(Span(*span) for span in spans))
    except (TypeError, ValueError) as error:
        raise MalformedMessage(str(error)) from error
    if not isinstance(text, str) or not isinstance(label, str | None):
        raise MalformedMessage("a chunk is not text")
    return chunk


# --- other messages -------------------------------------------------------------------------------


def rows_of(message: Message) -> list[Any]:
    """The chunks of a message."""
    rows: list[Any] = _field(message, "chunks", list)
    return rows


def progress_of(value: Any) -> tuple[int, int]:
    match value:
        case [int(part), int(parts)]:
            return part, parts
    raise MalformedMessage("invalid progress")


def log_of(value: Any) -> tuple[str, int, str]:
    match value:
        case [str(name), int(level), str(text)]:
            return name, level, text
    raise MalformedMessage("invalid log record")


def error_of(value: Any) -> tuple[str, str]:
    match value:
        case [str(kind), str(reason)]:
            return kind, reason
    raise MalformedMessage("invalid error")


def _field(message: Any, name: str, kind: type) -> Any:
    value = message.get(name) if isinstance(message, dict) else None
    if not isinstance(value, kind):
        raise MalformedMessage(f"{name} is not of type {kind.__name__}")
    return value


def _optional_text(message: Any, name: str) -> str | None:
    return None if message.get(name) is None else str(_field(message, name, str))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise MalformedMessage("not a list of strings")
    return tuple(value)
