"""Sparse vectors as text and as numbers. Pure, without numpy.

A weight counts as the float32 of six significant digits, which is what is stored: more say nothing,
and the text would be twice as long. A score is the sum of weight times query weight in float64,
term by term in the order of the terms, so that it comes out the same wherever it is computed.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Mapping

from kb.errors import InvalidRequest, ModelBroken

Weights = dict[str, float]


def to_text(weights: Mapping[str, float]) -> str:
    """As stored: a JSON object without the terms that weigh nothing."""
    rounded = {term: float(f"{weight:.6g}") for term, weight in weights.items()}
    as_counted = array("f", rounded.values())
    if not all(0 <= weight < math.inf for weight in as_counted):  # a NaN is neither
        raise ModelBroken(
            "a sparse vector has weights that are negative or not finite", "check the model's files"
        )
    pairs = zip(rounded.items(), as_counted, strict=True)
    return json.dumps({term: said for (term, said), weight in pairs if weight}, ensure_ascii=False)


def from_text(text: str) -> Weights:
    """The weights as they count. Raises ValueError for what `to_text` cannot have written."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(
        type(weight) in (int, float) for weight in found.values()
    ):
        raise ValueError("not an object of numbers")
    weights = array("f", found.values())
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError("a weight is negative or not finite")
    return {term: weight for term, weight in zip(found, weights, strict=True) if weight}


def readable(text: str | None) -> Weights:
    """The same of what may be damaged, which weighs nothing; `kb doctor` finds it."""
    try:
        return from_text(text or "{}")
    except (ValueError, RecursionError):
        return {}


def asked(query: Mapping[str, float]) -> list[tuple[str, float]]:
    """A query's terms that weigh something, in the order they are summed up."""
    if not all(0 <= weight < math.inf for weight in query.values()):
        raise InvalidRequest(
            "the query has weights that are negative or not finite", "encode it again"
        )
    return sorted((term, float(weight)) for term, weight in query.items() if weight)


# --- whole numbers as bytes -----------------------------------------------------------------------


def packed(numbers: array[int]) -> bytes:
    """Little-endian on every machine."""
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array(numbers.typecode, numbers)
    swapped.byteswap()
    return swapped.tobytes()


def unpacked(typecode: str, data: bytes) -> array[int]:
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers
