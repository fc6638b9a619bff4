"""What a parser process and the process that started it say to each other.

A message is a JSON object behind its length in four bytes. JSON, not pickle: bytes from a process
that has parsed a hostile file must not run code in the one that reads them. The bytes of the file
to parse follow their request as they are.

    -> {parser, max_chars, name, mtime_ns, want, size, memory_bytes, cpu_s}, then `size` bytes
    <- {version}                    once, when the process is ready
    <- {tell: [part, parts]}        how far the parser is
    <- {log: [name, level, text]}
    <- {document, chunks, more}     the first of a document, with its first chunks
    <- {chunks, more}               more chunks, until `more` is false
    <- {text, more}                 instead of those, where the text of the document was wanted
    <- {error: [kind, reason]}      instead of the rest
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


class Malformed(Exception):
    """A message that no parser process of ours would send."""


def encode(message: Message) -> bytes:
    """`message` with its length in front. Lone surrogates, which a plug-in may give, pass."""
    body = _JSON.encode(message).encode("utf-8", "surrogatepass")
    return SIZE.pack(len(body)) + body


def decode(body: bytes | bytearray) -> Message:
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error
    if not isinstance(message, dict):
        raise Malformed("not an object")
    return message


def read(recv: Callable[[int], bytes]) -> Message | None:
    """The next message from `recv`, which gives as many bytes as it is asked for; None at the end
    of the stream."""
    head = recv(SIZE.size)
    if len(head) < SIZE.size:
        return None
    (size,) = SIZE.unpack(head)
    return decode(recv(size))


# --- documents ------------------------------------------------------------------------------------


def document_message(document: ChunkedDocument) -> Message:
    said = document.attributes
    attributes = {name: getattr(said, name) for name in _TEXTS}
    return {
        "type": document.type,
        "title": document.title,
        "lang": document.lang,
        "warnings": list(document.warnings),
        "attributes": attributes | {"tags": list(said.tags), "metadata": dict(said.metadata)},
    }


def document_of(message: Any, chunks: Any) -> ChunkedDocument:
    """The document of a `document` message, with these chunks."""
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
    )


def chunk_message(draft: ChunkDraft) -> list[Any]:
    spans = [
        [one.kind, one.start, one.end, one.page, one.symbol, one.lang, dict(one.extra)]
        for one in draft.spans
    ]
    return [draft.text, draft.heading_path, draft.section_label, spans]


def chunk_of(row: Any) -> ChunkDraft:
    try:
        text, path, label, spans = row
        chunk = ChunkDraft(text, _texts(path), label, tuple(Span(*span) for span in spans))
    except (TypeError, ValueError) as error:
        raise Malformed(str(error)) from error
    if not isinstance(text, str) or not isinstance(label, str | None):
        raise Malformed("a chunk is no text")
    return chunk


# --- what else is said ----------------------------------------------------------------------------


def rows_of(message: Message) -> list[Any]:
    """The chunks of a message."""
    rows: list[Any] = _field(message, "chunks", list)
    return rows


def progress_of(value: Any) -> tuple[int, int]:
    match value:
        case [int(part), int(parts)]:
            return part, parts
    raise Malformed("progress")


def log_of(value: Any) -> tuple[str, int, str]:
    match value:
        case [str(name), int(level), str(text)]:
            return name, level, text
    raise Malformed("a log record")


def error_of(value: Any) -> tuple[str, str]:
    match value:
        case [str(kind), str(reason)]:
            return kind, reason
    raise Malformed("an error")


def _field(message: Any, name: str, kind: type) -> Any:
    value = message.get(name) if isinstance(message, dict) else None
    if not isinstance(value, kind):
        raise Malformed(f"{name} is not a {kind.__name__}")
    return value


def _optional_text(message: Any, name: str) -> str | None:
    return None if message.get(name) is None else str(_field(message, name, str))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Malformed("not a list of texts")
    return tuple(value)
