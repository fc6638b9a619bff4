"""The parser for exported conversations. Its code is loaded when a file is parsed, in a parser
process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_HEAD_BYTES = 8192
# Large exports are split into several files.
_NAME = re.compile(r"conversations(?:-\d+)?\.json", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")  # a day of a channel in a Slack export
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\])")
_OBJECTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[?\s*\{")
# The start of a Slack export, and of conversations with ChatGPT and Claude.
_SLACK = re.compile(rb'"type"\s*:\s*"message"'), re.compile(rb'"ts"\s*:\s*"\d')
_CHATGPT = (
    re.compile(rb'"mapping"\s*:\s*\{'),
    re.compile(rb'"create_time"\s*:'),
    re.compile(rb'"(?:author|children|current_node)"\s*:'),
)
_CLAUDE = re.compile(rb'"chat_messages"\s*:\s*\['), re.compile(rb'"uuid"\s*:\s*"')


class ConversationsParser(FormatParser):
    name = "conversations"
    version = "4"
    priority = 1  # before the code parser, which reads other JSON

    def accepts(self, source: Source) -> bool:
        """Accept conversations and messages, whatever the name of the file; other parsers read
        other JSON."""
        if file_names.suffix_of(source.name) != ".json":
            return False
        if _NAME.fullmatch(source.name) and _LIST.match(source.data[:_HEAD_BYTES]):
            return b'"mapping"' in source.data or b'"chat_messages"' in source.data
        return _is_slack(source.data) or (
            _OBJECTS.match(source.data[:_HEAD_BYTES]) is not None
            and (_has_all(source.data, _CHATGPT) or _has_all(source.data, _CLAUDE))
        )

    def parse(self, source: Source, people: Mapping[str, str] | None = None) -> Parsed:
        """`people` are the names of people in a Slack export, by their id."""
        if _is_slack(source.data) or _DAY.fullmatch(source.name):
            from kb.ingest.parsers.conversations.slack import parse_slack

            return parse_slack(source, people or {})
        from kb.ingest.parsers.conversations.export import parse_export

        return parse_export(source)


def _is_slack(data: bytes) -> bool:
    return _LIST.match(data[:_HEAD_BYTES]) is not None and _has_all(data, _SLACK)


def _has_all(data: bytes, parts: Iterable[re.Pattern[bytes]]) -> bool:
    head = data[:_HEAD_BYTES]
    return all(part.search(head) for part in parts)
