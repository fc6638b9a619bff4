"""The e-mail parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

import re
from dataclasses import replace

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

# A file of a Maildir: time, a unique part, host, and the flags of the message; or any name with
# flags.
_MAILDIR = re.compile(
    r"\d{6,12}\.[\w.,=+#-]{1,200}(?:[:;!]2,[A-Za-z]{0,20})?|[\w.,=+#-]{1,200}[:;!]2,[A-Za-z]{0,20}"
)
_FIELD = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]{1,80}:[^\n]*\r?\n(?:[ \t][^\n]*\n){0,50}){2}")


_SEPARATOR = re.compile(
    rb"From [^\n]{1,300}\d:\d\d(?::\d\d)?[^\n]{1,40}\d{4}[^\n]{0,40}\n" + _FIELD.pattern
)
_NO_MAILBOX = frozenset({".diff", ".eml", ".emlx", ".patch"})


class EmailParser(FormatParser):
    name = "email"
    version = "10"
    priority = 1  # before the text parser

    def accepts(self, source: Source) -> bool:
        """Accept e-mail suffixes, the messages of a Maildir and mailboxes, which may have none."""
        if file_names.suffix_of(source.name) in (".eml", ".emlx", ".mbox") or _is_mailbox(source):
            return True
        return bool(_MAILDIR.fullmatch(source.name) and _FIELD.match(source.data[:8192]))

    def parse(self, source: Source) -> Parsed:
        if file_names.suffix_of(source.name) == ".mbox" or _is_mailbox(source):
            from kb.ingest.parsers.email.mailbox import parse_mailbox

            return parse_mailbox(source)
        from kb.ingest.parsers.email.message import parse_email

        if file_names.suffix_of(source.name) == ".emlx":
            source = replace(source, data=_apple_mail_message(source.data))
        return parse_email(source)


def _is_mailbox(source: Source) -> bool:
    """Whether a file begins like a mailbox. The mailboxes of Thunderbird and Apple Mail have no
    suffix. Git patches also begin this way, and so do some mails."""
    suffix = file_names.suffix_of(source.name)
    return suffix not in _NO_MAILBOX and bool(_SEPARATOR.match(source.data[:8192]))


def _apple_mail_message(data: bytes) -> bytes:
    """The message in an Apple Mail file: the first line holds its length in bytes, and properties
    follow it."""
    length, _, rest = data.partition(b"\n")
    return rest[: int(length)] if length.strip().isdigit() and len(length) < 20 else data
