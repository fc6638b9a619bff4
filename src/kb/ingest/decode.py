"""Decodes bytes into the text in which lines are counted.

Pure. Code that reads a file again to show or compare a passage also uses `decode`, so that text and
line numbers match the index.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator

from kb.text.normalize import nfc

_SAMPLE_BYTES = 8192
_LATIN = bytes([32, *range(65, 91), *range(97, 123)])  # letters and the space
_BLANK = re.compile(r"^[^\S\n]+$", re.MULTILINE)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"}


class Unreadable(Exception):
    """A file of a known format that cannot be read; reported as `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unsupported(Exception):
    """A file that kb does not read; reported as `skipped`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unavailable(Unsupported):
    """A file that needs an optional package to be read; its stored document is kept."""


def decode(data: bytes) -> str:
    """Decode `data`, drop its byte order mark, and normalize the text."""
    return normalize_text(_decode(data))


def text_windows(
    data: bytes, size: int, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the text of `data` in windows of about `size` bytes, each with the number of lines
    before it, so that a long file is never held in memory twice.

    A window ends with a paragraph, or at least with a line. Data that is not plain UTF-8 is one
    window. After each window, `on_progress` is called with the number of bytes before it, since its
    chunks have not been written yet.
    """
    from kb.ingest.legacy_encodings import is_utf8

    is_plain = not data.startswith(codecs.BOM_UTF8) and b"\0" not in data
    if len(data) <= size or not is_plain or not is_utf8(data):
        yield 0, decode(data)
        return
    start = lines = 0
    while start < len(data):
        end = _line_end(data, start + size)
        yield lines, (text := normalize_text(data[start:end].decode("utf-8")))
        if on_progress is not None:
            on_progress(start, len(data))
        lines += text.count("\n")
        start = end


def _line_end(data: bytes, at: int) -> int:
    """The end of the first paragraph after `at` if it is near, otherwise of the line."""
    if (blank := data.find(b"\n\n", at, at + _SAMPLE_BYTES)) >= 0:
        return blank + 2
    end = data.find(b"\n", at)
    return end + 1 if end >= 0 else len(data)


def normalize_text(text: str) -> str:
    """Convert `text` to NFC, line ends to `\\n`, and blank lines to empty ones.

    Without spaces in blank lines, the number of line ends determines the text between two passages.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("", nfc(text))


def looks_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is not text."""
    return b"\0" in head and wide_encoding(head) is None


def wide_encoding(data: bytes) -> str | None:
    """The UTF-16 or UTF-32 encoding of `data`, which may be only a file's beginning; else None."""
    return _bom_encoding(data) or (_utf16_without_bom(data) if b"\0" in data else None)


def _decode(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        return _utf8(data[len(codecs.BOM_UTF8) :])
    encoding = wide_encoding(data)
    if encoding is None and b"\0" in data:
        raise Unsupported("binary file")
    if encoding is None:
        return _utf8(data)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid {encoding.upper()} at byte {error.start}") from error


def _utf8(data: bytes) -> str:
    """Decode UTF-8, or the legacy encoding that fits. Raises `Unreadable` if none does."""
    if b"\x1b$" in data:
        from kb.ingest.legacy_encodings import escape_encoding

        if (escaped := escape_encoding(data)) is not None:
            return data.decode(escaped.codec)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        from kb.ingest.legacy_encodings import legacy_encoding

        if (encoding := legacy_encoding(data)) is not None:
            return data.decode(encoding.codec)
        before = data[: error.start]
        line = before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r") + 1
        raise Unreadable(f"not valid UTF-8 at line {line}, nor any other known encoding") from error


def _bom_encoding(data: bytes) -> str | None:
    """The encoding of the byte order mark; UTF-32 first, as its mark begins like that of UTF-16."""
    return _UTF32.get(data[:4]) or _UTF16.get(data[:2])


def _utf16_without_bom(data: bytes) -> str | None:
    """Detect UTF-16 without a mark, in which ASCII text has a zero in every other byte."""
    sample = data[:_SAMPLE_BYTES]
    if len(sample) % 2 or _is_text_with_zeros(sample):
        return None
    little = sample[1::2].count(0) > sample[0::2].count(0)
    for encoding in ("utf-16-le", "utf-16-be") if little else ("utf-16-be", "utf-16-le"):
        try:
            # Incremental, as the end of the sample may split a surrogate pair.
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        if all(map(_is_text, text)):
            return encoding
    return None


def _is_text_with_zeros(sample: bytes) -> bool:
    """Whether this is text with a few zeros in it, which would look like Chinese if decoded as
    UTF-16: UTF-8, or another encoding of mostly Latin letters."""
    if sample.count(0) * 3 >= len(sample):
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(sample.replace(b"\0", b""))
    except UnicodeDecodeError:
        # In UTF-16, the halves of the characters differ: one of them is no letter.
        return all(map(_is_mostly_latin, (sample[0::2], sample[1::2])))
    return all(map(_is_text, text))


def _is_mostly_latin(data: bytes) -> bool:
    rest = len(data.translate(None, _LATIN)) - data.count(0)
    return rest * 5 < (len(data) - data.count(0)) * 2


def _is_text(char: str) -> bool:
    """Whether `char` is assigned and not a control character, unlike most characters of decoded
    binary data."""
    return char in "\t\n\r\f" or unicodedata.category(char) not in ("Cc", "Cn", "Co", "Cs")
