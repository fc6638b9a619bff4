"""The parser for exported conversations. Its code is loaded when a file is parsed, in a parser
process."""

from __future__ import annotations

import re

from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

# Large exports are split into several files.
_NAME = re.compile(r"conversations(?:-\d+)?\.json", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")  # a day of a channel in a Slack export
_MESSAGE = re.compile(rb'"type"\s*:\s*"message"'), re.compile(rb'"ts"\s*:\s*"\d')
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\])")


class ConversationsParser(FormatParser):
    name = "conversations"
    version = "3"
    priority = 1  # before the code parser, which reads other JSON

    def accepts(self, source: Source) -> bool:
        """Accept lists of conversations or messages; other parsers read other JSON."""
        head = source.data[:8192]
        if _DAY.fullmatch(source.name):
            return bool(_LIST.match(head)) and all(part.search(head) for part in _MESSAGE)
        return bool(
            _NAME.fullmatch(source.name)
            and _LIST.match(head)
            and (b'"mapping"' in source.data or b'"chat_messages"' in source.data)
        )

    def parse(self, source: Source) -> Parsed:
        if _DAY.fullmatch(source.name):
            from kb.ingest.parsers.conversations.slack import parse_slack

            return parse_slack(source)
        from kb.ingest.parsers.conversations.export import parse_export

        return parse_export(source)
