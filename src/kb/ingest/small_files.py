"""Small files of simple formats, which are parsed without a parser process.

Most files of a folder of notes are short texts, and a process costs more than parsing them. A file
is parsed in this process only if all of this holds:

    its parser allows it  it sets `max_local_bytes`, since it is Python code whose time and memory
                          depend only on the size of the file
    it is short           so that even the worst case takes less than a second
    no YAML               a file with front matter is read by a library in C

Everything else is parsed in a parser process, under limits (see `parser_pool`).
"""

from __future__ import annotations

import codecs

from kb.ingest import file_names
from kb.ingest.parsed_document import ChunkedDocument, parse_and_chunk
from kb.ingest.parser_pipeline import MAX_FILE_BYTES
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parser, Source

_FRONT_MATTER = b"---"
_HEAD_BYTES = 16
_SUFFIXES = frozenset(
    {".adoc", ".csv", ".jsonl", ".log", ".markdown", ".md", ".org", ".rst", ".tsv", ".txt"}
)


def can_parse_locally(parser: Parser, data: bytes) -> bool:
    """Whether `parser` may parse `data` in this process."""
    if not isinstance(parser, FormatParser) or len(data) > parser.max_local_bytes:
        return False
    head = data[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    return not head.startswith(_FRONT_MATTER) and b"\0" not in head  # UTF-16 may hide it


def is_short_text(parser: Parser, data: bytes) -> bool:
    """Whether `data` is a text that `parser` parses so quickly that others can wait for it."""
    size = min(parser.max_local_bytes, MAX_FILE_BYTES) if isinstance(parser, FormatParser) else 0
    return len(data) <= size


def may_need_process(name: str) -> bool:
    """Guess from a file's name whether a parser process will be needed for it."""
    return file_names.suffix_of(name) not in _SUFFIXES


class LocalParsing:
    """The parsing of a small file in this process, used like `parser_pool.Parsing`."""

    is_short = True

    def __init__(self, parser: Parser, source: Source, max_chars: int) -> None:
        self._parser, self._source, self._max_chars = parser, source, max_chars

    def __enter__(self) -> LocalParsing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def document(self) -> ChunkedDocument:
        """Return the parsed document. Errors of the parser are not caught."""
        return parse_and_chunk(self._parser, self._source, self._max_chars)

    def receive_all(self) -> None:
        """Do nothing: the file is short, so the result is complete."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
