"""Which hits are weak matches, and how relevance is displayed, the same in every interface."""

from __future__ import annotations

from collections.abc import Sequence

from kb.types import Hit

WEAK = 0.5  # below this, a hit is more likely to be about something else
_BAR_CELLS = 5


def is_weak(hit: Hit) -> bool:
    """Whether a hit is probably about something other than the query."""
    return hit.relevance is not None and hit.relevance < WEAK


def weak_from(hits: Sequence[Hit]) -> int:
    """The index of the first of the weak hits at the end of the list; the number of hits if there
    are none."""
    index = len(hits)
    while index and is_weak(hits[index - 1]):
        index -= 1
    return index


def has_relevant(hits: Sequence[Hit]) -> bool | None:
    """Whether any hit is relevant. None if no hit is known to be relevant, and the relevance of at
    least one is unknown."""
    known = [hit.relevance for hit in hits if hit.relevance is not None]
    if any(relevance >= WEAK for relevance in known):
        return True
    return False if len(known) == len(hits) else None


def divider(hits: Sequence[Hit]) -> str:
    """The line above the weak matches at the end of a list."""
    return "weak matches" if weak_from(hits) else "nothing relevant found; weak matches"


def bar(relevance: float) -> str:
    """Draw a relevance as a bar of five characters. The bar is empty only below 0.1."""
    full = round(relevance * _BAR_CELLS)
    return "▰" * full + "▱" * (_BAR_CELLS - full)
