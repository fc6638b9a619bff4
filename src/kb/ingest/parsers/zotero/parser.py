"""The parser for Zotero libraries. Its code is loaded when a file is parsed, in a parser
process."""

from __future__ import annotations

from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_HEADER = b"SQLite format 3\0"


class ZoteroParser(FormatParser):
    name = "zotero"
    version = "3"

    def accepts(self, source: Source) -> bool:
        return source.name.lower() == "zotero.sqlite" and source.data.startswith(_HEADER)

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.zotero.library import parse_library

        return parse_library(source)
