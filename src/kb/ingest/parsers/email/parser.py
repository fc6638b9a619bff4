"""The e-mail parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class EmailParser(FormatParser):
    name = "email"
    version = "5"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".eml"

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.email.message import parse_email

        return parse_email(source)
