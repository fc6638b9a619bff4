"""The scripts of a query or a passage, and whether a model supports them. Pure.

A model trained on English text knows few characters of other scripts, so its results for a Chinese
query are noise. The same holds for an English question about a Chinese word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import groupby
from unicodedata import category, name, normalize

# Runs of at most this many letters are symbols, as in TNF-α, ΔΨ or ℵ₀; in other scripts, of one.
_MAX_SYMBOL_LETTERS = {"LATIN": 0, "GREEK": 2}
_KANA = ("HIRAGANA", "KATAKANA")
# Two letters of these scripts count as a word; in the others, spaces separate words.
_UNSPACED = frozenset({"CJK", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", *_KANA})
# Scripts with a smaller share of a query's words are ignored.
_MIN_SHARE = 0.2
_UNREADABLE_SHARE = 0.9  # of a passage
_SAMPLE_CHARS = 300  # of a passage: a search examines hundreds
_LONGEST_CHARS = 20_000  # of a query, some of which NFKC makes eighteen times as long


def unsupported_scripts(
    text: str, supported: Sequence[str], failed: Set[str] = frozenset()
) -> frozenset[str]:
    """The scripts of `text` that a model does not support, because they are not in `supported` or
    because it `failed` their exam. An empty `supported` stands for all scripts. The result is empty
    if these scripts make up only a small part of the text."""
    if not failed and (not supported or (text.isascii() and "Latin" in supported)):
        return frozenset()
    words = words_by_script(text)
    unsupported = _select_unsupported(words, supported, failed)
    count = sum(words[script] for script in unsupported)
    return unsupported if count and count >= _MIN_SHARE * words.total() else frozenset()


def is_unreadable(text: str, supported: Sequence[str], failed: Set[str] = frozenset()) -> bool:
    """Whether nearly all words at the beginning of a passage are in scripts that a model does not
    support. A Korean text with identifiers and names in Latin script is readable: an English model
    can find it by them. The arguments are those of `unsupported_scripts`."""
    return _is_unreadable(text[:_SAMPLE_CHARS], tuple(supported), frozenset(failed))


@lru_cache(maxsize=2048)  # most searches check the same passages in other scripts
def _is_unreadable(sample: str, supported: tuple[str, ...], failed: frozenset[str]) -> bool:
    words = words_by_script(sample)
    unsupported = _select_unsupported(words, supported, failed)
    return sum(words[script] for script in unsupported) > _UNREADABLE_SHARE * words.total()


def _select_unsupported(
    words: Counter[str], supported: Sequence[str], failed: Set[str]
) -> frozenset[str]:
    known = {script.upper() for script in supported}
    japanese = not words.keys().isdisjoint(_KANA)
    return frozenset(
        script
        for script in words
        if (known and script not in known) or _exam_script(script, japanese=japanese) in failed
    )


def is_cjk(text: str) -> bool:
    """Whether a good part of `text` is in Hangul or in scripts without spaces between words."""
    if text.isascii():
        return False
    words = words_by_script(text)
    count = sum(words[script] for script in _UNSPACED)
    return bool(count) and count >= _MIN_SHARE * words.total()


@lru_cache(maxsize=8)  # each stage of a search asks about its query
def words_by_script(text: str) -> Counter[str]:
    """Count words by script, in units of half a word; of a long text, at its beginning. Scripts are
    named as in Unicode's names of letters, in capitals. The counter is shared: do not change it."""
    words: Counter[str] = Counter()
    beginning = normalize("NFKC", text[:_LONGEST_CHARS])[:_LONGEST_CHARS]
    for word in beginning.split():  # full-width letters are Latin
        if word.isascii():
            if any(map(str.isalpha, word)):
                words["LATIN"] += 2
            continue
        for script, letters in _letters(word).items():
            words[script] += letters if script in _UNSPACED else 2
    return words


def _exam_script(script: str, *, japanese: bool) -> str:
    """The script whose exam covers `script`: Japanese mixes kana and Han."""
    return "HIRAGANA" if script in _KANA or (japanese and script == "CJK") else script


def _letters(word: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for script, run in groupby(map(_script, word)):
        length = sum(1 for _ in run)
        if script and length > _MAX_SYMBOL_LETTERS.get(script, script not in _UNSPACED):
            counts[script] += length
    return counts


@lru_cache(maxsize=8192)
def _script(char: str) -> str:
    """The script of a letter: the first word of its Unicode name. Empty for modifier letters and
    for characters that are not letters."""
    if char.isascii():
        return "LATIN" if char.isalpha() else ""
    if not char.isalpha() or category(char) == "Lm":
        return ""
    return name(char, "").partition(" ")[0]
