"""Terms in training: the terms of a text's tokens, as bucket numbers.

The rule is kb's own (`kb.models.tokenizer.word_terms`), so that training and use agree. The
vocabulary is unlimited, so each word gets one of 262,144 buckets by its hash; two words of one
batch hardly ever share one.
"""

from __future__ import annotations

import zlib
from typing import Any

from kb.models.tokenizer import word_terms

BUCKETS = 1 << 18
EACH = 2  # terms of one token: its word, and itself as a piece of the word


class Terms:
    """The bucket numbers of every token of a text; 0 means no term."""

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items()}
        self.texts = ["" if number in special else token for token, number in vocabulary]
        self.continues = [text.startswith("##") for text in self.texts]
        self._buckets: dict[str, int] = {}

    def __call__(self, ids: list[int]) -> list[list[int]]:
        terms_by_token = word_terms([self.texts[number] for number in ids])
        return [
            [self._bucket(term) for term in terms] + [0] * (EACH - len(terms))
            for terms in terms_by_token
        ]

    def _bucket(self, term: str) -> int:
        if term not in self._buckets:
            self._buckets[term] = 1 + zlib.crc32(term.encode()) % (BUCKETS - 1)
        return self._buckets[term]
