"""Tokenizes texts for a model, and selects the tokens whose outputs are kept.

The model sees all tokens, including special tokens and the prefix that marks queries and passages.
Only the term weights and token vectors of the text's own words are kept: special tokens, the prefix
and punctuation carry no meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kb.text.normalize import nfc

if TYPE_CHECKING:
    from pathlib import Path

_WORD = re.compile(r"\w")
_KEPT_STEMS = 1 << 16
_STEMMER_PACKAGE = "kb_snowball"
_STEMMER_LOCK = Lock()  # the stemmer keeps the current word as its state


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text. `texts` has the vocabulary's spelling of each token; `terms` has the
    terms it counts for: itself, or its word, depending on the model. `kept` are positions in `ids`.
    `truncated` is the number of tokens that did not fit."""

    ids: list[int]
    texts: list[str]
    terms: list[tuple[str, ...]]
    kept: list[int]
    truncated: int


class Tokenizer:
    """Tokenizes texts with a `tokenizer.json`. Threads may share it."""

    def __init__(self, path: Path, max_tokens: int, *, stems: bool = False) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()  # done in `tokens`, which counts the rest
        self._tokenizer.encode_special_tokens = True  # [SEP] in a text is an ordinary word
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = frozenset(number for number, token in added.items() if token.special)
        self._room = max_tokens - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if self._room <= 0:
            raise ValueError(f"{max_tokens} tokens leave no room for a text")
        self._terms = word_terms if stems else token_terms

    def tokens(self, text: str, prefix: str = "") -> Tokens:
        """Tokenize a text after a prefix, whose tokens are not kept."""
        pieces = self._tokenizer.encode(prefix + nfc(text), add_special_tokens=False)
        truncated = max(0, len(pieces.ids) - self._room)
        if truncated:
            pieces.truncate(self._room)
        pieces = self._tokenizer.post_process(pieces)
        plain = [
            "" if number in self._special else token
            for number, token in zip(pieces.ids, pieces.tokens, strict=True)
        ]
        terms = self._terms(plain)
        ends = (end for _, end in pieces.offsets)
        kept = [
            position
            for position, (counts, end) in enumerate(zip(terms, ends, strict=True))
            if counts and end > len(prefix)
        ]
        return Tokens(pieces.ids, pieces.tokens, terms, kept, truncated)


# --- terms ----------------------------------------------------------------------------------------


def token_terms(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms of each token: itself, or none for punctuation and empty tokens."""
    return [(token,) if _WORD.search(token) else () for token in tokens]


def word_terms(pieces: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms of each WordPiece token (## marks the continuation of a word): the stem of its
    word, and, if the word has several pieces, the piece too, so that rare names match exactly, and
    similar names in part. A Han character is always a separate token. It counts for the pairs that
    it forms with its neighbors, or for itself if it has none."""
    terms: list[tuple[str, ...]] = []
    for start, end in _words(pieces):
        word = pieces[start] + "".join(piece[2:] for piece in pieces[start + 1 : end])
        if end - start == 1 and _is_han(word):
            terms.append(_han_pairs(pieces, start))
        elif not _WORD.search(word):
            terms += [()] * (end - start)
        elif end - start == 1:
            terms.append((stem(word),))
        else:
            terms += [(stem(word), piece) for piece in pieces[start:end]]
    return terms


def _words(pieces: Sequence[str]) -> list[tuple[int, int]]:
    starts = [at for at, piece in enumerate(pieces) if not at or not piece.startswith("##")]
    return list(zip(starts, [*starts[1:], len(pieces)], strict=bool(starts)))


def _is_han(token: str) -> bool:
    return len(token) == 1 and (
        "\u4e00" <= token <= "\u9fff" or "\u3400" <= token <= "\u4dbf" or token >= "\U00020000"
    )


def _han_pairs(pieces: Sequence[str], place: int) -> tuple[str, ...]:
    character = pieces[place]
    before = pieces[place - 1] if place and _is_han(pieces[place - 1]) else ""
    after = pieces[place + 1] if place + 1 < len(pieces) and _is_han(pieces[place + 1]) else ""
    pairs = [before + character] * bool(before) + [character + after] * bool(after)
    return tuple(pairs) or (character,)


@lru_cache(_KEPT_STEMS)
def stem(word: str) -> str:
    """The Porter stem of a word."""
    with _STEMMER_LOCK:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    function: Callable[[str], str] = _porter().stemWord
    return function


def _porter() -> Any:
    """Load only the Porter stemmer from its folder, under another package name: importing the
    package loads the stemmers of thirty languages, which takes longer than a search. If PyStemmer
    is installed, the package uses that instead."""
    package = find_spec("snowballstemmer")
    if package is not None and find_spec("Stemmer") is None:
        module = sys.modules.setdefault(_STEMMER_PACKAGE, ModuleType(_STEMMER_PACKAGE))
        module.__path__ = list(package.submodule_search_locations or ())
        with suppress(ImportError, AttributeError):  # other versions have another layout
            return import_module(f"{_STEMMER_PACKAGE}.porter_stemmer").PorterStemmer()
    import snowballstemmer

    return snowballstemmer.stemmer("porter")
