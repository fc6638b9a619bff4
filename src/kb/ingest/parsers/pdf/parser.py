"""The PDF parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support import ocr
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_HEADER = b"%PDF-"


class PdfParser(FormatParser):
    name = "pdf"
    version = "6" + ocr.version_suffix()
    priority = 2
    signatures = frozenset({"pdf"})

    def accepts(self, source: Source) -> bool:
        """Accept the suffix, and files that begin with the PDF header. A header further in may
        belong to a text about PDF."""
        return file_names.suffix_of(source.name) == ".pdf" or source.data.lstrip().startswith(
            _HEADER
        )

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.pdf.document import parse_pdf

        return parse_pdf(source)
