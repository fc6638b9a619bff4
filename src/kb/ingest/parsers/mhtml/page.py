"""The page in an MHTML file, which is a MIME message: the first part with HTML is the page, and the
HTML parts after it are its frames. Frames of plain text are written at the end."""

from __future__ import annotations

import email
from dataclasses import replace
from email import policy
from typing import Any

from kb.ingest import dates
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parsers.email.parts import HTML, Part, header, leaves
from kb.ingest.parsers.html.page import parse_page
from kb.ports import Parsed, Source

_ADDRESS_FIELDS = ("Snapshot-Content-Location", "Content-Location")


def parse_mhtml(source: Source) -> Parsed:
    try:
        message: Part = email.message_from_bytes(source.data, policy=policy.compat32)
        pages = [part for part in leaves(message) if part.get_content_type() in HTML]
        bodies = [body for part in pages if (body := _body(part)).strip()]
        plain = [part for part in leaves(message) if part.get_content_type() == "text/plain"]
        texts = [_body(part).decode("utf-8", "replace") for part in plain]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"not a saved web page: {error}") from error
    if not bodies:
        raise Unreadable("not a saved web page: it has no part with HTML")
    page, *frames = (_page(source, body) for body in bodies)
    out = Extract()
    for each in (page, *frames):
        if each is not None:
            out.add_blocks((each.text or "").split("\n"), each.blocks)
    first = page or next((each for each in frames if each is not None), None)
    if first is None:
        raise Unsupported("no text")
    subject = header(message, "Subject")
    out.append_missing([*texts, subject], first.title or "")
    metadata: dict[str, Any] = dict(first.attributes.metadata)
    if address := next(filter(None, (_field(message, name) for name in _ADDRESS_FIELDS)), ""):
        metadata.setdefault("url", address)
    attributes = replace(first.attributes, metadata=metadata)
    if attributes.date is None and (day := dates.parse(header(message, "Date"))):
        attributes = replace(attributes, date=day, created_at=dates.moment(day))
    return replace(first, blocks=out.blocks, text=out.text, attributes=attributes)


def _page(source: Source, body: bytes) -> Parsed | None:
    parsed = parse_page(replace(source, data=body))
    return replace(parsed, blocks=blocks) if (blocks := list(parsed.blocks)) else None


def _body(part: Part) -> bytes:
    """The bytes of a page. If only the header of the part names an encoding, the page is converted
    to UTF-8."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset()
    if charset and b"charset" not in data[:4096]:
        try:
            return data.decode(charset).encode("utf-8")
        except (LookupError, ValueError):
            return data
    return data


def _field(message: Part, name: str) -> str:
    address = one_line(str(message.get(name) or ""))
    return address if address.startswith(("http://", "https://", "file://")) else ""
