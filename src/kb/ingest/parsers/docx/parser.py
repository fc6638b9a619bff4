"""The Word parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.signatures import signature
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".docm", ".docx", ".dotm", ".dotx"})


class DocxParser(FormatParser):
    name = "docx"
    version = "7"
    signatures = frozenset({"docx", "zip"})

    def accepts(self, source: Source) -> bool:
        """Accept Word files, also under another name, except archives that contain one."""
        suffix = file_names.suffix_of(source.name)
        return suffix in _SUFFIXES or (suffix != ".zip" and signature(source.data) == "docx")

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.docx.document import parse_docx

        return parse_docx(source)
