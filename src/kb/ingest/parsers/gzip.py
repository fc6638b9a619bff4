"""Compressed texts, such as manual pages and change logs: read like the file inside."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.parsed_document import all_warnings
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.zip_archive import PART_BYTES
from kb.ports import Parsed, Parser, Source
from kb.types import LINE_TYPES

if TYPE_CHECKING:
    from kb.ingest.parse import Parsers

_SIGNATURE = b"\x1f\x8b\x08"
_HEAD_BYTES = 8192
_GZIP = 31  # the argument of `zlib.decompressobj` for this container
# Not tables, code and exports: their compressed files are dumps of data.
_FORMATS = frozenset({"man", "text", "markdown", "rst", "org", "asciidoc", "html", "email"})


class GzipParser(FormatParser):
    name = "gzip"
    version = "1"
    priority = 2  # before the parsers that accept any file of a mail folder

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        if not source.data.startswith(_SIGNATURE):
            return False
        try:
            head = _decompress(source.data, _HEAD_BYTES)
        except Unreadable:
            return False
        return self._inner_parser(source, head) is not None

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.secret_files import HEAD_BYTES, secret_reason

        data = _decompress(source.data, PART_BYTES + 1)
        if len(data) > PART_BYTES:
            raise Unreadable(f"too large when unpacked: more than {PART_BYTES:,} bytes")
        inner = replace(source, name=_inner_name(source.name), data=data)
        if reason := secret_reason(inner.name, data[:HEAD_BYTES]):
            raise Unsupported(reason)
        parser = self._inner_parser(source, data[:_HEAD_BYTES])
        if parser is None:
            raise Unsupported("unsupported format")
        parsed = parser.parse(inner)
        parsed = replace(parsed, warnings=all_warnings(parsed, data))
        if parsed.text is not None and parsed.type not in LINE_TYPES:
            return parsed
        # Its lines are not those of the file, whose bytes are compressed.
        return replace(parsed, type="archive", text=parsed.text or decode(data))

    def _inner_parser(self, source: Source, head: bytes) -> Parser | None:
        parser = self._parsers.detect(Source(_inner_name(source.name), head))
        return parser if parser is not None and parser.name in _FORMATS else None

    @cached_property
    def _parsers(self) -> Parsers:
        from kb.ingest.parse import Parsers

        return Parsers(self._max_chars, plug_ins=())


def _inner_name(name: str) -> str:
    return name[:-3] if file_names.suffix_of(name) == ".gz" else name


def _decompress(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of the text. Raises `Unreadable` if it is damaged."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, limit)
    except zlib.error as error:
        raise Unreadable(f"cannot be unpacked: {error}") from error
    if not unpacker.eof and len(text) < limit and len(data) > _HEAD_BYTES:
        raise Unreadable("cannot be unpacked: the end is missing")
    return text
