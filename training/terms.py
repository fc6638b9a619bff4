"""What each token counts as in a sparse vector: `terms(tokenizer)`, one entry per token id.

    python -m training.terms TOKENIZER.json CANONICAL.json

"cats" and "cat" are two tokens of the vocabulary and one term, as in any stemmed index: whole
words whose stem is the same count as one, under the name of the shortest. Pieces of words stay
themselves; special tokens and punctuation count as nothing (an empty term).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def terms(tokenizer: Any) -> list[str]:
    import snowballstemmer

    stem = snowballstemmer.stemmer("porter").stemWord
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    groups: dict[str, list[str]] = {}
    for token, _ in vocabulary:
        if _whole(token):
            groups.setdefault(stem(token), []).append(token)
    shortest = {token: min(group, key=len) for group in groups.values() for token in group}
    return [shortest.get(token, token if _counts(token) else "") for token, _ in vocabulary]


def canonical_ids(tokenizer: Any) -> list[int]:
    """For each token id, the id of the token that its term is named after; -1 for nothing."""
    ids = tokenizer.get_vocab()
    return [ids[term] if term else -1 for term in terms(tokenizer)]


def _counts(token: str) -> bool:
    special = re.fullmatch(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]", token)
    return not special and re.search(r"\w", token) is not None


def _whole(token: str) -> bool:
    return re.fullmatch(r"[a-z]{3,}", token) is not None


if __name__ == "__main__":
    from tokenizers import Tokenizer

    found = canonical_ids(Tokenizer.from_file(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
