"""Terms in training: what a text's tokens count as in a sparse vector, as numbers.

The rule itself is kb's own (`kb.models.tokenizer.word_terms`), so that what is learned is what is
used. There are more words than any list holds; each gets a bucket by its hash, and among 262,144
of them two words of one batch hardly ever meet.
"""

from __future__ import annotations

import zlib
from typing import Any

from kb.models.tokenizer import word_terms

BUCKETS = 1 << 18
EACH = 2  # terms that one token can count for: its word, and itself as a piece of it


class Terms:
    """Bucket numbers for every token of a text; 0 is no term."""

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items()}
        self.texts = ["" if number in special else token for token, number in vocabulary]
        self.continues = [text.startswith("##") for text in self.texts]
        self._buckets: dict[str, int] = {}

    def __call__(self, ids: list[int]) -> list[list[int]]:
        found = word_terms([self.texts[number] for number in ids])
        return [
            [self._bucket(term) for term in terms] + [0] * (EACH - len(terms)) for terms in found
        ]

    def _bucket(self, term: str) -> int:
        if term not in self._buckets:
            self._buckets[term] = 1 + zlib.crc32(term.encode()) % (BUCKETS - 1)
        return self._buckets[term]
