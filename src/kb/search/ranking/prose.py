"""Prose: of several passages of one document that contain every word of the query, those with
sentences come first. Pure.

A synopsis, a list of options or a table of contents repeats the words of a short query more often
than the passages that explain them, so that it has a higher score. It comes after them. Passages
of other documents keep their places.
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
    """Put passages with sentences first among the passages of their document. `prose` maps
    every passage that contains all words of the query to whether it has sentences. All other
    passages keep their places, and so do those of other documents."""
    order = list(ranked)
    for document in {documents[chunk_id] for chunk_id in prose}:
        places = [
            place
            for place, one in enumerate(ranked)
            if one.chunk_id in prose and documents[one.chunk_id] == document
        ]
        passages = [ranked[place] for place in places]
        passages.sort(key=lambda one: not prose[one.chunk_id])
        for place, one in zip(places, passages, strict=True):
            order[place] = one
    return order
