"""The settings of a profile as they are read: from TOML in their types, from `--set` as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from kb.errors import InvalidRequest, choose, whole_number
from kb.search.boosts import BOOSTS
from kb.search.fusion import FUSIONS, NORMALISATIONS
from kb.types import KINDS, MATCHES

RETRIEVERS = ("lexical", "dense")
# Settings that are tables, with the names that may stand in them.
TABLES: Mapping[str, tuple[str, ...]] = {"weights": RETRIEVERS, "type_weights": KINDS}
# Names that seeds and other tools have for them.
ALIASES = {
    "max_results": "top",
    "half_life": "half_life_days",
    "vector_weight": "weights.dense",
    "keyword_weight": "weights.lexical",
}

_CANDIDATES = re.compile(r"[1-9]\d{0,5}|[1-9]\d?x", re.ASCII)
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read(key: str, value: Any) -> Any:
    """`value` in the type of the setting `key`; `InvalidRequest` if it cannot be."""
    return KEYS[key](key, value)


def read_entry(profile: str, table: str, entry: str, value: Any) -> float:
    """A number of a table: `weights.dense`."""
    choose(f"a setting of profile {profile}", f"{table}.{entry}", _entries(table))
    return _number(f"{table}.{entry}", value, least=0.0)


def _entries(table: str) -> tuple[str, ...]:
    return tuple(f"{table}.{name}" for name in TABLES[table])


def _number(key: str, value: Any, *, least: float | None = None) -> float:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not isfinite(number) or (least is not None and number < least):
        wanted = "a number" if least is None else f"a number, {least:g} or more"
        raise InvalidRequest(f"{key} cannot be {value!r}", f"{key} is {wanted}")
    return number


def _positive(key: str, value: Any) -> float:
    if (number := _number(key, value)) > 0:
        return number
    raise InvalidRequest(f"{key} cannot be {value!r}", f"{key} is a number above 0")


def _optional_number(key: str, value: Any) -> float | None:
    return None if value in (None, "none") else _number(key, value)


def _whole(key: str, value: Any) -> int:
    try:
        return whole_number(key, int(value) if isinstance(value, str) else value, least=1)
    except ValueError:
        return whole_number(key, value, least=1)


def _switch(key: str, value: Any) -> bool:
    said = _SWITCH.get(str(value).lower())
    if said is None:
        raise InvalidRequest(f"{key} cannot be {value!r}", f"{key} is true or false")
    return said


def _candidates(key: str, value: Any) -> str:
    text = str(value)
    if _CANDIDATES.fullmatch(text):
        return text
    raise InvalidRequest(
        f"{key} cannot be {value!r}", f"{key} is a number, or a multiple of top such as 3x"
    )


def _one_of(valid: tuple[str, ...]) -> Callable[[str, Any], str]:
    return lambda key, value: choose(key, str(value), valid)


def _some_of(valid: tuple[str, ...], *, least: int) -> Callable[[str, Any], tuple[str, ...]]:
    def read_names(key: str, value: Any) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, list | tuple):
            raise InvalidRequest(f"{key} cannot be {value!r}", f"{key} are names: {valid}")
        said = {str(name).strip() for name in listed} - {"", "none"}
        for name in said:
            choose(key, name, valid)
        if len(said) < least:
            raise InvalidRequest(f"{key} cannot be empty", f"some of: {', '.join(valid)}")
        return tuple(name for name in valid if name in said)

    return read_names


KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "retrievers": _some_of(RETRIEVERS, least=1),
    "match": _one_of(MATCHES),
    "candidates": _candidates,
    "fusion": _one_of(FUSIONS[1:]),
    "k": _positive,
    "normalisation": _one_of(NORMALISATIONS),
    "complete": _switch,
    "min_score": _optional_number,
    "boosts": _some_of(BOOSTS, least=0),
    "half_life_days": _positive,
    "threshold": _optional_number,
    "group": _switch,
    "top": _whole,
}

# What each is, for the reference.
ABOUT: Mapping[str, str] = {
    "retrievers": "which are asked: `lexical` (words), `dense` (meaning)",
    "match": "which words a hit needs: `any`, `all`, or `auto` (all first, then any)",
    "candidates": "how many each retriever gives: a number, or a multiple of `top` such as `3x`",
    "fusion": "how lists become one: `rrf`, `weighted` or `convex`",
    "k": "the constant of `rrf`",
    "normalisation": "of `convex`: `zscore` or `minmax`",
    "weights": "what a retriever counts, by its name",
    "complete": "whether candidates that only words found get their cosine too",
    "min_score": "candidates whose fused score is lower are cut, before any boost",
    "boosts": "what multiplies a score: `type`, `access`, `decay`",
    "type_weights": "of the boost `type`, by kind",
    "half_life_days": "of the boost `decay`",
    "threshold": "hits whose shown score is lower are cut",
    "group": "whether only the best hit of a document is returned",
    "top": "how many hits are returned; `search.default_top` if it is not said",
}
