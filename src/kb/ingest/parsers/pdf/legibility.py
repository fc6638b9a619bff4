"""Whether the text of a page is what a reader sees on it.

Pure. A font draws glyphs, and need not define which letters they are. Without a map from glyphs to
Unicode, PDFium returns the number of each glyph as if it were a character: `,GHQWLW\\` for
"Identity". With a wrong map, it returns other symbols: `P❡♥❛❧` for "Penal". Some fonts without a
map number their glyphs like ASCII, as old TeX fonts do; their text is right. So the text itself is
examined: in every language with Latin letters, a few pairs of letters are frequent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

# The most frequent pairs in 77 languages with Latin letters, without their accents. They make up at
# least 43% of the pairs in every such language, and about 10% after any substitution of letters.
_FREQUENT_PAIRS = frozenset(
    """
    an er in en ar re ta ra te al on li es ri la at ti st ma na or is ng le nt ka ni de el ne et me
    as nd si se ik di it da ro to am ca pa lo ad il sa ia ic ir ch co ol tr io ko ha ur ve va un os
    ak ie ac om tu ga pr em ki do im ba ge ci po he
    """.split()
)
_MIN_PAIRS = 6  # distinct pairs in a text whose letters are doubtful
_MIN_SHARE = 0.25
# These apply to a page without other signs of wrong letters. Only whole words of prose count:
# neither abbreviations nor names in code nor encoded data.
_MIN_PAGE_PAIRS = 200
_MIN_PAGE_SHARE = 0.12
_LETTERS = re.compile("[a-z]{2,}")
_PROSE_WORD = re.compile(r"(?<!\S)[\"'(]?([a-z]{5,20})[\"').,;:!?]{0,2}(?!\S)")

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Fewer than four are large brackets and other symbols of formulas.
_NUMBER_RUN = re.compile(r"[\x00-\x1f\x7f-\x9f]{4,}|[^\x00-\xff\s]{4,}")
_MIN_NUMBERS = 8
_HIGH_LETTER = re.compile("[\xc0-\xff]")
_LETTERS_BEFORE, _LETTERS_AFTER = re.compile(r"[^\W\d_]{2}\Z"), re.compile(r"[^\W\d_]{2}")
# Private use without the parts of large brackets, replacement characters, dingbats and enclosed
# letters: as single signs they are bullets and icons, but no word is made of them.
_STRANGE = "\ue000-\uf8df\ufffd\u2460-\u24ff\u2600-\u27bf"
_STRANGE_CHAR = re.compile(f"[{_STRANGE}]")
_STRANGE_TOKEN = re.compile(rf"[^\s{_STRANGE}]{{0,40}}[{_STRANGE}]\S{{0,200}}")
_MIN_STRANGE = 20  # strange characters on a page, at least


def is_unreadable(text: str, unmapped: Sequence[str]) -> bool:
    """Whether a page has text that is not what a reader sees. `text` is that of the page, and
    `unmapped` are its words in fonts without a map to Unicode."""
    if unmapped and _is_misread(" ".join(unmapped)):
        return True
    if not text.isascii() and _strange_chars(text) >= _MIN_STRANGE:
        return True
    pairs = list(_pairs(_PROSE_WORD.findall(_fold(text))))
    return len(pairs) >= _MIN_PAGE_PAIRS and _share(pairs) < _MIN_PAGE_SHARE


def adjacent_letters(text: str, index: int) -> Iterator[int]:
    """Yield the indexes of the letters beside a character that touches two letters or more."""
    if _LETTERS_BEFORE.search(text[max(0, index - 2) : index]):
        yield index - 1
    if _LETTERS_AFTER.match(text, index + 1):
        yield index + 1


def _is_misread(text: str) -> bool:
    """Whether the glyph numbers differ from the ASCII codes of their letters."""
    if sum(map(len, _NUMBER_RUN.findall(text))) >= _MIN_NUMBERS:
        return True
    pairs = list(_pairs(_LETTERS.findall(_fold(text))))
    if len(set(pairs)) >= _MIN_PAIRS and _share(pairs) < _MIN_SHARE:
        return True
    high = len(_HIGH_LETTER.findall(text))
    return high >= _MIN_NUMBERS and 2 * high > sum(map(str.isalpha, text))


def _strange_chars(text: str) -> int:
    """Count the characters of the distinct words that consist mostly of strange symbols."""
    count = 0
    for token in set(_STRANGE_TOKEN.findall(text)):
        strange = _STRANGE_CHAR.findall(token)
        if 2 * len(strange) >= len(token) and len(set(strange)) >= 3:
            count += len(token)
    return count


def _fold(text: str) -> str:
    """Lowercase letters without their accents."""
    if text.isascii():
        return text.lower()
    return "".join(
        char
        for char in unicodedata.normalize("NFKD", text.casefold())
        if not unicodedata.combining(char)
    )


def _pairs(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        for index in range(len(word) - 1):
            yield word[index : index + 2]


def _share(pairs: Sequence[str]) -> float:
    return sum(pair in _FREQUENT_PAIRS for pair in pairs) / len(pairs)
