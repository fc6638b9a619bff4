"""E-mail files: headers and texts, with the messages and the texts attached to them.

Other attachments are not read: the text and a warning list their names."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator, Sequence
from datetime import UTC
from email import policy
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parser_support.sections import paragraphs
from kb.ingest.parsers.email.parts import (
    HTML,
    Part,
    around,
    attached_messages,
    header,
    headers,
    is_signature,
    is_wordless,
    leaves,
    name_of,
    part_numbers,
    text_of,
)
from kb.ingest.parsers.html import page as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ports import Parsed, Source
from kb.text.timestamps import utc_timestamp
from kb.types import Attributes

_FIELDS = ("From", "To", "Cc", "Bcc", "Date")
_EXTRA_FIELDS = ("Reply-To", "Sender", "Organization", "Keywords", "Comments")
_MAX_HEADER_CHARS = 4_000  # a longer header is not parsed
_MAX_CONTENT_HEADER_CHARS = 2_000
_MAX_DEPTH = 8  # of messages attached to messages
_FIELD = re.compile(rb"From |[\x21-\x39\x3b-\x7e]+[ \t]*:")
_LEADING_BYTES = b"\xef\xbb\xbf \r\n\t"  # some programs write them before the first header
_NAMED = 10  # parts listed in a warning
_BOILERPLATE = re.compile(r"multi-?\s?part message|MIME-aware", re.IGNORECASE)
_BOILERPLATE_CHARS = 300
_MAILS = frozenset({"message/global", "message/news", "message/rfc822"})


class _Policy(policy.EmailPolicy):
    """Decodes headers, except very long ones: the address parser takes quadratic time."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bound_header(*super().header_source_parse(sourcelines))

    def header_fetch_parse(self, name: str, value: str) -> Any:
        if type(value) is str and name.lower().startswith("content-"):
            return _content_header(name, value)
        return super().header_fetch_parse(name, value) if len(value) <= _MAX_HEADER_CHARS else value


@lru_cache(maxsize=64)
def _content_header(name: str, value: str) -> Any:
    """Parse a header. Cached, because the type of a message is read again for each of its parts."""
    return policy.EmailPolicy().header_fetch_parse(name, value)


class _LenientPolicy(policy.Compat32):
    """Leaves headers as they are."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bound_header(*super().header_source_parse(sourcelines))


def _bound_header(name: str, value: str) -> tuple[str, str]:
    """Truncate a `Content-` header to a length that real mail never exceeds."""
    return name, value[:_MAX_CONTENT_HEADER_CHARS] if name.lower().startswith("content-") else value


def parse_email(source: Source) -> Parsed:
    data = source.data.lstrip(_LEADING_BYTES)
    if not _FIELD.match(data):
        raise Unreadable("not an e-mail: it does not begin with a header")
    problem: Exception | None = None
    # The policy that decodes headers fails on some broken ones; the lenient one does not.
    for rules in (_Policy(), _LenientPolicy()):
        try:
            return _parse_message(email.message_from_bytes(data, policy=rules), source.name)
        except (Unreadable, Unsupported, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001
            problem = error
    raise Unreadable(f"not a valid e-mail: {type(problem).__name__}: {problem}")


def _parse_message(message: Part, name: str) -> Parsed:
    writer = _Writer(Extract())
    writer.write(message)
    subject, fields = header(message, "Subject"), _fields(message)
    date = _date(fields.get("Date", ""))
    metadata: dict[str, Any] = {field.lower(): value for field, value in fields.items()}
    attached = [name for name in map(name_of, leaves(message)) if name]
    metadata |= {"attachments": attached} if attached else {}
    if identity := header(message, "Message-ID"):
        metadata["message_id"] = identity
    writer.out.append_missing(writer.rest)
    return Parsed(
        type="email",
        blocks=writer.out.blocks,
        title=subject or file_names.title_of(name),
        attributes=Attributes(date=date, created_at=date, metadata=metadata),
        warnings=(
            *dict.fromkeys(writer.warnings),
            *_unread_warning(writer.unread),
            *writer.out.warnings,
        ),
        text=writer.out.text,
    )


class _Writer:
    """Writes messages into an extract. `rest` collects texts outside the main flow, `unread` the
    parts that are not text."""

    def __init__(self, out: Extract) -> None:
        self.out = out
        self.rest: list[str] = []
        self.warnings: list[str] = []
        self.unread: list[str] = []
        self._numbers: dict[int, str] = {}

    def write(self, message: Part, depth: int = 0, prefix: str = "") -> None:
        """Write a message, and below it the messages and texts attached to it. `prefix` is the part
        number of an attached message, followed by a dot."""
        self.out.place = f"part {prefix.rstrip('.')}" if prefix else None
        self._numbers = part_numbers(message, prefix)
        self.out.heading(min(1 + depth, 6), header(message, "Subject"))
        self.out.lines(f"{field}: {value}" for field, value in _fields(message).items())
        for field in _FIELDS:
            self.rest += headers(message, field)[1:]
        for field in ("Subject", *_EXTRA_FIELDS):
            self.rest += headers(message, field)
        chosen = list(leaves(message, choose=True))
        every = list(leaves(message))
        written = set(map(id, chosen))
        names = {id(part): name_of(part) for part in every}
        messages = {id(part) for part in every if attached_messages(part)}
        numbers = self._numbers
        for part in chosen:
            if not (names[id(part)] or id(part) in messages):
                self._write_part(part)
        if attached := [name for name in names.values() if name]:
            self.out.lines(["Attachments:", *(f"- {name}" for name in attached)])
        for part in every:
            self.rest += headers(part, "Content-Description")
            if names[id(part)] or id(part) in messages:
                self._write_attached(part, depth)
                self._numbers = numbers
            elif id(part) not in written:
                self._add_alternative(part)
        self.rest += [text for text in around(message) if not _is_boilerplate(text)]

    def _write_attached(self, part: Part, depth: int) -> None:
        messages = attached_messages(part)
        if not messages:
            self._write_part(part)
        elif part.get_content_type() not in _MAILS:
            self._write_report(part, messages)
        elif depth == _MAX_DEPTH:
            self.warnings.append(f"messages nested more than {_MAX_DEPTH} levels deep are not read")
        else:
            for inner in messages:
                number = self._numbers.get(id(part), "")
                self.write(inner, depth + 1, f"{number}." if number else "")

    def _write_report(self, part: Part, blocks: list[Part]) -> None:
        """Write a report that a program generated as blocks of headers, such as a delivery
        failure."""
        self.rest.append(one_line(str(part.get("Content-Type") or "")))
        for block in blocks:
            fields = dict.fromkeys(block.keys())
            self.out.lines(f"{field}: {text}" for field in fields for text in headers(block, field))
            for inner in leaves(block):
                self._write_part(inner)

    def _write_part(self, part: Part) -> None:
        if number := self._numbers.get(id(part)):
            self.out.place = f"part {number}"
        text = text_of(part) if not is_signature(part) else ""
        if text is None:
            if not is_wordless(part):
                self.unread.append(name_of(part) or part.get_content_type())
        elif part.get_content_type() in HTML:
            self.rest += html.write_page(html_tree.parse_html(text), self.out)
        else:
            lines = clean(text).split("\n")
            for start, end in paragraphs(lines, 0, len(lines)):
                self.out.lines(lines[start:end])

    def _add_alternative(self, part: Part) -> None:
        """Collect the text of an alternative version, to add only its new words."""
        aside = _Writer(Extract())
        try:
            aside._write_part(part)
        except Unavailable as error:  # the message can be read without it
            self.warnings.append(f"the HTML version is not read: {error.reason}")
            return
        self.rest += [*aside.out.text.split("\n"), *aside.rest]
        self.unread += aside.unread


def _is_boilerplate(text: str) -> bool:
    """Whether a text before the first part only explains what a multipart message is."""
    return len(text) < _BOILERPLATE_CHARS and _BOILERPLATE.search(text) is not None


def _unread_warning(names: Sequence[str]) -> Iterator[str]:
    """A warning that lists the parts that are not read."""
    if unique := list(dict.fromkeys(names)):
        more = f" and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
        yield f"attachments are not read: {', '.join(unique[:_NAMED])}{more}"


# --- headers --------------------------------------------------------------------------------------


def _fields(message: Part) -> dict[str, str]:
    return {field: value for field in _FIELDS if (value := header(message, field))}


def _date(text: str) -> str | None:
    try:
        moment = parsedate_to_datetime(text)
        return utc_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError):
        return None
