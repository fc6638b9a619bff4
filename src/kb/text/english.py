"""Whether a text is English, or in another language that a model for English does not read.

kb-mini encodes English texts with one network and all others with a second one (see
`kb.models.language_pair`), so the result depends on the text alone. Other scripts decide at once.
In Latin script, groups of two to four letters do, each with a weight that
`training.english_letters` has fitted. In doubt, a text is English: names and identifiers are.
"""

from __future__ import annotations

from array import array
from functools import cache
from zlib import crc32

from kb.text.patterns import compile_later

BUCKETS = 1 << 15
SAMPLE_CHARS = 240
WEIGHTS = __file__.rpartition("english")[0] + "english_letters.bin"
# If the sum of the weights exceeds this, the text is in another language. That is wrong for about
# one in 500 English texts of at most five words, and for one in 10,000 longer ones.
_SHORT_THRESHOLD, _THRESHOLD = 350, 200
_SHORT_WORDS = 5
_MAX_OTHER_SHARE = 0.1  # of the words, in scripts other than Latin
_WORD = compile_later(r"[^\W\d_]+")


def is_english(text: str) -> bool:
    """Whether the beginning of `text` is English, or cannot be told from English."""
    sample = text[:SAMPLE_CHARS]
    if not sample.isascii():
        from kb.text.scripts import words_by_script  # a search for words in ASCII starts sooner

        words = words_by_script(sample)
        if words.total() - words["LATIN"] > _MAX_OTHER_SHARE * words.total():
            return False
    weights = _weights()
    is_short = len(_WORD.findall(sample)) <= _SHORT_WORDS
    threshold = _SHORT_THRESHOLD if is_short else _THRESHOLD
    return sum(weights[group] for group in letter_groups(sample)) <= threshold


def letter_groups(text: str) -> list[int]:
    """The numbers of the groups of two to four letters of each word, with its borders."""
    groups = []
    for word in _WORD.findall(text.lower()):
        bordered = f"^{word[:40]}$".encode()
        size = len(bordered)
        for length in (2, 3, 4):
            groups += [
                crc32(bordered[at : at + length]) % BUCKETS for at in range(size - length + 1)
            ]
    return groups


@cache
def _weights() -> array[int]:
    with open(WEIGHTS, "rb") as file:
        return array("b", file.read())
