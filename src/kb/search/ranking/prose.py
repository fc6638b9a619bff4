"""Prose: of several passages of one document that contain every word of the query, one with
sentences comes first. Pure.

A synopsis, a list of options or a table of contents repeats the words of a short query more often
than the passage that explains them, so that it has a higher score. It comes right after the
explanation. Passages of other documents keep their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.text.normalize import STOP_WORDS
from kb.types import ScoredChunk

_READ_CHARS = 600
_FUNCTION_WORDS = 0.1  # their least share in prose; three quarters of all synopses have none
_MARKS = ".,;:()"


def is_prose(text: str) -> bool:
    """Whether the beginning of an English text has sentences: at least a tenth of its words are
    function words."""
    words = [word.strip(_MARKS) for word in text[:_READ_CHARS].lower().split()]
    return sum(word in STOP_WORDS for word in words) >= max(1.0, _FUNCTION_WORDS * len(words))


def put_prose_first(
    ranked: Sequence[ScoredChunk], documents: Mapping[int, int], prose: Mapping[int, bool]
) -> list[ScoredChunk]:
    """Put the best passage with sentences first among the passages of its document. `prose` tells
    of every passage that contains all words of the query whether it has sentences; others keep
    their places, and so do all passages of other documents."""
    order = list(ranked)
    for document in {documents[chunk_id] for chunk_id in prose}:
        places = [
            place
            for place, one in enumerate(ranked)
            if one.chunk_id in prose and documents[one.chunk_id] == document
        ]
        passages = [ranked[place] for place in places]
        best = next((one for one in passages if prose[one.chunk_id]), passages[0])
        passages.sort(key=lambda one: one is not best)
        for place, one in zip(places, passages, strict=True):
            order[place] = one
    return order
