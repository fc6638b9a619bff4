"""The OpenDocument parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".odp", ".ods", ".odt", ".otp", ".ots", ".ott"})


class OpendocumentParser(FormatParser):
    name = "opendocument"
    version = "4"
    signatures = frozenset({"zip"})

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.opendocument.document import parse_opendocument

        return parse_opendocument(source)
