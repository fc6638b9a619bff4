"""The parts of an e-mail, their names, and the text in them.

Mail programs declare types, encodings and boundaries that do not fit the content. A part is read as
text whenever its bytes are text.
"""

from __future__ import annotations

import binascii
import codecs
import email
import re
from collections.abc import Iterator
from email.message import Message
from typing import Any, TypeAlias

from kb.ingest.escapes import unescape
from kb.ingest.legacy_encodings import decode_guessed
from kb.ingest.parser_support.extract import one_line
from kb.ingest.parser_support.signatures import BINARY, signature
from kb.ingest.parsers.html import page as html

Part: TypeAlias = "Message[Any, Any]"

HTML = frozenset({"application/xhtml+xml", "image/svg+xml", "text/html"})
_RICH = frozenset({"multipart/mixed", "multipart/related", "text/html"})
_WORDLESS = ("audio/", "font/", "image/", "video/")
_SIGNATURES = frozenset(
    {
        "application/pgp-encrypted", "application/pgp-keys", "application/pgp-signature",
        "application/pkcs7-signature", "application/x-pkcs7-signature",
    }
)  # fmt: skip
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/]+={0,3}")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_SAME_HEADERS = 500
_ASCII_SHARE = 0.75
_NUMBER_CHARS = 40  # longer part numbers are shortened


def leaves(message: Part, *, choose: bool = False) -> Iterator[Part]:
    """Yield the parts that contain no other parts, in order; with `choose`, one version of each
    text."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if not isinstance(payload, list) or part.get_content_maintype() == "message":
            yield part
            continue
        inner = [one for one in payload if isinstance(one, Message)]
        if choose and part.get_content_type() == "multipart/alternative":
            inner = _choose_version(inner)
        waiting += reversed(inner)


def part_numbers(message: Part, prefix: str = "") -> dict[int, str]:
    """The numbers of the parts by their `id`, as IMAP counts them: `2.1` is the first part of the
    second. Empty for a message that is a single text."""
    numbers: dict[int, str] = {}
    waiting = [(message, prefix)]
    while waiting:
        part, path = waiting.pop()
        payload = part.get_payload()
        if not isinstance(payload, list) or part.get_content_maintype() == "message":
            continue
        for number, inner in enumerate(payload, 1):
            if isinstance(inner, Message):
                numbers[id(inner)] = f"{path}{number}"
                deeper = f"{path}{number}." if len(path) < _NUMBER_CHARS else path
                waiting.append((inner, deeper))
    return numbers


def _choose_version(versions: list[Part]) -> list[Part]:
    """The plain version, unless it is empty."""
    for part in versions:
        if part.get_content_type() == "text/plain" and (text_of(part) or "").strip():
            return [part]
    rich = [part for part in versions if part.get_content_type() in _RICH]
    return (rich or versions)[-1:]


def around(message: Part) -> Iterator[str]:
    """Yield the texts before the first and after the last part of each multipart."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if isinstance(payload, list) and part.get_content_maintype() == "multipart":
            yield part.preamble or ""
            yield part.epilogue or ""
            waiting += [one for one in payload if isinstance(one, Message)]


def attached_messages(part: Part) -> list[Part]:
    """The messages, or blocks of headers, in a `message/*` part."""
    payload = part.get_payload()
    if not isinstance(payload, list) or part.get_content_maintype() != "message":
        return []
    messages = [one for one in payload if isinstance(one, Message)]
    if len(messages) == 1 and not messages[0].keys() and _encoding(part) == "base64":
        # The whole message is encoded, which is not allowed but occurs.
        data = _from_base64(str(messages[0].get_payload()), text=True)
        return [email.message_from_bytes(data, policy=part.policy)]
    return messages


def name_of(part: Part) -> str:
    """The name of an attachment; empty for a part of the text."""
    name = one_line(part.get_filename() or "")
    if not name and part.get_content_type() == "message/rfc822":
        return next((header(one, "Subject") for one in attached_messages(part)), "")
    if not name and part.get_content_disposition() == "attachment":
        return part.get_content_type()
    return name


def is_signature(part: Part) -> bool:
    return part.get_content_type() in _SIGNATURES


def is_wordless(part: Part) -> bool:
    """Whether a part is a picture, a sound or a font."""
    kind = part.get_content_type()
    return kind.startswith(_WORDLESS) and kind not in HTML


def header(message: Part, name: str) -> str:
    """The first header of this name, or an empty string."""
    return next(iter(headers(message, name)), "")


def headers(message: Part, name: str) -> list[str]:
    """All headers of this name in readable form, even if their bytes are not encoded properly."""
    raw = [str(value) for key, value in message.raw_items() if key.lower() == name.lower()]
    if not raw:
        return []
    try:
        "".join(raw).encode()
    except UnicodeEncodeError:
        return [
            one_line(decode_text(value.encode("utf-8", "surrogateescape"), "utf-8"))
            for value in raw
        ]
    if len(raw) > _MAX_SAME_HEADERS:  # no program writes that many, and parsing them is slow
        return [one_line(value) for value in raw]
    return [one_line(str(value)) for value in message.get_all(name, [])]


def text_of(part: Part) -> str | None:
    """The text of a part; None if it is not text."""
    data = _data(part)
    kind = part.get_content_type()
    charset = part.get_content_charset()
    if part.get_content_maintype() not in ("multipart", "text") and kind not in HTML:
        text = _as_text(data, charset) if not is_wordless(part) else None
        if text is not None and kind.endswith("json"):
            return unescape("a.json", text)
        return text
    if charset is None and kind in HTML:
        return html.decode_html(data)
    text = decode_text(data, charset or "utf-8")
    if str(part.get_param("delsp") or "").lower() == "yes":
        return _without_soft_breaks(text)
    return text


def decode_text(data: bytes, charset: str) -> str:
    """Decode by the declared charset, or as UTF-8 if that fits, or in a guessed encoding if it
    is declared as UTF-8 or ASCII. Otherwise invalid bytes are replaced."""
    is_ascii = charset.lower() in ("ascii", "us-ascii")
    declared = "utf-8" if is_ascii else html.encoding_of(charset)
    if declared.lower() in ("utf-8", "utf8"):
        return decode_guessed(data)[0]
    for name, errors in ((declared, "strict"), ("utf-8", "strict"), (declared, "replace")):
        try:
            return data.decode(name, errors)
        except (LookupError, ValueError):
            continue
    return decode_guessed(data)[0]


def _data(part: Part) -> bytes:
    payload = part.get_payload()
    if isinstance(payload, str) and _encoding(part) == "base64":
        charset = part.get_content_charset() or ""
        is_text = part.get_content_maintype() == "text" and not charset.startswith("utf-16")
        return _from_base64(payload, text=is_text)
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _encoding(part: Part) -> str:
    return str(part.get("Content-Transfer-Encoding") or "").strip().lower()


def _from_base64(payload: str, *, text: bool) -> bytes:
    """Decode the lines of base64 at the beginning. The lines below, such as the footer of a mailing
    list, stay as they are; so does a payload that is not base64, or not base64 of a `text`."""
    lines = payload.split("\n")
    count = 0
    while count < len(lines) and (_BASE64_LINE.fullmatch(lines[count].strip()) or not lines[count]):
        count += 1
    encoded = "".join(map(str.strip, lines[:count])).rstrip("=")
    plain = payload.encode("utf-8", "surrogateescape")
    try:
        data = binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error:
        return plain
    is_binary = _CONTROL_BYTE.search(data) is not None
    if not data or (text and is_binary):
        return plain
    rest = "\n".join(lines[count:]).strip()
    return data if is_binary or not rest else data + f"\n{rest}".encode("utf-8", "surrogateescape")


def _as_text(data: bytes, charset: str | None) -> str | None:
    """The text in bytes of an unknown kind; None if they are not text."""
    if signature(data) in BINARY:
        return None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16"
    for name in (charset, "utf-8"):
        try:
            text = data.decode(name) if name else None
        except (LookupError, ValueError):
            continue
        if text is not None:
            return text if not _CONTROL.search(text) else None
    text = data.decode("cp1252", "replace")
    if _CONTROL.search(text) or "\ufffd" in text:
        return None
    return text if sum(map(str.isascii, text)) >= _ASCII_SHARE * len(text) else None


def _without_soft_breaks(text: str) -> str:
    """Join lines that end with a space, which is not part of the text (`format=flowed`)."""
    lines: list[list[str]] = []
    joins = False
    depth = 0
    for line in text.replace("\r\n", "\n").split("\n"):
        words = line.lstrip(">")
        is_soft = line.endswith(" ") and words != "-- " and not words.isspace()
        written = line[:-1] if is_soft else line
        if joins and len(line) - len(words) == depth:
            lines[-1].append(written[depth:].removeprefix(" "))
        else:
            lines.append([written])
        joins, depth = is_soft, len(line) - len(words)
    return "\n".join(map("".join, lines))
