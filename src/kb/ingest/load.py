"""From a file on disk to its bytes and the parser that reads them."""

from __future__ import annotations

import os

from kb.ingest import names
from kb.ingest.decode import Unsupported, looks_binary
from kb.ingest.found import Found
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ports import Parser, Source


def load(path: str, found: Found, parsers: Parsers, limit_bytes: int) -> tuple[Parser, bytes]:
    """Who parses the file at `path`, and its bytes. Raises `Unsupported` when nobody does; then no
    more than its beginning was read."""
    if found.size > limit_bytes:
        raise Unsupported(f"too large: {found.size:,} bytes, at most {limit_bytes:,} are read")
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
        data = stream.read(limit_bytes + 1)
    if data.isspace():
        raise Unsupported("empty")
    return parser, data
