"""The e-mail parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class EmailParser(FormatParser):
    name = "email"
    version = "6"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in (".eml", ".mbox")

    def parse(self, source: Source) -> Parsed:
        if file_names.suffix_of(source.name) == ".mbox":
            from kb.ingest.parsers.email.mailbox import parse_mailbox

            return parse_mailbox(source)
        from kb.ingest.parsers.email.message import parse_email

        return parse_email(source)
