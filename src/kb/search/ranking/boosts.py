"""Boosts: factors of a score for the kind, the accesses and the age of a document. Pure functions;
`--explain` shows every factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import exp, log
from types import MappingProxyType

from kb.text.patterns import compile_later
from kb.types import BoostFields, Document, ScoredChunk
from kb.values import TYPE_CHECKING, dataclass, field

if TYPE_CHECKING:
    from datetime import date

BOOSTS = ("type", "access", "decay")
# Factors by the kind of a document [004]; 1 for other kinds.
TYPE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3}
)
HALF_LIFE_DAYS = 30.0

_DAILY = compile_later(r"(\d{4})-(\d{2})-(\d{2})\.md", re.ASCII)


@dataclass(frozen=True, slots=True)
class Boosts:
    """The boosts of a profile, in the order of `BOOSTS`."""

    names: tuple[str, ...] = ()
    type_weights: Mapping[str, float] = field(default_factory=lambda: TYPE_WEIGHTS)
    half_life_days: float = HALF_LIFE_DAYS

    def __bool__(self) -> bool:
        return bool(self.names)

    def __repr__(self) -> str:
        shown = {"decay": f"decay {self.half_life_days:g} d"}
        return f"boost({', '.join(shown.get(name, name) for name in self.names)})"

    def factors(self, document: Document | BoostFields, today: date) -> dict[str, float]:
        """The factors of a document, by the name of the boost."""
        factors = {}
        for name in self.names:
            if name == "type":
                factors[name] = type_weight(document.kind, self.type_weights)
            elif name == "access":
                factors[name] = access_boost(document.access_count)
            else:
                factors[name] = decay(document.doc_path, today, self.half_life_days)
        return factors


def type_weight(kind: str | None, weights: Mapping[str, float] = TYPE_WEIGHTS) -> float:
    """The factor of a kind of document; 1 if it has none."""
    return 1.0 if kind is None else weights.get(kind, 1.0)


def access_boost(access_count: int) -> float:
    """`1 + ln(1 + n)`: documents that are read often rise, but slowly [004]."""
    return 1.0 + log(1 + max(0, access_count))


def decay(path: str, today: date, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """`exp(-ln 2 / half-life * age)` for a daily note [003]; 1 for other paths, days in the future
    and dates that do not exist."""
    day = day_of(path)
    if day is None or half_life_days <= 0:
        return 1.0
    return exp(-log(2.0) / half_life_days * max(0, (today - day).days))


def day_of(path: str) -> date | None:
    """The date in a file name like `YYYY-MM-DD.md`; None if there is none."""
    match = _DAILY.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    from datetime import date

    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:  # 2026-02-31
        return None


def apply_boosts(
    ranked: Sequence[ScoredChunk], factors: Mapping[int, Mapping[str, float]]
) -> list[ScoredChunk]:
    """Multiply every score by its factors, and sort. Ties keep their order."""
    scores = []
    for one in ranked:
        score = one.score
        for factor in factors.get(one.chunk_id, {}).values():
            score *= factor
        scores.append((one.chunk_id, score))
    scores.sort(key=lambda pair: -pair[1])
    return [ScoredChunk(chunk, score, rank) for rank, (chunk, score) in enumerate(scores, start=1)]
