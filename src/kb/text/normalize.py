"""How text becomes terms, beyond what FTS5's own tokenizers see.

Three things that the indexer and the query must do alike: NFC normalisation, the parts of
identifiers (`targetHost` -> `target host`), and the one- and two-character pieces of scripts that
are written without spaces. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Scripts whose words are not separated by spaces, or, in Korean, carry their particles with them:
# Han, kana, bopomofo, Hangul, and Thai, Lao, Khmer and Burmese with their combining vowels.
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
_LONGEST_NAME = 256  # a longer word is data, not a name
# Texts, which `re` compiles when they are first used, and keeps: a search in ASCII needs none.
_RUN = f"[{_UNSPACED}]+"
_MANY_SIGNS = r"[^\w\s\x00-\x7f]{31,}"  # what may be a long stack of marks
_MOST_MARKS = 30  # no script stacks more on a letter; to compose a stack takes time by its square
_HALF_WIDTH = "[\uff66-\uff9f]"
_GLUED = rf"(?<=[{_UNSPACED}])[^\W_{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?=[{_UNSPACED}])"
_SMALL = r"[^\W_0-9A-Z]"  # any letter but a capital of ASCII: `café` and `Élan` are one part
_CAMEL = re.compile(rf"[A-Z]+(?!{_SMALL})|[A-Z]?{_SMALL}+|[0-9]+")
_MIXED = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][a-z0-9]*+[A-Z][A-Za-z0-9]*+")


# English words that say how a question is put, not what it is about.
FUNCTION_WORDS = frozenset(
    """
    a an the and or but if as of in on at by to from for with into about
    is are was were be been being am do does did have has had can could should will would
    i you he she it we they me him her us them my your his its our their this that these those there
    who whom which what when where why how
    """.split()
)


def nfc(text: str) -> str:
    """`text` in NFC, with what is not Unicode text (lone surrogates) made visible as U+FFFD."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", re.sub(_MANY_SIGNS, _few_marks, text))


def _few_marks(signs: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for sign in signs[0]:
        is_mark = unicodedata.combining(unicodedata.normalize("NFD", sign)[0])
        marks = marks + 1 if is_mark else 0
        if marks <= _MOST_MARKS:
            kept.append(sign)
    return "".join(kept)


def unspaced_runs(text: str) -> list[str]:
    """The runs of characters of unspaced scripts, in order: `用 kb 搜索` -> `用`, `搜索`."""
    return [] if text.isascii() else re.findall(_RUN, wide(text))


def blank_unspaced(text: str) -> str:
    """Everything else, with spaces in their place: `用kb搜索` -> ` kb `."""
    return text if text.isascii() else re.sub(_RUN, " ", text)


def pieces(run: str) -> list[str]:
    """The bigrams of a run; the character itself where the run is one long."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def indexed_pieces(text: str) -> str:
    """The column under `chunks_cjk`: every character and every pair of neighbours."""
    if text.isascii():
        return ""
    runs = unspaced_runs(text)
    return " ".join(piece for run in runs for piece in (*run, *(pieces(run) if run[1:] else ())))


def identifier_parts(word: str) -> list[str]:
    """`targetHost` -> `target`, `host`; `HTTPServer` -> `http`, `server`; a plain word: none."""
    found = _CAMEL.findall(word) if len(word) <= _LONGEST_NAME else []
    return [part.lower() for part in found] if len(found) > 1 else []


def identifiers(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, parts) of every word in `text` that is made of several."""
    for found in _MIXED.finditer(text):
        if parts := identifier_parts(found[0]):
            yield found.start(), found.end(), parts


def indexed_parts(text: str) -> str:
    """The column of parts: words that `porter unicode61` would not see inside of what it takes for
    one word, be it an identifier or a script without spaces (`用kb搜索` -> `kb`)."""
    glued = [] if text.isascii() else re.findall(_GLUED, text)
    return " ".join([*glued, *(part for _, _, parts in identifiers(text) for part in parts)])


def wide(text: str) -> str:
    """Half-width katakana made full-width, so that both are found by either."""
    return unicodedata.normalize("NFKC", text) if re.search(_HALF_WIDTH, text) else text
