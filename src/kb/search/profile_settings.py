"""The settings of a profile as they are read: from TOML in their types, from `--set` as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import nan
from numbers import Real
from typing import Any

from kb.errors import InvalidRequest, check_choice, check_integer, short_repr
from kb.search.ranking.boosts import BOOSTS
from kb.search.ranking.fusion import FUSIONS, NORMALISATIONS
from kb.types import KINDS, MATCHES, RERANKERS

RETRIEVERS = ("lexical", "dense", "sparse")
# Settings that are tables, with the names that may stand in them.
TABLES: Mapping[str, tuple[str, ...]] = {"weights": RETRIEVERS, "type_weights": KINDS}
# Names that seeds and other tools have for them.
ALIASES = {
    "max_results": "top",
    "half_life": "half_life_days",
    "vector_weight": "weights.dense",
    "keyword_weight": "weights.lexical",
    "sparse_weight": "weights.sparse",
    "rerank.blend": "rerank_blend",
    "rerank.candidates": "rerank_candidates",
}

MOST = 1_000_000.0  # of any number
_MOST_RERANKED = 1_000  # candidates

# As they are written everywhere, and not as Python reads them: neither 1_000 nor １０ nor inf.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_CANDIDATES = re.compile(r"[1-9]\d{0,5}|[1-9]\d?x", re.ASCII)
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read(key: str, value: Any) -> Any:
    """`value` in the type of the setting `key`; `InvalidRequest` if it cannot be."""
    return KEYS[key](key, value)


def read_entry(profile: str, table: str, entry: str, value: Any) -> float:
    """A number of a table: `weights.dense`."""
    check_name(profile, f"{table}.{entry}")
    return read_number(f"{table}.{entry}", value, least=0.0)


def check_name(profile: str, key: str) -> None:
    """Refuses what is no setting of a profile."""
    entries = (f"{table}.{name}" for table, names in TABLES.items() for name in names)
    known = (*KEYS, *entries)
    if key not in known:
        raise InvalidRequest(
            f"unknown setting {key} of profile {profile}", f"settings: {', '.join(known)}"
        )


def read_number(key: str, value: Any, *, least: float = -MOST) -> float:
    """Bounded, since what a search multiplies and adds must stay a number."""
    try:
        number = float(value) if _is_number(value) else nan
    except OverflowError:
        number = nan
    if least <= number <= MOST:
        return number
    raise InvalidRequest(
        f"{key} cannot be {short_repr(value)}",
        f"{key} is a number from {least:,.0f} to {MOST:,.0f}",
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, Real) and not isinstance(value, bool)


def _positive(key: str, value: Any) -> float:
    if (number := read_number(key, value, least=0.0)) > 0:
        return number
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", f"{key} is a number above 0")


def _optional_number(key: str, value: Any) -> float | None:
    return None if value is None or _text(value) == "none" else read_number(key, value)


def _whole(key: str, value: Any) -> int:
    digits = isinstance(value, str) and _WHOLE.fullmatch(value.strip())
    return check_integer(key, int(value) if digits else value, least=1)


def _reranked(key: str, value: Any) -> int:
    if (count := _whole(key, value)) <= _MOST_RERANKED:
        return count
    hint = f"{key} is a whole number from 1 to {_MOST_RERANKED:,}"
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)


def _blend(key: str, value: Any) -> float | None:
    number = _optional_number(key, value)
    if number is None or 0.0 <= number <= 1.0:
        return number
    hint = f"{key} is a number from 0 (fused alone) to 1 (reranker alone)"
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)


def _switch(key: str, value: Any) -> bool:
    said = _SWITCH.get(_text(value).lower())
    if said is None:
        raise InvalidRequest(f"{key} cannot be {short_repr(value)}", f"{key} is true or false")
    return said


def _candidates(key: str, value: Any) -> str:
    text = _text(value)
    if _CANDIDATES.fullmatch(text):
        return text
    raise InvalidRequest(
        f"{key} cannot be {short_repr(value)}",
        f"{key} is a number, or a multiple of top such as 3x",
    )


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else short_repr(value)


def _one_of(valid: tuple[str, ...]) -> Callable[[str, Any], str]:
    return lambda key, value: check_choice(key, _text(value), valid)


def _some_of(valid: tuple[str, ...], *, least: int) -> Callable[[str, Any], tuple[str, ...]]:
    def read_names(key: str, value: Any) -> tuple[str, ...]:
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list | tuple):
            hint = f"some of: {', '.join(valid)}"
            raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)
        said = {_text(name) for name in names} - {"", "none"}
        for name in said:
            check_choice(key, name, valid)
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
    "adaptive": _switch,
    "agreement": _switch,
    "complete": _switch,
    "min_score": _optional_number,
    "boosts": _some_of(BOOSTS, least=0),
    "half_life_days": _positive,
    "rerank": _one_of(RERANKERS),
    "rerank_candidates": _reranked,
    "rerank_blend": _blend,
    "threshold": _optional_number,
    "group": _switch,
    "top": _whole,
}

# What each is, for the reference.
ABOUT: Mapping[str, str] = {
    "retrievers": "which run: `lexical` (words), `dense` (meaning), `sparse` (weighted terms)",
    "match": "which words a hit that is found by words needs: `any` (one that has content, or, if "
    "none is found, any at all), `all`, or `auto` (all first, then as `any`)",
    "candidates": "how many each retriever gives: a number, or a multiple of `top` such as `3x`",
    "fusion": "how lists become one: `rrf`, `weighted` or `convex`",
    "k": "the constant of `rrf`",
    "normalisation": "of `convex`: `zscore` or `minmax`",
    "weights": "what a retriever counts, by its name",
    "adaptive": "whether weights follow the query, by how long it is and how it is put",
    "agreement": "whether a list that shares next to nothing with the others counts less",
    "complete": "whether candidates that only others found get a dense or sparse score too",
    "min_score": "candidates whose fused score is lower are cut, before any boost",
    "boosts": "what multiplies a score: `type`, `access`, `decay`",
    "type_weights": "of the boost `type`, by kind",
    "half_life_days": "of the boost `decay`",
    "rerank": "what reads the first candidates once more: `none`, `colbert` or `cross-encoder`",
    "rerank_candidates": "how many of them are read",
    "rerank_blend": "what the reranker counts beside the fused score: from 0 to 1, which is the "
    "reranker alone; `none`: what measured best for it",
    "threshold": "hits whose shown score is lower are cut",
    "group": "whether only the best hit of a document is returned",
    "top": "how many hits are returned; `search.default_top` if it is not said",
}
