"""Judges without weights, for tests: one that counts shared words, and ones that fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import nan

from kb.types import ModelSpec

_WORD = re.compile(r"\w+")


class WordJudge:
    """A `ports.Judge`: how many of the query's words a passage contains; of equals, the shorter
    passage is better. With `fail`, it fails in that way."""

    def __init__(self, *, scripts: tuple[str, ...] = ()) -> None:
        self.spec = ModelSpec("word-judge", "1", 0, frozenset({"score"}), scripts=scripts)
        self.fail: str | None = None
        self.read: list[str] = []
        self.on_pair: Callable[[], None] = lambda: None

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if self.fail == "raises":
            raise RuntimeError("out of memory")
        found = [self._score(query, passage) for passage in passages]
        if self.fail == "nan":
            found[-1] = nan
        return found[:-1] if self.fail == "short" else found

    def _score(self, query: str, passage: str) -> float:
        self.read.append(passage)
        self.on_pair()
        words = _WORD.findall(passage.lower())
        shared = sum(word in words for word in _WORD.findall(query.lower()))
        return shared - len(words) / 1000
