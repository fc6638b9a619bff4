"""A text's tokens: what the model is shown, and which of them count in the answer.

The model sees everything, its special tokens and the prefix that tells a query from a passage
included. Of the term weights and token vectors only those of the text's own words are kept:
special tokens, the prefix and punctuation say nothing about it.
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
_ALONE = "kb_snowball"
_STEMMING = Lock()  # the stemmer keeps the word it works on in itself


@dataclass(frozen=True, slots=True)
class Tokens:
    """`kept` are positions in `ids`; `texts` are the vocabulary's own spelling of each token, and
    `terms` what it counts for: itself, or its word, as the model says. `truncated` says how many
    tokens did not fit."""

    ids: list[int]
    texts: list[str]
    terms: list[tuple[str, ...]]
    kept: list[int]
    truncated: int


class Tokeniser:
    """A `tokenizer.json`. Shared between threads: nothing of it changes after it was read."""

    def __init__(self, path: Path, max_tokens: int, *, stems: bool = False) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()  # done here, where what is cut off can be counted
        self._tokenizer.encode_special_tokens = True  # a text may say [SEP] and mean the word
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = frozenset(number for number, token in added.items() if token.special)
        self._room = max_tokens - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if self._room <= 0:
            raise ValueError(f"{max_tokens} tokens leave no room for a text")
        self._terms = word_terms if stems else token_terms

    def tokens(self, text: str, prefix: str = "") -> Tokens:
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
    """Every token is a term of its own, but for punctuation and what is empty."""
    return [(token,) if _WORD.search(token) else () for token in tokens]


def word_terms(pieces: Sequence[str]) -> list[tuple[str, ...]]:
    """A piece (of WordPiece: what goes on a word starts with ##) counts for its word, by the stem
    as in any stemmed index. A piece of a longer word counts for itself too: a rare name is found
    by itself, and what has a part in common with it is not far."""
    terms: list[tuple[str, ...]] = []
    for start, end in _words(pieces):
        word = pieces[start] + "".join(piece[2:] for piece in pieces[start + 1 : end])
        if not _WORD.search(word):
            terms += [()] * (end - start)
        elif end - start == 1:
            terms.append((stem(word),))
        else:
            terms += [(stem(word), piece) for piece in pieces[start:end]]
    return terms


def _words(pieces: Sequence[str]) -> list[tuple[int, int]]:
    starts = [at for at, piece in enumerate(pieces) if not at or not piece.startswith("##")]
    return list(zip(starts, [*starts[1:], len(pieces)], strict=bool(starts)))


@lru_cache(_KEPT_STEMS)
def stem(word: str) -> str:
    with _STEMMING:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    found: Callable[[str], str] = _porter().stemWord
    return found


def _porter() -> Any:
    """The package itself loads the stemmers of thirty languages, to give one: longer than a search
    takes. So the one is loaded from its folder, under another package's name. Not where a library
    in C is there, which the package then takes."""
    package = find_spec("snowballstemmer")
    if package is not None and find_spec("Stemmer") is None:
        alone = sys.modules.setdefault(_ALONE, ModuleType(_ALONE))
        alone.__path__ = list(package.submodule_search_locations or ())
        with suppress(ImportError, AttributeError):  # of a version that has it elsewhere
            return import_module(f"{_ALONE}.porter_stemmer").PorterStemmer()
    import snowballstemmer

    return snowballstemmer.stemmer("porter")
