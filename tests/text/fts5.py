"""FTS5's own tokenizer, the reference for `kb.text.tokenize`, and the generator of its table.

    python -m tests.text.fts5 > src/kb/text/unicode61.py

Needed only if a new version of SQLite treats a character differently, which `test_tokenize.py`
would show. Such a version would also need the full-text index of existing stores rebuilt.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import apsw

ARGUMENTS = ["unicode61", "remove_diacritics", "2"]
_LINE_CHARS = 90

_connection = apsw.Connection(":memory:")
_porter: Any = _connection.fts5_tokenizer("porter", ARGUMENTS)
_unicode61: Any = _connection.fts5_tokenizer(ARGUMENTS[0], ARGUMENTS[1:])


def tokenize(text: str, *, stemmed: bool = True) -> list[tuple[int, int, str]]:
    """(start, end, stem) of every word in `text`, with offsets in characters."""
    data = text.encode("utf-8", "replace")
    tokenizer = _porter if stemmed else _unicode61
    tokens: list[tuple[int, int, str]] = []
    byte_offset = offset = 0
    for start, end, stem in tokenizer(data, apsw.FTS5_TOKENIZE_QUERY, None):
        first = offset + len(data[byte_offset:start].decode())
        offset = first + len(data[start:end].decode())
        byte_offset = end
        tokens.append((first, offset, stem))
    return tokens


def characters(stop: int) -> Iterator[str]:
    """The characters below `stop`, without surrogates, which UTF-8 cannot encode."""
    return (chr(code) for code in range(stop) if not 0xD800 <= code <= 0xDFFF)


def _table() -> tuple[str, str, str, str]:
    boundaries, folded_from, folded_to, marks = [], [], [], []
    in_range = False
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        starts_word = bool(tokenize(char, stemmed=False))
        if starts_word != in_range:
            boundaries.append(char)
            in_range = starts_word
        (_, end, word), *_ = tokenize(f"a{char}", stemmed=False)
        if end == 2 and not starts_word:
            marks.append(char)
        elif starts_word and not char.isascii() and word[1:] != char:
            folded_from.append(char)
            folded_to.append(word[1:])
    return "".join(boundaries), "".join(folded_from), "".join(folded_to), "".join(marks)


def _literal(text: str) -> str:
    escapes = [f"\\U{ord(c):08x}" if c > "\uffff" else f"\\u{ord(c):04x}" for c in text]
    lines = textwrap.wrap(" ".join(escapes), _LINE_CHARS * 7 // 6)
    return "(\n" + "".join(f'    "{line.replace(" ", "")}"\n' for line in lines) + ")"


def main() -> None:
    boundaries, folded_from, folded_to, marks = _table()
    sys.stdout.write(
        f'''"""The letters and separators of FTS5's `unicode61 remove_diacritics 2` (Unicode 6.1).

Generated: run `python -m tests.text.fts5 > src/kb/text/unicode61.py` instead of editing it.
"""

# The beginnings of runs of letters and of separators, alternating. The first is a run of letters.
BOUNDARIES = {_literal(boundaries)}

# Letters beyond ASCII that change when they are folded to lower case without diacritics.
FOLDED_FROM = {_literal(folded_from)}
FOLDED_TO = {_literal(folded_to)}

# Combining marks, which do not end a word but are removed from it.
MARKS = {_literal(marks)}
'''
    )


if __name__ == "__main__":
    main()
