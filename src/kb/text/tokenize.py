"""The words of a text as the full-text index sees them. Pure.

Token for token FTS5's `porter unicode61 remove_diacritics 2`. A text is folded first: letters in
lower case and without diacritics, a space for every character that separates words, all at their
offsets. Words are then what stands between spaces.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Set
from functools import cache
from types import ModuleType

from kb.text.stem import MAX_BYTES, stem

_MAX_CACHED = 1 << 14
_MAX_FIND = 8  # stems: beyond that, looking at every word is faster than finding each stem
_MAX_REPLACE = 32  # characters: beyond that, `str.translate` is faster than replacing each

_ASCII = bytes(
    byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else ord(" ")
    for byte in range(256)
)
# Not ASCII, nor of the large ranges of letters that are indexed as they are.
_CHANGEABLE = (
    r"[^\x00-\x7f\u0430-\u044f\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+"
)


Token = tuple[int, int, str]  # start and end of a word in characters, and its stem


def tokenize(text: str, wanted: Set[str] | None = None) -> list[Token]:
    """The words of `text` in order; with `wanted`, only those with one of these stems."""
    folded = fold(text)
    if wanted is not None and len(wanted) <= _MAX_FIND:
        return _find(folded, wanted)
    stems, tokens, start = _STEMS, [], 0
    for word in folded.split(" "):
        if word:
            word_stem = stems[word]
            end = start + len(word)
            if wanted is None or word_stem in wanted:
                tokens.append((start, end, word_stem))
            start = end
        start += 1
    return tokens


def _find(folded: str, wanted: Set[str]) -> list[Token]:
    """The words with one of a few stems. Only words that begin like a stem are stemmed: Porter's
    rules change at most the last two letters of what they leave, and never the first."""
    padded = f" {folded} "
    tokens = []
    for wanted_stem in filter(None, wanted):
        beginning = f" {wanted_stem[: max(1, len(wanted_stem) - 2)]}"
        start = padded.find(beginning)
        while start >= 0:
            end = padded.find(" ", start + 1)
            if _STEMS[padded[start + 1 : end]] == wanted_stem:
                tokens.append((start, end - 1, wanted_stem))
            start = padded.find(beginning, end)
    tokens.sort()
    return tokens


# --- folding --------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """`text` as it is split into words, with every character at its offset: in lower case, without
    diacritics, and a space for each separator. Combining marks inside of words remain."""
    if not text.isascii():
        text = _fold_non_ascii(text)
    return text.encode().translate(_ASCII).decode()


def _fold_non_ascii(text: str) -> str:
    chars = set("".join(re.findall(_CHANGEABLE, text)))
    changes = {char: folded for char in chars if (folded := _FOLDED[char]) != char}
    if len(changes) > _MAX_REPLACE:
        text = text.translate({ord(char): folded for char, folded in changes.items()})
    else:
        for char, folded in changes.items():
            text = text.replace(char, folded)
    marks = _tables().MARKS
    if not chars.isdisjoint(marks):  # a mark belongs to the word that it follows, if any
        text = re.sub(rf"(?<![0-9A-Za-z\x80-\U0010ffff])[{marks}]+", _spaces, text)
    return text


def _spaces(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _fold_char(char: str) -> str:
    tables = _tables()
    if bisect_right(tables.BOUNDARIES, char) % 2:
        at = bisect_right(tables.FOLDED_FROM, char) - 1
        return tables.FOLDED_TO[at] if tables.FOLDED_FROM[at] == char else char
    return char if char in tables.MARKS else " "


@cache
def _tables() -> ModuleType:
    """Loaded on demand: texts in ASCII need none."""
    from kb.text import unicode61

    return unicode61


# --- caches ---------------------------------------------------------------------------------------


class _Cache(dict[str, str]):
    """Results of a function of a short text. A lookup is faster than a call of `lru_cache`."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function

    def __missing__(self, key: str) -> str:
        result = self._function(key)
        if len(key) <= MAX_BYTES:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[key] = result
        return result


def _stem_word(word: str) -> str:
    if not word.isascii():
        word = re.sub(f"[{_tables().MARKS}]", "", word)
    return stem(word)


_STEMS = _Cache(_stem_word)
_FOLDED = _Cache(_fold_char)
