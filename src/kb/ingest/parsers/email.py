"""Mails as files: who wrote what to whom, and when. What is attached is named, not read."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from datetime import UTC
from email import policy
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from kb.ingest import dates, names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers import html, html_tree
from kb.ingest.parsers.extracted import Extract, clean, one_line
from kb.ingest.parsers.lines import paragraphs
from kb.ports import Parsed, Source
from kb.types import Attributes

Part: TypeAlias = "Message[Any, Any]"

_SHOWN = ("From", "To", "Cc", "Date")
_FIELD = re.compile(rb"From |[\x21-\x39\x3b-\x7e]+[ \t]*:")
_BEFORE = b"\xef\xbb\xbf \r\n\t"  # what some programs leave above the first header
_RICH = frozenset({"multipart/mixed", "multipart/related", "text/html"})


class EmailParser:
    name = "email"
    version = "1"

    def accepts(self, source: Source) -> bool:
        return names.suffix_of(source.name) == ".eml"

    def parse(self, source: Source) -> Parsed:
        data = source.data.lstrip(_BEFORE)
        if not _FIELD.match(data):
            raise Unreadable("not a mail: it does not begin with a header")
        problem: Exception | None = None
        # The policy that understands headers stumbles over some that are broken; the older one
        # leaves them as they are.
        for rules in (policy.default, policy.compat32):
            try:
                return _read(email.message_from_bytes(data, policy=rules), source.name)
            except (Unreadable, Unsupported):
                raise
            except Exception as error:  # noqa: BLE001
                problem = error
        raise Unreadable(f"not a valid mail: {type(problem).__name__}: {problem}")


def _read(message: Part, name: str) -> Parsed:
    out = Extract()
    subject = _header(message, "Subject")
    out.heading(1, subject)
    fields = {field: value for field in _SHOWN if (value := _header(message, field))}
    out.lines(f"{field}: {value}" for field, value in fields.items())
    for part in _leaves(message, choose=True):
        if not _attached(part):
            _write(part, out)
    attached = [found for found in map(_attached, _leaves(message)) if found]
    if attached:
        out.lines(["Attachments:", *(f"- {one}" for one in attached)])
    date = _date(fields.get("Date", ""))
    metadata: dict[str, Any] = {field.lower(): value for field, value in fields.items()}
    metadata |= {"attachments": attached} if attached else {}
    if identity := _header(message, "Message-ID"):
        metadata["message_id"] = identity
    return Parsed(
        type="email",
        blocks=out.blocks,
        title=subject or names.title_of(name),
        attributes=Attributes(date=date, created_at=date, metadata=metadata),
        text=out.text,
    )


# --- headers --------------------------------------------------------------------------------------


def _header(message: Part, name: str) -> str:
    """A header as people read it, also where its bytes were not encoded as they should be."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    try:
        str(raw).encode()
    except UnicodeEncodeError:
        return one_line(_decoded(str(raw).encode("utf-8", "surrogateescape"), "utf-8"))
    return one_line(str(message.get(name) or ""))


def _date(text: str) -> str | None:
    try:
        moment = parsedate_to_datetime(text)
        return dates.iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
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


def _write(part: Part, out: Extract) -> None:
    kind = part.get_content_type()
    if kind == "text/html":
        html.write_all(html_tree.parse(_text(part)), out)
    elif kind == "text/plain":
        lines = clean(_text(part)).split("\n")
        for start, end in paragraphs(lines, 0, len(lines)):
            out.lines(lines[start:end])


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
