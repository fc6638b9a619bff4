"""Reads the settings of a profile: typed values from TOML, texts from `--set`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import nan

from kb.errors import InvalidRequest, check_choice, check_integer, short_repr
from kb.search.ranking.boosts import BOOSTS
from kb.search.ranking.fusion import FUSIONS, NORMALISATIONS
from kb.search.retrievers import registry
from kb.text.patterns import compile_later
from kb.types import KINDS, MATCHES, RERANKERS
from kb.values import Any

Names = Callable[[], tuple[str, ...]]  # read when needed, because retrievers can be registered

# Settings that are tables, with the names of their entries.
TABLES: Mapping[str, Names] = {"weights": registry.names, "type_weights": lambda: KINDS}
# Names of settings in seeds and other tools.
ALIASES = {
    "max_results": "top",
    "half_life": "half_life_days",
    "vector_weight": "weights.dense",
    "keyword_weight": "weights.lexical",
    "sparse_weight": "weights.sparse",
    "rerank.blend": "rerank_blend",
    "rerank.candidates": "rerank_candidates",
}

MAX_NUMBER = 1_000_000.0
_MAX_RERANKED = 1_000  # candidates

# Common notation only, not all that Python accepts: neither 1_000 nor １０ nor inf.
_NUMBER = compile_later(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = compile_later(r"[+-]?\d{1,9}", re.ASCII)
_CANDIDATES = compile_later(r"[1-9]\d{0,5}|[1-9]\d?x", re.ASCII)
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read(key: str, value: Any) -> Any:
    """Convert `value` to the type of the setting `key`. Raises `InvalidRequest`."""
    return KEYS[key](key, value)


def read_entry(profile: str, table: str, entry: str, value: Any) -> float:
    """Convert the value of a table's entry, such as `weights.dense`."""
    check_name(profile, f"{table}.{entry}")
    return read_number(f"{table}.{entry}", value, least=0.0)


def check_name(profile: str, key: str) -> None:
    """Raise unless `key` is a setting of a profile."""
    entries = (f"{table}.{name}" for table, names in TABLES.items() for name in names())
    known = (*KEYS, *entries)
    if key not in known:
        raise InvalidRequest(
            f"unknown setting {key} of profile {profile}", f"settings: {', '.join(known)}"
        )


def read_number(key: str, value: Any, *, least: float = -MAX_NUMBER) -> float:
    """Convert a number. It is bounded, so that sums and products of scores stay finite."""
    try:
        number = float(value) if _is_number(value) else nan
    except OverflowError:
        number = nan
    if least <= number <= MAX_NUMBER:
        return number
    raise InvalidRequest(
        f"{key} cannot be {short_repr(value)}",
        f"{key} is a number from {least:,.0f} to {MAX_NUMBER:,.0f}",
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    from numbers import Real  # includes the numbers of numpy

    return isinstance(value, Real)


def _positive(key: str, value: Any) -> float:
    if (number := read_number(key, value, least=0.0)) > 0:
        return number
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", f"{key} is a number above 0")


def _optional_number(key: str, value: Any) -> float | None:
    return None if value is None or _text(value) == "none" else read_number(key, value)


def read_probability(key: str, value: Any) -> float | None:
    """Convert a number from 0 to 1, or `none`."""
    number = _optional_number(key, value)
    if number is None or 0.0 <= number <= 1.0:
        return number
    hint = f"{key} is a number from 0 to 1"
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)


def _whole(key: str, value: Any) -> int:
    digits = isinstance(value, str) and _WHOLE.fullmatch(value.strip())
    return check_integer(key, int(value) if digits else value, least=1)


def _count(key: str, value: Any) -> int:
    """Convert a whole number from 0."""
    digits = isinstance(value, str) and _WHOLE.fullmatch(value.strip())
    return check_integer(key, int(value) if digits else value, least=0)


def _rerank_count(key: str, value: Any) -> int:
    if (count := _whole(key, value)) <= _MAX_RERANKED:
        return count
    hint = f"{key} is a whole number from 1 to {_MAX_RERANKED:,}"
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)


def _blend(key: str, value: Any) -> float | None:
    number = None if _text(value) == "auto" else _optional_number(key, value)
    if number is None or 0.0 <= number <= 1.0:
        return number
    hint = f"{key} is a number from 0 (fused alone) to 1 (reranker alone), or auto"
    raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)


def _switch(key: str, value: Any) -> bool:
    switch = _SWITCH.get(_text(value).lower())
    if switch is None:
        raise InvalidRequest(f"{key} cannot be {short_repr(value)}", f"{key} is true or false")
    return switch


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


def _some_of(valid_names: Names, *, least: int) -> Callable[[str, Any], tuple[str, ...]]:
    def read_names(key: str, value: Any) -> tuple[str, ...]:
        valid = valid_names()
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list | tuple):
            hint = f"choose from: {', '.join(valid)}"
            raise InvalidRequest(f"{key} cannot be {short_repr(value)}", hint)
        chosen = {_text(name) for name in names} - {"", "none"}
        for name in chosen:
            check_choice(key, name, valid)
        if len(chosen) < least:
            raise InvalidRequest(f"{key} cannot be empty", f"choose from: {', '.join(valid)}")
        return tuple(name for name in valid if name in chosen)

    return read_names


KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "retrievers": _some_of(registry.names, least=1),
    "match": _one_of(MATCHES),
    "candidates": _candidates,
    "fusion": _one_of(FUSIONS[1:]),
    "k": _positive,
    "normalisation": _one_of(NORMALISATIONS),
    "adaptive": _switch,
    "agreement": _switch,
    "coverage": _switch,
    "word_match": _switch,
    "complete": _switch,
    "literal": _switch,
    "min_score": _optional_number,
    "calibrated": _switch,
    "boosts": _some_of(lambda: BOOSTS, least=0),
    "half_life_days": _positive,
    "rerank": _one_of(RERANKERS),
    "rerank_candidates": _rerank_count,
    "rerank_blend": _blend,
    "threshold": _optional_number,
    "min_relevance": read_probability,
    "collapse": _switch,
    "per_document": _count,
    "group": _switch,
    "top": _whole,
}

# Descriptions for the reference.
ABOUT: Mapping[str, str] = {
    "retrievers": "the retrievers to run: `lexical` (words), `dense` (meaning), `sparse` (weighted "
    "terms)",
    "match": "which words a lexical hit must contain: `any` (one content word; if none matches, "
    "any word), `all`, or `auto` (all first, then as `any`)",
    "candidates": "how many candidates each retriever returns: a number, or a multiple of `top` "
    "such as `3x`",
    "fusion": "how several lists become one: `rrf`, `weighted` or `convex`",
    "k": "the constant of `rrf`",
    "normalisation": "the normalization of `convex`: `zscore` or `minmax`",
    "weights": "the weight of each retriever, by name",
    "adaptive": "whether weights depend on the length and the form of the query",
    "agreement": "whether a list that shares almost nothing with the others gets less weight",
    "word_match": "whether words count more if the first lexical candidate matches well, and "
    "weighted terms are ignored if the nearest passages are code",
    "coverage": "whether vectors count less while most lexical candidates have none",
    "complete": "whether a dense or sparse score is computed for candidates that only other "
    "retrievers returned",
    "literal": "whether passages that contain the query literally come first, and passages with "
    "a part of it move up",
    "min_score": "candidates with a lower fused score are dropped, before any boost",
    "calibrated": "whether half of a passage's relevance must reach `min_score` too, if its "
    "vectors are known; passages with every word of the query are kept",
    "boosts": "factors of the score: `type`, `access`, `decay`",
    "type_weights": "the factors of the boost `type`, by kind",
    "half_life_days": "the half-life of the boost `decay`",
    "rerank": "the reranker of the first candidates: `none`, `colbert` or `cross-encoder`",
    "rerank_candidates": "how many candidates the reranker reads",
    "rerank_blend": "the share of the reranker in the final score, from 0 (fused score alone) to 1 "
    "(reranker alone); `auto` or `none`: the reranker is used for queries on which it helps",
    "threshold": "hits with a lower score are dropped",
    "min_relevance": "hits with a lower relevance, a probability from 0 to 1, are dropped",
    "collapse": "whether passages with (nearly) the same text become one hit, and short texts that "
    "many pages of a folder repeat rank below the others",
    "per_document": "how many passages of a document may be among the first ten hits; `0`: any "
    "number",
    "group": "whether only the best hit of a document is returned",
    "top": "how many hits are returned; by default `search.default_top`",
}
