"""The parser of conversations. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

import re

from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_NAME = re.compile(r"conversations(?:-\d+)?\.json", re.IGNORECASE)  # large exports have several
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\])")


class ConversationsParser(FormatParser):
    name = "conversations"
    version = "2"
    priority = 1  # before the parser of code, which reads other JSON

    def accepts(self, source: Source) -> bool:
        """Accept the lists that hold conversations; other JSON is read as such."""
        return bool(
            _NAME.fullmatch(source.name)
            and _LIST.match(source.data[:8192])
            and (b'"mapping"' in source.data or b'"chat_messages"' in source.data)
        )

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.conversations.export import parse_export

        return parse_export(source)
