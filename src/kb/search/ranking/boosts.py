"""Boosts: what a document is, how often it was read and how old it is, as factors of a score
(spec 7). Pure functions; every factor is shown by `--explain`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import exp, log
from types import MappingProxyType

from kb.types import Document, ScoredChunk

BOOSTS = ("type", "access", "decay")
# What a document says counts more or less [004]; what is not named counts once.
TYPE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3}
)
HALF_LIFE_DAYS = 30.0

_DAILY = re.compile(r"(\d{4})-(\d{2})-(\d{2})\.md", re.ASCII)


@dataclass(frozen=True, slots=True)
class Boosts:
    """The factors that a profile applies, by name, in the order of `BOOSTS`."""

    names: tuple[str, ...] = ()
    type_weights: Mapping[str, float] = field(default_factory=lambda: TYPE_WEIGHTS)
    half_life_days: float = HALF_LIFE_DAYS

    def __bool__(self) -> bool:
        return bool(self.names)

    def __repr__(self) -> str:
        shown = {"decay": f"decay {self.half_life_days:g} d"}
        return f"boost({', '.join(shown.get(name, name) for name in self.names)})"

    def factors(self, document: Document, today: date) -> dict[str, float]:
        every = {
            "type": lambda: type_weight(document.kind, self.type_weights),
            "access": lambda: access_boost(document.access_count),
            "decay": lambda: decay(document.doc_path, today, self.half_life_days),
        }
        return {name: every[name]() for name in self.names}


def type_weight(kind: str | None, weights: Mapping[str, float] = TYPE_WEIGHTS) -> float:
    return 1.0 if kind is None else weights.get(kind, 1.0)


def access_boost(access_count: int) -> float:
    """`1 + ln(1 + n)`: what is read often rises, and never runs away with the list [004]."""
    return 1.0 + log(1 + max(0, access_count))


def decay(path: str, today: date, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """`exp(-ln 2 / half-life * age)` for a daily note [003]; 1 for every other path, and for days
    that are still to come or never will."""
    day = day_of(path)
    if day is None or half_life_days <= 0:
        return 1.0
    return exp(-log(2.0) / half_life_days * max(0, (today - day).days))


def day_of(path: str) -> date | None:
    """The day a path is named for, as `YYYY-MM-DD.md`; None where it is not, or is no day."""
    named = _DAILY.fullmatch(path.rpartition("/")[2])
    if named is None:
        return None
    try:
        return date(int(named[1]), int(named[2]), int(named[3]))
    except ValueError:  # 2026-02-31
        return None


def apply_boosts(
    ranked: Sequence[ScoredChunk], factors: Mapping[int, Mapping[str, float]]
) -> list[ScoredChunk]:
    """Every score times its factors, in the new order; equals stay in the order they had."""
    scores = []
    for one in ranked:
        score = one.score
        for factor in factors.get(one.chunk_id, {}).values():
            score *= factor
        scores.append((one.chunk_id, score))
    scores.sort(key=lambda pair: -pair[1])
    return [ScoredChunk(chunk, score, rank) for rank, (chunk, score) in enumerate(scores, start=1)]
