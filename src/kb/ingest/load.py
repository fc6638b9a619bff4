"""From a file on disk to its bytes and the parser that reads them."""

from __future__ import annotations

import os
from typing import BinaryIO

from kb.ingest import names
from kb.ingest.decode import Unsupported, looks_binary
from kb.ingest.found import Found
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ports import Parser, Source


def load(path: str, found: Found, parsers: Parsers, limit_bytes: int) -> tuple[Parser, bytes]:
    """Who parses the file at `path`, and its bytes. Raises `Unsupported` when nobody does; then no
    more than its beginning was read."""
    _refuse_large(found.size, limit_bytes)
    with open(path, "rb") as stream:
        head = stream.read(HEAD_BYTES)
        if not head:
            raise Unsupported("empty")
        name = os.path.basename(found.path)
        parser = parsers.detect(Source(name, head, found.mtime_ns))
        if parser is None:
            kind = "binary file" if looks_binary(head) else "unsupported format"
            raise Unsupported(f"{kind} {names.suffix_of(name)}".rstrip())
        stream.seek(0)
        data = _rest(stream, found.size, limit_bytes)
    if data.isspace():
        raise Unsupported("empty")
    return parser, data


def _rest(stream: BinaryIO, size_bytes: int, limit_bytes: int) -> bytes:
    """What `stream` has. Asked for no more than a file of this size can give: room for all that is
    asked for is taken at once."""
    data = stream.read(size_bytes + 1)
    if len(data) > size_bytes:  # it has grown since it was looked at
        data += stream.read(limit_bytes)
    _refuse_large(len(data), limit_bytes)
    return data


def _refuse_large(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise Unsupported(f"too large: {size_bytes:,} bytes, at most {limit_bytes:,} are read")
