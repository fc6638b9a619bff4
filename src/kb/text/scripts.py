"""Scripts: whether a query is written in one that a model reads. Pure.

A model that was made from English text knows other scripts by a few characters at most, and what
it says of a question in Chinese is noise. One that is mostly English and asks about one Chinese
word is no better off: it is about that word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import groupby
from unicodedata import category, name, normalize

# So few letters in a row are symbols, as in TNF-α, ΔΨ or ℵ₀; of others than these, one is.
_SYMBOL_LETTERS = {"LATIN": 0, "GREEK": 2}
_KANA = ("HIRAGANA", "KATAKANA")
# Two letters of these count as a word, as everywhere in kb; of others, a word is a word.
_DENSE = frozenset({"CJK", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", *_KANA})
# From this share of its words on, a query cannot be read by who does not know their scripts.
_SHARE = 0.2


def unread(text: str, read: Sequence[str], failed: Set[str] = frozenset()) -> frozenset[str]:
    """The scripts of `text` that are not among those `read`, where none means any, or that are
    among those `failed`; empty where too little of it is written in them to matter. A text without
    letters is read by all."""
    if not failed and (not read or (text.isascii() and "Latin" in read)):
        return frozenset()
    known = {script.upper() for script in read}
    words = words_by_script(text)
    japanese = not words.keys().isdisjoint(_KANA)
    foreign = frozenset(
        script
        for script in words
        if (known and script not in known) or _taught_as(script, japanese=japanese) in failed
    )
    count = sum(words[script] for script in foreign)
    return foreign if count and count >= _SHARE * words.total() else frozenset()


def is_cjk(text: str) -> bool:
    """Whether as much of `text` is written without spaces, or in Hangul."""
    if text.isascii():
        return False
    words = words_by_script(text)
    count = sum(words[script] for script in _DENSE)
    return bool(count) and count >= _SHARE * words.total()


def words_by_script(text: str) -> Counter[str]:
    """How many half words of a text are in which script, as the names of its letters begin."""
    words: Counter[str] = Counter()
    for word in normalize("NFKC", text).split():  # wide forms are those of the plain letter
        for script, letters in _letters(word).items():
            words[script] += letters if script in _DENSE else 2
    return words


def _taught_as(script: str, *, japanese: bool) -> str:
    """The script whose exam tells whether this one is read: Japanese has letters of several."""
    return "HIRAGANA" if script in _KANA or (japanese and script == "CJK") else script


def _letters(word: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for script, run in groupby(map(_script, word)):
        length = sum(1 for _ in run)
        if script and length > _SYMBOL_LETTERS.get(script, script not in _DENSE):
            counts[script] += length
    return counts


def _script(char: str) -> str:
    """The first word of a letter's name, which is its script's; empty for what is no letter, or
    changes one."""
    if char.isascii():
        return "LATIN" if char.isalpha() else ""
    if not char.isalpha() or category(char) == "Lm":
        return ""
    return name(char, "").partition(" ")[0]
