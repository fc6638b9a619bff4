"""Repetition: short texts that many pages of a folder share, such as footers, do not rank. Pure.

A footer is not about its page. The page's title, however, is part of what is searched, so that for
`git stash` the footer of the page git-stash looks like a good hit. Such a passage goes below every
other candidate that contains as many words of the query; if it is the only one with those words, it
keeps its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from kb.types import ScoredChunk

MAX_CHARS = 200  # navigation and footers are short; a longer text may be what the user wants
MIN_DOCUMENTS = 5


def words_in(text: str, words: Sequence[str]) -> int:
    """How many of the query's `words`, in lower case, the text contains, including inside longer
    words."""
    folded = text.casefold()
    return sum(word in folded for word in words)


def demote(
    ranked: Sequence[ScoredChunk], repeated: Set[int], word_counts: Mapping[int, int]
) -> list[ScoredChunk]:
    """Move repeated passages below all others that contain as many words of the query.
    `word_counts` has the number of words by chunk id."""
    order: list[ScoredChunk] = []
    waiting: list[ScoredChunk] = []
    highest_counts = _highest_counts_after(ranked, repeated, word_counts)
    for one, highest in zip(ranked, highest_counts, strict=True):
        (waiting if one.chunk_id in repeated else order).append(one)
        if waiting:
            order += (each for each in waiting if word_counts.get(each.chunk_id, 0) > highest)
            waiting = [each for each in waiting if word_counts.get(each.chunk_id, 0) <= highest]
    return order


def _highest_counts_after(
    ranked: Sequence[ScoredChunk], repeated: Set[int], word_counts: Mapping[int, int]
) -> list[int]:
    """For each position, the highest word count of any later passage that is not repeated; -1 if
    there is none."""
    highest, highest_counts = -1, []
    for one in reversed(ranked):
        highest_counts.append(highest)
        if one.chunk_id not in repeated:
            highest = max(highest, word_counts.get(one.chunk_id, 0))
    return highest_counts[::-1]
