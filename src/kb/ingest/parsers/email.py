"""Mail files: headers and text, with attached mails and texts. Other attachments are only named."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from datetime import UTC
from email import policy
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import paragraphs
from kb.ingest.parsers.html import parser as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ports import Parsed, Source
from kb.text.timestamps import utc_timestamp
from kb.types import Attributes

Part: TypeAlias = "Message[Any, Any]"

_FIELDS = ("From", "To", "Cc", "Bcc", "Date")
_EXTRA_FIELDS = ("Reply-To", "Sender", "Organization", "Keywords", "Comments")
_MAX_HEADER_CHARS = 4_000  # a longer header is not parsed
_MAX_CONTENT_HEADER_CHARS = 2_000
_MAX_DEPTH = 8  # of mails attached to mails
_FIELD = re.compile(rb"From |[\x21-\x39\x3b-\x7e]+[ \t]*:")
_LEADING_BYTES = b"\xef\xbb\xbf \r\n\t"  # that some programs write before the first header
_RICH = frozenset({"multipart/mixed", "multipart/related", "text/html"})


class _Policy(policy.EmailPolicy):
    """Decodes headers, except very long ones: the address parser takes quadratic time."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bound_header(*super().header_source_parse(sourcelines))

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value) if len(value) <= _MAX_HEADER_CHARS else value


class _LenientPolicy(policy.Compat32):
    """Leaves headers as they are."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bound_header(*super().header_source_parse(sourcelines))


def _bound_header(name: str, value: str) -> tuple[str, str]:
    """Truncate a technical header to a length that no program exceeds."""
    return name, value[:_MAX_CONTENT_HEADER_CHARS] if name.lower().startswith("content-") else value


class EmailParser(FormatParser):
    name = "email"
    version = "2"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".eml"

    def parse(self, source: Source) -> Parsed:
        data = source.data.lstrip(_LEADING_BYTES)
        if not _FIELD.match(data):
            raise Unreadable("not a mail: it does not begin with a header")
        problem: Exception | None = None
        # The policy that decodes headers fails on some broken ones; the lenient one does not.
        for rules in (_Policy(), _LenientPolicy()):
            try:
                return _parse_message(email.message_from_bytes(data, policy=rules), source.name)
            except (Unreadable, Unsupported, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001
                problem = error
        raise Unreadable(f"not a valid mail: {type(problem).__name__}: {problem}")


def _parse_message(message: Part, name: str) -> Parsed:
    writer = _Writer(Extract())
    writer.write(message)
    subject, fields = _header(message, "Subject"), _fields(message)
    date = _date(fields.get("Date", ""))
    metadata: dict[str, Any] = {field.lower(): value for field, value in fields.items()}
    attached = [each for each in map(_attachment_name, _leaves(message)) if each]
    metadata |= {"attachments": attached} if attached else {}
    if identity := _header(message, "Message-ID"):
        metadata["message_id"] = identity
    writer.out.append_missing(writer.rest)
    return Parsed(
        type="email",
        blocks=writer.out.blocks,
        title=subject or file_names.title_of(name),
        attributes=Attributes(date=date, created_at=date, metadata=metadata),
        warnings=(*writer.warnings, *writer.out.warnings),
        text=writer.out.text,
    )


class _Writer:
    """Writes mails into an extract. `rest` collects text that has no place in them."""

    def __init__(self, out: Extract) -> None:
        self.out = out
        self.rest: list[str] = []
        self.warnings: list[str] = []

    def write(self, message: Part, depth: int = 0) -> None:
        """Write a mail and, below it, its attachments."""
        self.out.heading(min(1 + depth, 6), _header(message, "Subject"))
        self.out.lines(f"{field}: {value}" for field, value in _fields(message).items())
        self.rest += [_header(message, field) for field in _EXTRA_FIELDS]
        chosen = list(_leaves(message, choose=True))
        every = list(_leaves(message))
        written = set(map(id, chosen))
        for part in chosen:
            if not _attachment_name(part):
                self._write_part(part)
        if names := [name for name in map(_attachment_name, every) if name]:
            self.out.lines(["Attachments:", *(f"- {name}" for name in names)])
        for part in every:
            if _attachment_name(part):
                self._write_attached(part, depth)
            elif id(part) not in written:
                self._add_alternative(part)

    def _write_attached(self, part: Part, depth: int) -> None:
        payload = part.get_payload()
        if part.get_content_maintype() == "message" and isinstance(payload, list):
            if depth == _MAX_DEPTH:
                self.warnings.append(
                    f"mails nested more than {_MAX_DEPTH} levels deep are not read"
                )
                return
            for inner in payload:
                if isinstance(inner, Message):
                    self.write(inner, depth + 1)
        else:
            self._write_part(part)

    def _write_part(self, part: Part) -> None:
        if part.get_content_type() == "text/html":
            self.rest += html.write_page(html_tree.parse_html(_text(part)), self.out)
        elif part.get_content_maintype() == "text":
            lines = clean(_text(part)).split("\n")
            for start, end in paragraphs(lines, 0, len(lines)):
                self.out.lines(lines[start:end])

    def _add_alternative(self, part: Part) -> None:
        """Collect the text of an alternative version, of which only new words are added."""
        aside = _Writer(Extract())
        try:
            aside._write_part(part)
        except Unavailable:  # the mail is readable without it
            return
        self.rest += [*aside.out.text.split("\n"), *aside.rest]


# --- headers --------------------------------------------------------------------------------------


def _header(message: Part, name: str) -> str:
    """A header as readable text, even if its bytes are not encoded correctly."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    try:
        str(raw).encode()
    except UnicodeEncodeError:
        return one_line(_decode(str(raw).encode("utf-8", "surrogateescape"), "utf-8"))
    return one_line(str(message.get(name) or ""))


def _fields(message: Part) -> dict[str, str]:
    return {field: value for field in _FIELDS if (value := _header(message, field))}


def _date(text: str) -> str | None:
    try:
        moment = parsedate_to_datetime(text)
        return utc_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError):
        return None


# --- parts ----------------------------------------------------------------------------------------


def _leaves(message: Part, *, choose: bool = False) -> Iterator[Part]:
    """Yield the innermost parts in order; with `choose`, only one of alternative versions."""
    stack = [message]
    while stack:
        part = stack.pop()
        payload = part.get_payload()
        if not isinstance(payload, list) or part.get_content_maintype() == "message":
            yield part
            continue
        inner = [each for each in payload if isinstance(each, Message)]
        if choose and part.get_content_type() == "multipart/alternative":
            inner = _preferred(inner)
        stack += reversed(inner)


def _preferred(versions: list[Part]) -> list[Part]:
    """The plain version, unless it is empty."""
    for part in versions:
        if part.get_content_type() == "text/plain" and _text(part).strip():
            return [part]
    rich = [part for part in versions if part.get_content_type() in _RICH]
    return (rich or versions)[-1:]


def _attachment_name(part: Part) -> str:
    """The name of an attachment; empty for a part of the text itself."""
    name = one_line(part.get_filename() or "")
    payload = part.get_payload()
    if not name and part.get_content_type() == "message/rfc822" and isinstance(payload, list):
        return next((_header(each, "Subject") for each in payload if isinstance(each, Message)), "")
    if not name and part.get_content_disposition() == "attachment":
        return part.get_content_type()
    return name


def _text(part: Part) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset()
    if charset is None and part.get_content_type() == "text/html":
        return html.decode_html(data)
    return _decode(data, charset or "utf-8")


def _decode(data: bytes, charset: str) -> str:
    """Decode with the declared charset, otherwise with one that fits."""
    for name in (charset, "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")
