"""Normalization that indexing and queries share. Pure.

- Unicode normalization form C;
- identifiers, split into words: `targetHost` -> `target host`;
- scripts without spaces between words, split into single characters and bigrams.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from kb.text.patterns import compile_later
from kb.text.plain_words import plain_form, plain_words

# Scripts without spaces between words: Han, kana, bopomofo, and Thai, Lao, Khmer and Burmese with
# their combining vowels. Also Hangul, since Korean particles are written as part of the word.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ecd\u0edc-\u0edf"  # Lao
    "\u1000-\u1049\u1050-\u109d"  # Burmese
    "\u1100-\u11ff"  # Hangul jamo
    "\u1780-\u17d3"  # Khmer
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029"  # radicals, iteration and number signs
    "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff"  # hiragana, katakana
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff"  # bopomofo, Hangul compatibility
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"  # Hangul
    "\uff66-\uff9f"  # half-width katakana
    "\U00020000-\U0003ffff"  # Han, extensions
)
_MAX_IDENTIFIER_CHARS = 256  # a longer word is data
_MAX_MARKS = 30  # on one letter; composing a longer stack takes quadratic time
# Patterns for text beyond ASCII are compiled by `re` on first use: most searches need none.
_RUN = f"[{_UNSPACED}]+"
_LONG_SYMBOL_RUN = r"[^\w\s\x00-\x7f]{31,}"  # may be a stack of combining marks
_HALF_WIDTH_KATAKANA = "[\uff66-\uff9f]"
_BESIDE_RUN = rf"(?<=[{_UNSPACED}])[^\W_{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?=[{_UNSPACED}])"
_NOT_CAPITAL = r"[^\W_0-9A-Z]"  # any letter but an ASCII capital, so `Élan` is one word
_CAMEL_CASE_WORD = compile_later(rf"[A-Z]+(?!{_NOT_CAPITAL})|[A-Z]?{_NOT_CAPITAL}+|[0-9]+")
_KINDS = bytes(  # A for an ASCII capital, a for another ASCII letter or a digit
    ord("A" if chr(byte).isupper() else "a" if chr(byte).isalnum() else " ") if byte < 128 else 32
    for byte in range(256)
)

# English words that carry the form of a question rather than its topic.
STOP_WORDS = frozenset(
    """
    a an the and or but if as of in on at by to from for with into about
    is are was were be been being am do does did have has had can could should will would
    i you he she it we they me him her us them my your his its our their this that these those there
    who whom which what when where why how
    """.split()
)


# --- Unicode --------------------------------------------------------------------------------------


def nfc(text: str) -> str:
    """`text` in NFC, with a question mark in place of each lone surrogate."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", re.sub(_LONG_SYMBOL_RUN, _drop_excess_marks, text))


def _drop_excess_marks(match: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in match[0]:
        is_mark = unicodedata.combining(unicodedata.normalize("NFD", char)[0])
        marks = marks + 1 if is_mark else 0
        if marks <= _MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def widen_katakana(text: str) -> str:
    """Convert half-width katakana to full width, so that both forms match each other."""
    return unicodedata.normalize("NFKC", text) if re.search(_HALF_WIDTH_KATAKANA, text) else text


def count_substrings(text: str, terms: Iterable[str]) -> int:
    """How many of the terms, which are in lower case, occur in `text`, ignoring case."""
    folded = (text if text.isascii() else widen_katakana(text)).lower()
    return sum(term in folded for term in terms)


# --- scripts without spaces -----------------------------------------------------------------------


def unspaced_runs(text: str) -> list[str]:
    """The runs of unspaced script, in order: `用 kb 搜索` -> `用`, `搜索`."""
    return [] if text.isascii() else re.findall(_RUN, widen_katakana(text))


def without_unspaced_runs(text: str) -> str:
    """`text` with a space in place of each run of unspaced script: `用kb搜索` -> ` kb `."""
    return text if text.isascii() else re.sub(_RUN, " ", text)


def bigrams(run: str) -> list[str]:
    """The pairs of adjacent characters; a run of one character is returned as it is."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def unspaced_ngrams(*texts: str) -> str:
    """The text to index in `chunks_cjk`: all characters and bigrams of unspaced script, including
    those on both sides of an invisible character."""
    runs = [run for text in texts if not text.isascii() for run in unspaced_runs(plain_form(text))]
    return " ".join(gram for run in runs for gram in (*run, *(bigrams(run) if run[1:] else ())))


# --- identifiers ----------------------------------------------------------------------------------


def split_identifier(word: str) -> list[str]:
    """The words of an identifier in lower case: `HTTPServer` -> `http`, `server`. Empty if the
    word is not an identifier."""
    words = _CAMEL_CASE_WORD.findall(word) if len(word) <= _MAX_IDENTIFIER_CHARS else []
    return [part.lower() for part in words] if len(words) > 1 else []


def find_identifiers(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield start, end and words of every identifier in `text`: a run of ASCII letters and digits
    in which a capital follows another character, unless all are capitals, as in `NASA`. Finding the
    capitals is ten times as fast as a regular expression."""
    kinds = text.encode("ascii", "replace").translate(_KINDS)
    small, large, end = kinds.find(b"aA"), kinds.find(b"AAa"), 0
    while small >= 0 or large >= 0:
        at = small if large < 0 or 0 <= small < large else large
        start = kinds.rfind(b" ", 0, at) + 1
        end = kinds.find(b" ", at)
        end = len(kinds) if end < 0 else end
        if not text[start].isdigit() and (words := split_identifier(text[start:end])):
            yield start, end, words
        small = kinds.find(b"aA", end) if 0 <= small < end else small
        large = kinds.find(b"AAa", end) if 0 <= large < end else large


def subwords(heading: str, text: str) -> str:
    """The text to index in the column `parts`: words that the tokenizer does not see. They are part
    of an identifier, adjoin unspaced script (`用kb搜索` -> `kb`), or contain invisible characters
    or ligatures; the heading is included."""
    words = [] if text.isascii() else plain_words(text)
    if not text.isascii() and re.search(_RUN, text):  # most texts have quotation marks or dashes
        words = re.findall(_BESIDE_RUN, text) + words
    words += plain_words(heading)
    return " ".join([*words, *(word for *_, parts in find_identifiers(text) for word in parts)])
