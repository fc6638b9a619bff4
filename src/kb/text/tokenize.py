"""Words, their offsets and their stems, as the full-text index sees them. Pure.

The tokens are those of FTS5's `porter unicode61 remove_diacritics 2`. The text is first folded:
letters in lower case and without diacritics, a space for each separator. Folding keeps offsets, and
splitting the result at spaces gives the words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence, Set
from functools import cache, lru_cache
from types import ModuleType

from kb.text.plain_words import not_ascii
from kb.text.stem import MAX_BYTES, stem

_MAX_CACHE_ENTRIES = 1 << 16  # about 10 MB
_MAX_BEGINNINGS = 24  # for more, stemming every word is faster than finding each
_MAX_REPLACE_CHARS = 32  # for more, `str.translate` is faster than replacing each

_ASCII = bytes(
    byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else ord(" ")
    for byte in range(256)
)

Token = tuple[int, int, str]  # start and end of a word in characters, and its stem


def tokenize(text: str, wanted: Set[str] | None = None) -> list[Token]:
    """The words of `text`, in order. With `wanted`, only those whose stem is in it."""
    folded = fold(text)
    if wanted is not None:
        return _select(folded, wanted)
    stems, tokens, start = _STEMS, [], 0
    for word in folded.split(" "):
        if word:
            end = start + len(word)
            tokens.append((start, end, stems[word]))
            start = end
        start += 1
    return tokens


def split_words(text: str) -> list[str]:
    """The words of `text`, folded and in order; `stem_word` has their stems."""
    return fold(text).split()


def split_ngrams(text: str) -> list[str]:
    """The words of `kb.text.normalize.unspaced_ngrams`, as the n-gram index has them: symbols,
    such as the radicals of Han characters, separate words."""
    return re.sub("[\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u309b\u309c]", " ", text).split()


def stems_of(text: str) -> list[str]:
    """The stems of the words of `text`, in order."""
    return list(map(_STEMS.__getitem__, fold(text).split()))


def stems_in(text: str, wanted: Set[str]) -> set[str]:
    """The stems in `wanted` that occur in `text`."""
    return {word_stem for *_, word_stem in _select(fold(text), wanted)}


def has_phrase(texts: Iterable[str], phrases: Iterable[Sequence[str]]) -> bool:
    """Whether any of the texts contains any of the phrases: stems of adjacent words."""
    folded = [" ".join(fold(text).split()) for text in texts]
    if not all(map(str.isascii, folded)):
        spaced = "\n".join(
            f" {' '.join(map(_STEMS.__getitem__, each.split()))} " for each in folded
        )
        return any(f" {' '.join(phrase)} " in spaced for phrase in phrases)
    padded = " " + " \n ".join(folded) + " "  # no phrase goes across the line end
    return any(_has_phrase(padded, phrase) for phrase in phrases)


def _has_phrase(padded: str, phrase: Sequence[str]) -> bool:
    before, beginning, after = _anchor(tuple(phrase))
    start = padded.find(beginning)
    while start >= 0:
        if _follows(padded, start, after) and _precedes(padded, start, before):
            return True
        start = padded.find(beginning, start + 1)
    return False


@lru_cache(maxsize=256)
def _anchor(phrase: tuple[str, ...]) -> tuple[Sequence[str], str, Sequence[str]]:
    """Three parts of a phrase: the stems before the longest one, which is usually the rarest; its
    beginning, after a space; and the stems from it on."""
    longest = max(range(len(phrase)), key=lambda at: len(phrase[at]))
    return phrase[:longest], f" {phrase[longest][:-1] or phrase[longest]}", phrase[longest:]


def _follows(padded: str, at: int, stems: Sequence[str]) -> bool:
    """Whether the words after the space at `at` have these stems."""
    for wanted in stems:
        end = padded.find(" ", at + 1)
        if end < 0 or _STEMS[padded[at + 1 : end]] != wanted:
            return False
        at = end
    return True


def _precedes(padded: str, at: int, stems: Sequence[str]) -> bool:
    """Whether the words before the space at `at` have these stems."""
    for wanted in reversed(stems):
        start = padded.rfind(" ", 0, at)
        if start < 0 or _STEMS[padded[start + 1 : at]] != wanted:
            return False
        at = start
    return True


def _select(folded: str, wanted: Set[str]) -> list[Token]:
    """The words whose stem is wanted. An ASCII word begins with its stem, except perhaps for the
    last letter of a stem of several letters. So searching for each beginning is faster than
    examining every word."""
    stems, tokens = _STEMS, []
    beginnings = _beginnings(frozenset(wanted)) if folded.isascii() else ()
    if not 0 < len(beginnings) <= _MAX_BEGINNINGS:
        start = 0
        for word in folded.split(" "):
            end = start + len(word)
            if word and (word_stem := stems[word]) in wanted:
                tokens.append((start, end, word_stem))
            start = end + 1
        return tokens
    padded = f" {folded} "
    for beginning in beginnings:
        start = padded.find(beginning)
        while start >= 0:
            end = padded.find(" ", start + 1)
            if (word_stem := stems[padded[start + 1 : end]]) in wanted:
                tokens.append((start, end - 1, word_stem))
            start = padded.find(beginning, end)
    tokens.sort()
    return tokens


@lru_cache(maxsize=64)
def _beginnings(wanted: frozenset[str]) -> tuple[str, ...]:
    """A space and the prefix of words, for each of these stems. Prefixes that begin with another
    one are left out."""
    kept: list[str] = []
    for each in sorted({one[:-1] or one for one in wanted if one}):
        if not (kept and each.startswith(kept[-1])):
            kept.append(each)
    return tuple(f" {each}" for each in kept)


# --- folding --------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """`text` in lower case and without diacritics, with a space for each separator. Offsets stay
    the same, so combining marks inside words remain."""
    if not text.isascii():
        text = _fold_non_ascii(text)
    return text.encode().translate(_ASCII).decode()


def _fold_non_ascii(text: str) -> str:
    chars = set(not_ascii(text))
    changes = {char: folded for char in chars if (folded := _FOLDED[char]) != char}
    if len(changes) > _MAX_REPLACE_CHARS:
        text = text.translate({ord(char): folded for char, folded in changes.items()})
    else:
        for char, folded in changes.items():
            text = text.replace(char, folded)
    marks = _tables().MARKS
    if not chars.isdisjoint(marks):  # a mark is part of the word before it, or else a separator
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
    """The tables of `unicode61`, loaded on demand: ASCII text does not need them."""
    from kb.text import unicode61

    return unicode61


# --- caches ---------------------------------------------------------------------------------------


class _Cache(dict[str, str]):
    """Cached results for short strings. A lookup takes half as long as a call of `lru_cache`."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function

    def __missing__(self, key: str) -> str:
        result = self._function(key)
        if len(key) <= MAX_BYTES:
            if len(self) >= _MAX_CACHE_ENTRIES:
                self.clear()
            self[key] = result
        return result


def stem_word(word: str) -> str:
    """The stem of a folded word."""
    if not word.isascii():
        word = re.sub(f"[{_tables().MARKS}]", "", word)
    return stem(word)


_STEMS = _Cache(stem_word)
_FOLDED = _Cache(_fold_char)
