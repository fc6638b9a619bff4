"""The parser for Evernote exports. Its code is loaded when a file is parsed, in a parser
process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class EvernoteParser(FormatParser):
    name = "evernote"
    version = "2"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".enex"

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.evernote.export import parse_export

        return parse_export(source)
