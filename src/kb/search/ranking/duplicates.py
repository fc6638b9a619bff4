"""Duplicates: passages whose text repeats that of a better one. Pure.

Two texts are near-equal if both of these are at least 0.9, where the similarity of two sets is the
size of their intersection divided by that of their union:

- the similarity of their words
- the similarity of their pairs of adjacent words

In scripts without spaces, two characters count as a word. Texts of fewer than ten words are not
near-equal if a single word differs.

Words are compared only if the texts have about the same length and share one of three short
stretches, which most pairs do not. A passage is compared only with better ones, and only the first
30 passages are compared for near-equality; later ones must be equal. So the cost has a bound, and a
longer list has the same duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

SIMILARITY = 0.9
NEAR = 30  # passages that are compared for near-equality
_MIN_LENGTH_RATIO = 0.8  # of the shorter text to the longer one
_STRETCH = 24  # characters
_LETTERS_PER_WORD = 20  # more than in the prose of any language with spaces


@dataclass(slots=True)
class DuplicateFinder:
    """Finds duplicates in a list of passages, which are added best first."""

    _equal: dict[str, int] = field(default_factory=dict)
    _near: list[tuple[int, str, tuple[str, str, str]]] = field(default_factory=list)
    _count: int = 0

    def add(self, chunk_id: int, text: str) -> int | None:
        """Add a passage. Returns the better passage that it repeats, or None."""
        self._count += 1
        earlier = self._equal.setdefault(text, chunk_id)
        if earlier != chunk_id:
            return earlier
        if self._count > NEAR:
            return None
        least, most = _MIN_LENGTH_RATIO * len(text), len(text) / _MIN_LENGTH_RATIO
        for other_id, other, (first, second, third) in self._near:
            if (
                least <= len(other) <= most
                and (first in text or second in text or third in text)
                and are_near(text, other)
            ):
                self._equal[text] = other_id  # a copy of this one repeats the better passage
                return other_id
        self._near.append((chunk_id, text, _stretches(text)))
        return None


def find_duplicates(texts: Iterable[tuple[int, str]]) -> Mapping[int, int]:
    """The better passage that each duplicate repeats, by chunk id. `texts` is in order of rank."""
    finder = DuplicateFinder()
    found = ((chunk_id, finder.add(chunk_id, text)) for chunk_id, text in texts)
    return {chunk_id: earlier for chunk_id, earlier in found if earlier is not None}


def are_near(one: str, other: str) -> bool:
    """Whether two texts are near-equal."""
    words, others = _words(one), _words(other)
    return (
        _similarity(words, others) >= SIMILARITY
        and _similarity(pairwise(words), pairwise(others)) >= SIMILARITY
    )


def _stretches(text: str) -> tuple[str, str, str]:
    """Three short parts of the text. A text that differs only slightly contains one of them."""
    room = max(0, len(text) - _STRETCH)
    first, second, third = room // 8, room // 2, room - room // 8
    return (
        text[first : first + _STRETCH],
        text[second : second + _STRETCH],
        text[third : third + _STRETCH],
    )


def _words(text: str) -> list[str]:
    words = text.casefold().split()
    if len(text) <= _LETTERS_PER_WORD * len(words):
        return words
    joined = "".join(words)
    return [joined[at : at + 2] for at in range(0, len(joined), 2)]


def _similarity(one: Iterable[Any], other: Iterable[Any]) -> float:
    first, second = frozenset(one), frozenset(other)
    return len(first & second) / max(1, len(first | second))
