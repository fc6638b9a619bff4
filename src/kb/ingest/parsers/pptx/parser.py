"""The PowerPoint parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".pptm", ".pptx", ".potx", ".ppsx"})


class PptxParser(FormatParser):
    name = "pptx"
    version = "5"
    signatures = frozenset({"zip"})

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.pptx.presentation import parse_pptx

        return parse_pptx(source)
