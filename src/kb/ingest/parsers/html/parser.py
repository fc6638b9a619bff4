"""The HTML parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.signatures import signature
from kb.ingest.parsers.code.languages import language_of
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".htm", ".html", ".shtml", ".xht", ".xhtml"})


class HtmlParser(FormatParser):
    name = "html"
    version = "7"
    priority = 1

    def accepts(self, source: Source) -> bool:
        """Accept HTML suffixes, and files that begin like HTML unless their suffix is that of
        code."""
        if file_names.suffix_of(source.name) in _SUFFIXES:
            return True
        return signature(source.data) == "html" and language_of(source.name, source.data) is None

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.html.page import parse_page

        return parse_page(source)
