"""Text in encodings older than UTF-8: Windows-1252 (and so Latin-1), and those of Chinese,
Japanese, Korean, Cyrillic, Greek and Hebrew.

Pure. The encoding of bytes can only be inferred. An encoding is accepted if all bytes are valid in
it, and if the result consists of the characters that texts in its language have. Shift-JIS, GB18030
and the others are tried before Windows-1252, in which nearly everything is valid. ISO-2022 consists
of ASCII bytes, so it is also valid UTF-8; its escape sequences tell it apart.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

_SAMPLE_BYTES = 64 * 1024
_STEP_BYTES = 1024 * 1024
_ESCAPE = b"\x1b$"  # begins a sequence that selects a character set of two bytes
_MIN_CHARS = 4  # of the language, in a multi-byte encoding

_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_FREQUENT_HANGUL = frozenset(
    "이다는을의에가하고은지를도서로한기사자어나리인대그시들스있것해아수일만라부정보전여주장상제원구과성조신"
    "으니오면게적비동트소화드관안위국내용문년월습입요음없였했된될때"
)
_HEBREW_WORD = re.compile("[\u05d0-\u05ea]{3,}")
_FREQUENT_HEBREW = frozenset("יוהלארתבשמם")  # three quarters
_CYRILLIC_WORD = re.compile("[\u0400-\u045f\u0490\u0491]{3,}")
_FREQUENT_CYRILLIC = frozenset("оеаинтсрвл")  # two thirds of Russian
_GREEK_WORD = re.compile("[\u0386\u0388-\u03ce]{3,}")
_ALPHA_SIGN = re.compile("[\xa2\xb6][\u03ac-\u03ce]")
_FREQUENT_GREEK = frozenset("αάοόιίεέτσςνηήυύρ")  # three quarters
_HALF_KANA = re.compile("[\uff61-\uff9f]")
_EAST_ASIAN = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uff60\u2010-\u2026\xb7]")
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_CP1252_UNUSED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_WESTERN_LETTERS = re.compile(r"[^\W\d_]")
_ACCENTED = re.compile(r"[^\W\d_\x00-\x7f]")
_ACCENTED_WORD = re.compile(rf"{_ACCENTED.pattern}{{3,}}")
_MIN_WORDS = 3  # different ones, of another script
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_WESTERN_SIGNS = "\xa0§«°±²³µ·»–—‘’“”„…•€£©®™"
_UTF8_LETTER = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


class Encoding(NamedTuple):
    """An encoding: its name in Python, and its common name."""

    codec: str
    name: str


def legacy_encoding(data: bytes) -> Encoding | None:
    """The encoding of text that is not UTF-8; None if none fits."""
    if (encoding := escape_encoding(data)) is not None:
        return encoding
    if b"\0" in data or _share_of_utf8(data) >= 0.9:
        return None
    data = data[_sample_start(data) :]
    for encoding, fits in _CANDIDATES:
        text = _decode_sample(data, encoding.codec)
        if text is not None and fits(text):
            return encoding
    return _WESTERN if _is_western(data) else None


def escape_encoding(data: bytes) -> Encoding | None:
    """The encoding of text in ISO-2022, which old Japanese and Korean mails and pages use; None if
    it has no escape sequences of these encodings, or is not valid."""
    start = data.find(_ESCAPE)
    if start < 0 or not data.isascii():
        return None
    for encoding in _ESCAPE_ENCODINGS:
        text = _decode_sample(data[start:], encoding.codec)
        if text is not None and not text.isascii() and "\x1b" not in text:
            return encoding
    return None


def decode_guessed(data: bytes) -> tuple[str, str | None]:
    """Decode the bytes of a page or a mail that names no encoding, or a wrong one, and return a
    note for the user if they are not UTF-8. Never fails: invalid bytes of a text that is mostly
    UTF-8 are replaced, and bytes that fit no encoding are read as Windows-1252."""
    if is_utf8(data):
        return data.decode("utf-8"), None
    if _share_of_utf8(data) >= 0.5:
        return data.decode("utf-8", "replace"), None
    encoding = legacy_encoding(data) or _WESTERN
    return data.decode(encoding.codec, "replace"), f"not UTF-8: read as {encoding.name}"


def encoding_note(data: bytes) -> str | None:
    """A note for the user if `data` is read in a legacy encoding."""
    if is_utf8(data):
        return None
    encoding = legacy_encoding(data)
    return f"not UTF-8: read as {encoding.name}" if encoding is not None else None


def is_utf8(data: bytes) -> bool:
    """Whether `data` is valid UTF-8 and not ISO-2022, decoded in steps, without a second copy in
    memory."""
    if data.isascii():
        return escape_encoding(data) is None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _STEP_BYTES):
            decoder.decode(data[start : start + _STEP_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _sample_start(data: bytes) -> int:
    """Where a sample with bytes beyond ASCII begins: at the start of a line, about half a sample
    before the first of these bytes."""
    first = _BEYOND_ASCII.search(data)
    near = 0 if first is None else max(first.start() - _SAMPLE_BYTES // 2, 0)
    return data.rfind(b"\n", 0, near) + 1


def _share_of_utf8(data: bytes) -> float:
    """The share of the bytes beyond ASCII that are parts of valid UTF-8 letters. In a damaged file,
    or one with several encodings, it is high, but no single encoding is right."""
    sample = data[:_SAMPLE_BYTES]
    high = len(sample) - len(sample.translate(None, bytes(range(0x80, 0x100))))
    return sum(map(len, _UTF8_LETTER.findall(sample))) / high if high else 0.0


def _decode_sample(data: bytes, codec: str) -> str | None:
    """The beginning of `data` as text; None if any of it is not valid."""
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        text = decoder.decode(data[:_SAMPLE_BYTES], final=len(data) <= _SAMPLE_BYTES)
        for start in range(_SAMPLE_BYTES, len(data), _STEP_BYTES):
            end = start + _STEP_BYTES
            decoder.decode(data[start:end], final=end >= len(data))
    except UnicodeDecodeError:
        return None
    return text


# --- languages ------------------------------------------------------------------------------------


def _is_japanese(text: str) -> bool:
    """Whether a text is Japanese: every sentence has kana. Half-width kana do not count, because
    bytes of other encodings decode to them."""
    kana, high = len(_KANA.findall(text)), _high_chars(text)
    return (
        kana >= _MIN_CHARS
        and 5 * kana >= high
        and _is_east_asian(text, high)
        and 10 * len(_HALF_KANA.findall(text)) <= high
    )


def _is_chinese(text: str) -> bool:
    """Whether most characters are among the 3,755 frequent ones of GB 2312, or the 5,401 of
    Big5."""
    han = _HAN.findall(text)
    return len(han) >= _MIN_CHARS and _is_east_asian(text, _high_chars(text))


def _is_simplified(text: str) -> bool:
    return _is_chinese(text) and _share(_HAN.findall(text), _in_gb2312) >= 0.8


def _is_traditional(text: str) -> bool:
    return _is_chinese(text) and _share(_HAN.findall(text), _in_big5) >= 0.8


def _is_korean(text: str) -> bool:
    """Whether a text is Korean. Short Chinese texts in GB 2312 decode to syllables too, but to rare
    ones."""
    hangul = _HANGUL.findall(text)
    high = _high_chars(text)
    return (
        len(hangul) >= _MIN_CHARS
        and 10 * len(hangul) >= 8 * high
        and _share(hangul, _FREQUENT_HANGUL.__contains__) >= 0.1
    )


def _is_hebrew(text: str) -> bool:
    return _has_words(text, _HEBREW_WORD, _FREQUENT_HEBREW, 0.55)


def _is_cyrillic(text: str) -> bool:
    return _has_words(text, _CYRILLIC_WORD, _FREQUENT_CYRILLIC, 0.45)


def _is_greek(text: str) -> bool:
    """Whether a text is Greek. A sign before a letter shows that the other Greek encoding is right:
    there, the byte is a capital Alpha with an accent."""
    return _ALPHA_SIGN.search(text) is None and _has_words(text, _GREEK_WORD, _FREQUENT_GREEK, 0.6)


def _has_words(text: str, word: re.Pattern[str], frequent: frozenset[str], share: float) -> bool:
    """Whether most characters beyond ASCII are in words of a script, with enough frequent letters
    and few capitals after small letters. Decoded with another encoding of the same script, a text
    has such words too, but with other letters."""
    words = word.findall(text)
    letters = list("".join(words).lower())
    return (
        len(set(words)) >= _MIN_WORDS
        and 10 * len(letters) >= 8 * _high_chars(text)
        and _share(letters, frequent.__contains__) >= share
        and 100 * sum(map(_capitals_inside, words)) <= len(letters)
    )


def _capitals_inside(word: str) -> int:
    return sum(one.islower() and other.isupper() for one, other in pairwise(word))


def _is_east_asian(text: str, high: int) -> bool:
    return 10 * len(_EAST_ASIAN.findall(text)) >= 9 * high


def _high_chars(text: str) -> int:
    return sum(char > "\x7f" for char in text)


def _share(chars: list[str], is_frequent: Callable[[str], bool]) -> float:
    return sum(map(is_frequent, chars)) / len(chars)


def _in_gb2312(char: str) -> bool:
    """Whether a character is in the first level of GB 2312, which contains the frequent ones."""
    return b"\xb0\xa1" <= char.encode("gb2312", "ignore") <= b"\xd7\xf9"


def _in_big5(char: str) -> bool:
    return b"\xa4\x40" <= char.encode("big5", "ignore") <= b"\xc6\x7e"


def _is_western(data: bytes) -> bool:
    """Whether the text, decoded as Windows-1252, is mostly ASCII, and most other characters are
    punctuation or letters in words that have ASCII letters too."""
    sample = data[:_SAMPLE_BYTES]
    if _CONTROLS.search(data) or _CP1252_UNUSED.search(data):
        return False
    others = sample.translate(None, bytes(range(0x80)))
    if 3 * len(others) > len(sample):
        return False
    if _has_foreign_words(sample.decode("cp1252", "replace")):
        return False
    text = others.decode("cp1252", "replace")
    letters = len(_WESTERN_LETTERS.findall(text))
    punctuation = sum(
        char in "\xa0\xa7\xab\xb0\xb1\xb2\xb3\xb5\xb7\xbb–—‘’“”„…•€£©®™" for char in text
    )
    return 10 * (letters + punctuation) >= 9 * len(text)


def _has_foreign_words(text: str) -> bool:
    """Whether most letters beyond ASCII follow each other, as in Cyrillic or Greek words that are
    decoded as Windows-1252. A few words are not enough: they may be a list of letters."""
    words = _ACCENTED_WORD.findall(text)
    letters = len(_ACCENTED.findall(text))
    return len(set(words)) >= _MIN_WORDS and 2 * sum(map(len, words)) >= letters


_ESCAPE_ENCODINGS = (
    Encoding("iso2022_jp_ext", "ISO-2022-JP"),
    Encoding("iso2022_kr", "ISO-2022-KR"),
)
_WESTERN = Encoding("cp1252", "Windows-1252")
_CANDIDATES: tuple[tuple[Encoding, Callable[[str], bool]], ...] = (
    (Encoding("cp1255", "Windows-1255"), _is_hebrew),
    (Encoding("cp1251", "Windows-1251"), _is_cyrillic),
    (Encoding("koi8_u", "KOI8-U"), _is_cyrillic),
    (Encoding("cp866", "IBM866"), _is_cyrillic),
    (Encoding("mac_cyrillic", "Mac Cyrillic"), _is_cyrillic),
    (Encoding("iso8859_5", "ISO-8859-5"), _is_cyrillic),
    (Encoding("cp1253", "Windows-1253"), _is_greek),
    (Encoding("iso8859_7", "ISO-8859-7"), _is_greek),
    (Encoding("euc_jp", "EUC-JP"), _is_japanese),
    (Encoding("cp932", "Shift-JIS"), _is_japanese),
    (Encoding("cp949", "EUC-KR"), _is_korean),
    (Encoding("gb18030", "GB18030"), _is_simplified),
    (Encoding("big5", "Big5"), _is_traditional),
)
