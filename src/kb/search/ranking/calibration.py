"""Calibration: scores of different retrievers on comparable scales. Pure functions."""

from __future__ import annotations

_KEYWORD_LEAST, _KEYWORD_REACH = 0.35, 0.64  # see `keyword_score`
_NEARLY_ONE = 0.999  # a substring match may contain every word, and has a score of 1


def keyword_score(score: float) -> float:
    """Map a lexical score to [0.35, 0.99] for the weighted sum. FTS5 gives a word that occurs in
    most chunks almost no score, and a `min_score` would silently remove such hits. With a minimum
    score of 0.35, a weight of 0.3 keeps every one of them above 0.1."""
    return _KEYWORD_LEAST + _KEYWORD_REACH * score


def spread(score: float) -> float:
    """Undo `b / (1 + b)` and return the BM25 score for the convex sum. The bounded scores of all
    good hits are close to 1, and a mean would hide their differences."""
    return score / (1.0 - min(score, _NEARLY_ONE))


def positive(score: float) -> float:
    """The score, or 0 if it is negative."""
    return max(0.0, score)


def bound(score: float) -> float:
    """Map a score without an upper bound to [0, 1)."""
    least = max(0.0, score)
    return least / (1.0 + least)


def identity(score: float) -> float:
    """The score itself."""
    return score
