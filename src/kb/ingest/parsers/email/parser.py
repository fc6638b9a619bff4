"""The e-mail parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

import re
from dataclasses import replace

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

# A file of a Maildir: time, a unique part, host, and the flags of the message.
_MAILDIR = re.compile(r"\d{6,12}\.[\w.,=+#-]{1,200}(?:[:;!]2,[A-Za-z]{0,20})?")
_FIELD = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]{1,80}:[^\n]*\r?\n(?:[ \t][^\n]*\n){0,50}){2}")


class EmailParser(FormatParser):
    name = "email"
    version = "7"
    priority = 1  # before the parser of text

    def accepts(self, source: Source) -> bool:
        """Accept e-mail suffixes, and the messages of a Maildir, which have none."""
        if file_names.suffix_of(source.name) in (".eml", ".emlx", ".mbox"):
            return True
        return bool(_MAILDIR.fullmatch(source.name) and _FIELD.match(source.data[:8192]))

    def parse(self, source: Source) -> Parsed:
        if file_names.suffix_of(source.name) == ".mbox":
            from kb.ingest.parsers.email.mailbox import parse_mailbox

            return parse_mailbox(source)
        from kb.ingest.parsers.email.message import parse_email

        if file_names.suffix_of(source.name) == ".emlx":
            source = replace(source, data=_message_of_apple(source.data))
        return parse_email(source)


def _message_of_apple(data: bytes) -> bytes:
    """The message in a file of Apple Mail: its length in bytes is on the first line, and properties
    follow it."""
    length, _, rest = data.partition(b"\n")
    return rest[: int(length)] if length.strip().isdigit() and len(length) < 20 else data
