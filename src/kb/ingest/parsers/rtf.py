"""Rich Text Format: the text of WordPad, TextEdit and old word processors, by paragraph.

An RTF file is a tree of groups with control words between the text. Groups that hold no text of the
document (fonts, colors, pictures, and all that are marked as ignorable) are left out; footnotes,
headers, comments and fields are kept.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(-?\d{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\([^A-Za-z])|([{}])|[\r\n]+"
    rb"|([^\\{}\r\n]+)"
)
_HEADER = re.compile(rb"\s*\{\\rtf")
_BREAKS = {
    b"par": "\n", b"line": "\n", b"sect": "\n", b"page": "\n", b"row": "\n", b"nestrow": "\n",
    b"tab": "\t", b"cell": " | ", b"nestcell": " | ", b"emdash": "—", b"endash": "–",
    b"lquote": "‘", b"rquote": "’", b"ldblquote": "“", b"rdblquote": "”", b"bullet": "•",
    b"emspace": " ", b"enspace": " ", b"qmspace": " ",
}  # fmt: skip
_SYMBOLS = {b"~": "\xa0", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}",
            b"\r": "\n", b"\n": "\n"}  # fmt: skip
_SKIPPED = frozenset(
    b"""
    fonttbl colortbl stylesheet pict objdata listtable listoverridetable revtbl rsidtbl generator
    filetbl themedata colorschememapping datastore latentstyles xmlnstbl mmathPr fldinst bkmkstart
    bkmkend datafield panose falt fontemb fontfile blipuid listpicture nonshppict
    """.split()
)
# Ignorable groups that hold text nevertheless.
_KEPT = frozenset(b"shptxt shpinst annotation footnote nestrow nesttableprops fldrslt".split())
_INFO = frozenset(b"title subject author keywords doccomm company category".split())
_TIMES = frozenset(b"creatim revtim".split())
_MAX_DEPTH = 1000
_CODE_PAGES = {0: "cp1252", 437: "cp437", 850: "cp850", 10000: "mac_roman", 65001: "utf-8"}
_CHARSETS = {
    128: "cp932", 129: "cp949", 134: "gb18030", 136: "big5", 161: "cp1253", 162: "cp1254",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip


class RtfParser(FormatParser):
    name = "rtf"
    version = "3"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".rtf" or bool(_HEADER.match(source.data[:64]))

    def parse(self, source: Source) -> Parsed:
        if not _HEADER.match(source.data[:1024]):
            raise Unreadable("not an RTF file: it does not begin with {\\rtf")
        reader = _Reader()
        reader.read(source.data)
        out = Extract()
        for line in _join(reader.text).split("\n"):
            out.paragraph(one_line(line.strip(" |")))
        info = {key: one_line(_join(parts)) for key, parts in reader.info.items()}
        title = info.pop("title", "")
        out.append_missing([*info.values(), title[TITLE_CHARS:]], title[:TITLE_CHARS])
        warnings = list(out.warnings)
        if reader.objects:
            warnings.append(f"embedded files are not read: {reader.objects}")
        return Parsed(
            type="rtf",
            blocks=out.blocks,
            title=title or file_names.title_of(source.name),
            attributes=_attributes(info, reader.times),
            warnings=tuple(warnings),
            text=out.text,
        )


def _attributes(info: dict[str, str], times: dict[str, dict[str, int]]) -> Attributes:
    known = {"author", "subject", "keywords", "company"}
    metadata: dict[str, Any] = {key: text for key, text in info.items() if key in known and text}
    created, changed = (_moment(times.get(key, {})) for key in ("creatim", "revtim"))
    return Attributes(
        date=created,
        created_at=dates.moment(created) if created else None,
        updated_at=dates.moment(changed) if changed else None,
        metadata=metadata,
    )


def _moment(fields: dict[str, int]) -> str | None:
    day = "{:04}-{:02}-{:02}".format(*(fields.get(key, 0) for key in ("yr", "mo", "dy")))
    return dates.parse(day)


class _Reader:
    """Reads the tokens of a file into `text`, and the properties of the document into `info`."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.info: dict[str, list[str]] = {}
        self.times: dict[str, dict[str, int]] = {}
        self.objects = 0  # embedded files
        self._default = "cp1252"
        self._fonts: dict[int, str] = {}
        self._bytes = bytearray()  # bytes of one character or several, in the current encoding
        # State of the current group: where text goes, encoding, characters after \u, destination.
        self._target: list[str] | None = self.text
        self._encoding = ""
        self._after_unicode = 1
        self._destination = b""
        self._stack: list[tuple[list[str] | None, str, int, bytes]] = []
        self._ignorable = False
        self._skip = 0
        self._font = 0

    def read(self, data: bytes) -> None:
        at = 0
        while (match := _TOKEN.search(data, at)) is not None:
            at = match.end()
            word, number, code, symbol, brace, text = match.groups()
            if word is not None:
                if word == b"bin" and number is not None:
                    size = max(int(number), 0)
                    at += size if at + size <= len(data) else 0  # a wrong size skips no text
                else:
                    self._word(word, None if number is None else int(number))
            elif code is not None:
                self._add_byte(int(code, 16))
            elif symbol is not None:
                self._symbol(symbol)
            elif brace is not None:
                self._brace(brace)
            elif text is not None:
                self._plain(text)
        self._flush()

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._ignorable, self._skip = False, 0
        if brace == b"{":
            if len(self._stack) >= _MAX_DEPTH:
                raise Unreadable(f"groups are nested more than {_MAX_DEPTH} levels deep")
            state = (self._target, self._encoding, self._after_unicode, self._destination)
            self._stack.append(state)
        elif self._stack:
            ended = self._destination
            self._target, self._encoding, self._after_unicode, self._destination = self._stack.pop()
            is_apart = ended in _KEPT and ended != b"fldrslt"  # fields are words in a sentence
            if ended != self._destination and is_apart and self._target is self.text:
                self.text.append("\n")

    def _word(self, word: bytes, number: int | None) -> None:
        self._flush()
        if word == b"u" and number is not None:
            self._unicode(number)
        elif word == b"uc":
            self._after_unicode = min(max(number or 0, 0), 16)
        elif word in _SKIPPED or (self._ignorable and word not in _KEPT):
            self.objects += word == b"objdata"
            self._destination = word
            self._target = None
        elif word == b"info":
            self._destination = word
            self._target = []
        elif word in _INFO and self._destination == b"info":
            self._destination = word
            self._target = self.info.setdefault(word.decode(), [])
        elif word in _TIMES and self._destination == b"info":
            self._destination = word
        elif self._destination in _TIMES and number is not None:
            self.times.setdefault(self._destination.decode(), {})[word.decode()] = number
        elif word in _KEPT or word in (b"header", b"footer", b"headerl", b"headerr"):
            self._destination = word
            self._add("\n" if word != b"fldrslt" else "")
        elif word == b"ansicpg":
            self._default = _CODE_PAGES.get(number or 0, f"cp{number}")
        elif word in (b"mac", b"pc", b"pca"):
            self._default = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}[word]
        elif word in (b"f", b"fcharset"):
            self._choose_font(word, number or 0)
        elif word in _BREAKS:
            self._add(_BREAKS[word])
        self._ignorable = False

    def _choose_font(self, word: bytes, number: int) -> None:
        """Select a font, or record the encoding of the selected one in the font table."""
        if word == b"f":
            self._font = number
            self._encoding = self._fonts.get(number, "")
        elif number in _CHARSETS and len(self._fonts) < 10_000:
            self._fonts[self._font] = _CHARSETS[number]

    def _unicode(self, number: int) -> None:
        """Add a character, or half of a surrogate pair, by its number, which is negative above
        32767."""
        self._add(chr(number % 0x10000) if abs(number) < 0x10000 else "\ufffd")
        self._skip = self._after_unicode

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._ignorable = True
        elif symbol in _SYMBOLS:
            self._flush()
            self._add(_SYMBOLS[symbol])

    def _plain(self, text: bytes) -> None:
        if self._skip:
            text, self._skip = text[self._skip :], max(0, self._skip - len(text))
        self._bytes += text

    def _add_byte(self, byte: int) -> None:
        if self._skip:
            self._skip -= 1
        else:
            self._bytes.append(byte)

    def _flush(self) -> None:
        """Decode the bytes that were collected."""
        if not self._bytes:
            return
        data, self._bytes = bytes(self._bytes), bytearray()
        if data.isascii():
            self._add(data.decode("ascii"))
            return
        try:
            codec = codecs.lookup(self._encoding or self._default)
            self._add(codec.decode(data, "replace")[0])
        except (LookupError, ValueError):
            self._add(data.decode("cp1252", "replace"))

    def _add(self, text: str) -> None:
        if self._target is not None:
            self._target.append(text)


def _join(parts: list[str]) -> str:
    """Join the parts and combine surrogate pairs."""
    halves = "".join(parts).encode("utf-16-le", "surrogatepass")
    return halves.decode("utf-16-le", "replace")
