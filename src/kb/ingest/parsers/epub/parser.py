"""The EPUB parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.signatures import signature
from kb.ports import Parsed, Source


class EpubParser(FormatParser):
    name = "epub"
    version = "6"
    signatures = frozenset({"epub", "zip"})

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".epub" or signature(source.data) == "epub"

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.epub.book import parse_book

        return parse_book(source)
