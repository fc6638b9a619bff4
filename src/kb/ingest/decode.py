"""From bytes to the text that lines are counted in.

Pure. Everything that reads a file again, to show or to compare a passage, goes through `decode`,
so that line numbers and text are those of the index.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator

from kb.text.normalize import nfc

_SAMPLE_BYTES = 8192
_PRINTABLE = bytes([0, *b"\t\n\r\f", *range(32, 127)])
_BLANK = re.compile(r"^[^\S\n]+$", re.MULTILINE)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"}


class Unreadable(Exception):
    """A file of a known format that cannot be read: `failed` in the report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unsupported(Exception):
    """A file that is not for reading here: `skipped` in the report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unavailable(Unsupported):
    """A file that could be read if something were installed: what was known of it stays."""


def decode(data: bytes) -> str:
    """The text of `data`, without a byte order mark, and `normalised`."""
    return normalised(_decoded(data))


def windows(
    data: bytes, size: int, tell: Callable[[int, int], None] | None = None
) -> Iterator[tuple[int, str]]:
    """The text of `data` in stretches of about `size` bytes, each with the number of lines before
    it, so that a long file is never held twice. They end where paragraphs do, or at least lines.
    What is not plain UTF-8 comes in one. `tell` hears, behind each, how many bytes stood before
    it: those are done with, while the chunks of its own are still to be made."""
    if len(data) <= size or data.startswith(codecs.BOM_UTF8) or b"\0" in data:
        yield 0, decode(data)
        return
    start = lines = 0
    while start < len(data):
        end = _line_end(data, start + size)
        try:
            text = normalised(data[start:end].decode("utf-8"))
        except UnicodeDecodeError:
            _utf8(data)  # says at which line of the whole
            raise
        yield lines, text
        if tell is not None:
            tell(start, len(data))
        lines += text.count("\n")
        start = end


def _line_end(data: bytes, at: int) -> int:
    """The end of the first paragraph behind `at`, if one ends nearby, else of the line."""
    if (blank := data.find(b"\n\n", at, at + _SAMPLE_BYTES)) >= 0:
        return blank + 2
    end = data.find(b"\n", at)
    return end + 1 if end >= 0 else len(data)


def normalised(text: str) -> str:
    """`text` in NFC, with lines ended by `\\n`, and blank lines empty.

    Blank lines lose their spaces so that the text between two passages is known by its length.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("", nfc(text))


def looks_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is something else than text."""
    return b"\0" in head and _marked_encoding(head) is None and _bare_utf16(head) is None


def _decoded(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        return _utf8(data[len(codecs.BOM_UTF8) :])
    encoding = _marked_encoding(data)
    if encoding is None and b"\0" in data:
        encoding = _bare_utf16(data)
        if encoding is None:
            raise Unsupported("binary file")
    if encoding is None:
        return _utf8(data)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid {encoding.upper()} at byte {error.start}") from error


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + before.replace(b"\r\n", b"").count(b"\r") + 1
        raise Unreadable(
            f"not valid UTF-8 at line {line}; "
            "convert it, for example with: iconv -f WINDOWS-1252 -t UTF-8"
        ) from error


def _marked_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark names; UTF-32's first, since it begins like UTF-16's."""
    return _UTF32.get(data[:4]) or _UTF16.get(data[:2])


def _bare_utf16(data: bytes) -> str | None:
    """UTF-16 without its mark: what is ASCII in it leaves a zero in every other byte."""
    sample = data[:_SAMPLE_BYTES]
    if len(sample) % 2 or _is_ascii_with_zeros(sample):
        return None
    little = sample[1::2].count(0) > sample[0::2].count(0)
    for encoding in ("utf-16-le", "utf-16-be") if little else ("utf-16-be", "utf-16-le"):
        try:
            # A pair cut by the end of the sample is not held against it.
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        if all(map(_is_text, text)):
            return encoding
    return None


def _is_ascii_with_zeros(sample: bytes) -> bool:
    """Names or records with zeros between them; in pairs, their letters would pass for Chinese."""
    return sample.count(0) * 3 < len(sample) and not sample.translate(None, _PRINTABLE)


def _is_text(char: str) -> bool:
    """Not a control character, nor unassigned, as bytes of something else would give."""
    return char in "\t\n\r\f" or unicodedata.category(char) not in ("Cc", "Cn", "Co", "Cs")
