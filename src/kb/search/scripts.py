"""Scripts: whether a query is written in one that a model reads. Pure.

A model that was made from English text knows other scripts by a few characters at most, and what
it says of a question in Chinese is noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from unicodedata import name, normalize

# In a text of another script, a few of these letters are symbols, as in TNF-α or ΔΨ.
_SYMBOLS, _SYMBOL_LETTERS = "GREEK", 2


def is_foreign(text: str, scripts: Sequence[str]) -> bool:
    """Whether most letters of `text` are of other scripts than these. None means that any is read,
    and a text without letters is not foreign."""
    if not scripts:
        return False
    read = {script.upper() for script in scripts}
    if "LATIN" in read and text.isascii():
        return False
    counts = Counter(_letters(text))
    foreign = sum(count for script, count in counts.items() if script not in read)
    return 2 * foreign > counts.total()


def _letters(text: str) -> Iterator[str]:
    """The script of every letter. Wide and mathematical forms are those of the plain letter."""
    for script, run in groupby(map(_script, normalize("NFKC", text))):
        length = sum(1 for _ in run)
        if script and not (script == _SYMBOLS and length <= _SYMBOL_LETTERS):
            yield from [script] * length


def _script(char: str) -> str:
    """The first word of a letter's name, which is its script's; empty for what is no letter."""
    if char.isascii():
        return "LATIN" if char.isalpha() else ""
    return name(char, "").partition(" ")[0] if char.isalpha() else ""
