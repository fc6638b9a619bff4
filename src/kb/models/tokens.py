"""A text's tokens: what the model is shown, and which of them count in the answer.

The model sees everything, its special tokens and the prefix that tells a query from a passage
included. Of the term weights and token vectors only those of the text's own words are kept:
special tokens, the prefix and punctuation say nothing about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.words import nfc

if TYPE_CHECKING:
    from pathlib import Path

_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Tokens:
    """`kept` are positions in `ids`; `texts` are the vocabulary's own spelling of each token, and
    `terms` what it counts as: the same, unless the model says otherwise; empty for nothing.
    `truncated` says how many tokens did not fit."""

    ids: list[int]
    texts: list[str]
    terms: list[str]
    kept: list[int]
    truncated: int


class Tokeniser:
    """A `tokenizer.json`. Shared between threads: nothing of it changes after it was read."""

    def __init__(self, path: Path, max_tokens: int, terms: Path | None = None) -> None:
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
        self._terms = None if terms is None else terms.read_text(encoding="utf-8").split("\n")
        if self._terms is not None and len(self._terms) <= self._tokenizer.get_vocab_size():
            raise ValueError(f"{terms} has fewer lines than there are tokens")

    def tokens(self, text: str, prefix: str = "") -> Tokens:
        pieces = self._tokenizer.encode(prefix + nfc(text), add_special_tokens=False)
        truncated = max(0, len(pieces.ids) - self._room)
        if truncated:
            pieces.truncate(self._room)
        pieces = self._tokenizer.post_process(pieces)
        terms = [self._term(*piece) for piece in zip(pieces.ids, pieces.tokens, strict=True)]
        ends = (end for _, end in pieces.offsets)
        kept = [
            position
            for position, (term, end) in enumerate(zip(terms, ends, strict=True))
            if term and end > len(prefix)
        ]
        return Tokens(pieces.ids, pieces.tokens, terms, kept, truncated)

    def _term(self, number: int, token: str) -> str:
        if self._terms is not None:
            return self._terms[number]
        return token if number not in self._special and _WORD.search(token) else ""
