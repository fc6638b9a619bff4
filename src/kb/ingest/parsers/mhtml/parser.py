"""The MHTML parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class MhtmlParser(FormatParser):
    name = "mhtml"
    version = "3"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in (".mht", ".mhtml")

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.mhtml.page import parse_mhtml

        return parse_mhtml(source)
