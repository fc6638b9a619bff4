"""Mails as files: who wrote what to whom, and when, with the mails and the texts attached to them.
Other attachments are named, not read."""

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

_SHOWN = ("From", "To", "Cc", "Bcc", "Date")
_TOLD = ("Reply-To", "Sender", "Organization", "Keywords", "Comments")
_PARSED_CHARS = 4_000  # of a header
_CONTENT_CHARS = 2_000
_NESTED = 8  # mails within mails
_FIELD = re.compile(rb"From |[\x21-\x39\x3b-\x7e]+[ \t]*:")
_BEFORE = b"\xef\xbb\xbf \r\n\t"  # what some programs leave above the first header
_RICH = frozenset({"multipart/mixed", "multipart/related", "text/html"})


class _Policy(policy.EmailPolicy):
    """Reads headers as people do, unless they are so long that this would take minutes: a parser of
    addresses needs time by the square of their length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bounded(*super().header_source_parse(sourcelines))

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value) if len(value) <= _PARSED_CHARS else value


class _OldPolicy(policy.Compat32):
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        return _bounded(*super().header_source_parse(sourcelines))


def _bounded(name: str, value: str) -> tuple[str, str]:
    """A header; one that is for programs is cut where no program has written more."""
    return name, value[:_CONTENT_CHARS] if name.lower().startswith("content-") else value


class EmailParser(FormatParser):
    name = "email"
    version = "2"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".eml"

    def parse(self, source: Source) -> Parsed:
        data = source.data.lstrip(_BEFORE)
        if not _FIELD.match(data):
            raise Unreadable("not a mail: it does not begin with a header")
        problem: Exception | None = None
        # The policy that understands headers stumbles over some that are broken; the older one
        # leaves them as they are.
        for rules in (_Policy(), _OldPolicy()):
            try:
                return _read(email.message_from_bytes(data, policy=rules), source.name)
            except (Unreadable, Unsupported, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001
                problem = error
        raise Unreadable(f"not a valid mail: {type(problem).__name__}: {problem}")


def _read(message: Part, name: str) -> Parsed:
    writer = _Writer(Extract())
    writer.write(message)
    subject, fields = _header(message, "Subject"), _fields(message)
    date = _date(fields.get("Date", ""))
    metadata: dict[str, Any] = {field.lower(): value for field, value in fields.items()}
    attached = [found for found in map(_attached, _leaves(message)) if found]
    metadata |= {"attachments": attached} if attached else {}
    if identity := _header(message, "Message-ID"):
        metadata["message_id"] = identity
    writer.out.rest(writer.rest)
    return Parsed(
        type="email",
        blocks=writer.out.blocks,
        title=subject or file_names.title_of(name),
        attributes=Attributes(date=date, created_at=date, metadata=metadata),
        warnings=(*writer.warnings, *writer.out.warnings),
        text=writer.out.text,
    )


class _Writer:
    """Writes mails into an extract. `rest` is what has no place in their text."""

    def __init__(self, out: Extract) -> None:
        self.out = out
        self.rest: list[str] = []
        self.warnings: list[str] = []

    def write(self, message: Part, depth: int = 0) -> None:
        """A mail, and below it what is attached to it."""
        self.out.heading(min(1 + depth, 6), _header(message, "Subject"))
        self.out.lines(f"{field}: {value}" for field, value in _fields(message).items())
        self.rest += [_header(message, field) for field in _TOLD]
        chosen = list(_leaves(message, choose=True))
        every = list(_leaves(message))
        written = set(map(id, chosen))
        for part in chosen:
            if not _attached(part):
                self._write_part(part)
        if attached := [found for found in map(_attached, every) if found]:
            self.out.lines(["Attachments:", *(f"- {one}" for one in attached)])
        for part in every:
            if _attached(part):
                self._write_attached(part, depth)
            elif id(part) not in written:
                self._compare(part)

    def _write_attached(self, part: Part, depth: int) -> None:
        payload = part.get_payload()
        if part.get_content_maintype() == "message" and isinstance(payload, list):
            if depth == _NESTED:
                self.warnings.append(f"mails nested more than {_NESTED} deep are not read")
                return
            for one in payload:
                if isinstance(one, Message):
                    self.write(one, depth + 1)
        else:
            self._write_part(part)

    def _write_part(self, part: Part) -> None:
        if part.get_content_type() == "text/html":
            self.rest += html.write_all(html_tree.parse(_text(part)), self.out)
        elif part.get_content_maintype() == "text":
            lines = clean(_text(part)).split("\n")
            for start, end in paragraphs(lines, 0, len(lines)):
                self.out.lines(lines[start:end])

    def _compare(self, part: Part) -> None:
        """Another version of a text that is written: only what it says besides is added."""
        aside = _Writer(Extract())
        try:
            aside._write_part(part)
        except Unavailable:  # the mail can be read without it
            return
        self.rest += [*aside.out.text.split("\n"), *aside.rest]


# --- headers --------------------------------------------------------------------------------------


def _header(message: Part, name: str) -> str:
    """A header as people read it, also where its bytes were not encoded as they should be."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    try:
        str(raw).encode()
    except UnicodeEncodeError:
        return one_line(_decoded(str(raw).encode("utf-8", "surrogateescape"), "utf-8"))
    return one_line(str(message.get(name) or ""))


def _fields(message: Part) -> dict[str, str]:
    return {field: value for field in _SHOWN if (value := _header(message, field))}


def _date(text: str) -> str | None:
    try:
        moment = parsedate_to_datetime(text)
        return utc_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError):
        return None


# --- parts ----------------------------------------------------------------------------------------


def _leaves(message: Part, *, choose: bool = False) -> Iterator[Part]:
    """The parts that have no parts, in order; with `choose`, one of several versions of a text."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if not isinstance(payload, list) or part.get_content_maintype() == "message":
            yield part
            continue
        inner = [one for one in payload if isinstance(one, Message)]
        if choose and part.get_content_type() == "multipart/alternative":
            inner = _chosen(inner)
        waiting += reversed(inner)


def _chosen(versions: list[Part]) -> list[Part]:
    """The plain version, unless there is nothing in it."""
    for part in versions:
        if part.get_content_type() == "text/plain" and _text(part).strip():
            return [part]
    rich = [part for part in versions if part.get_content_type() in _RICH]
    return (rich or versions)[-1:]


def _attached(part: Part) -> str:
    """The name of what is attached; nothing for a part of the text itself."""
    name = one_line(part.get_filename() or "")
    payload = part.get_payload()
    if not name and part.get_content_type() == "message/rfc822" and isinstance(payload, list):
        return next((_header(one, "Subject") for one in payload if isinstance(one, Message)), "")
    if not name and part.get_content_disposition() == "attachment":
        return part.get_content_type()
    return name


def _text(part: Part) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset()
    if charset is None and part.get_content_type() == "text/html":
        return html.decode(data)
    return _decoded(data, charset or "utf-8")


def _decoded(data: bytes, charset: str) -> str:
    """The text in the charset that is named, else in the one that fits."""
    for name in (charset, "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")
