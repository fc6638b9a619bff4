"""Sparse vectors as text and as numbers, without numpy.

Weights are stored with three significant digits and used as float32: further digits change no
ranking (docs/decisions/0047), and would make the text a quarter longer. A score is the sum of
weight times query weight in float64, in the order of the terms, so that every backend computes the
same score.
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
    """Serialize weights as a JSON object, without terms of weight zero. Raises `ModelBroken`."""
    rounded = {term: float(f"{weight:.3g}") for term, weight in weights.items()}
    as_float32 = array("f", rounded.values())
    if not all(0 <= weight < math.inf for weight in as_float32):  # false for a NaN
        raise ModelBroken(
            "a sparse vector has weights that are negative or not finite", "check the model's files"
        )
    pairs = zip(rounded.items(), as_float32, strict=True)
    return json.dumps(
        {term: decimal for (term, decimal), weight in pairs if weight},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_text(text: str) -> Weights:
    """Read weights as float32. Raises `ValueError` for text that `to_text` cannot have written."""
    data = json.loads(text)
    if not isinstance(data, dict) or not all(
        type(weight) in (int, float) for weight in data.values()
    ):
        raise ValueError("not an object of numbers")
    weights = array("f", data.values())
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError("a weight is negative or not finite")
    return {term: weight for term, weight in zip(data, weights, strict=True) if weight}


def from_text_or_empty(text: str | None) -> Weights:
    """Read weights. Returns none for damaged text, which `kb doctor` reports."""
    try:
        return from_text(text or "{}")
    except (ValueError, RecursionError):
        return {}


def query_terms(query: Mapping[str, float]) -> list[tuple[str, float]]:
    """The terms of a query with their weights, without zeros, in the order of summation."""
    if not all(0 <= weight < math.inf for weight in query.values()):
        raise InvalidRequest(
            "the query has weights that are negative or not finite", "encode it again"
        )
    return sorted((term, float(weight)) for term, weight in query.items() if weight)


# --- integers as bytes ----------------------------------------------------------------------------


def pack(numbers: array[int]) -> bytes:
    """Serialize integers, little-endian on every machine."""
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array(numbers.typecode, numbers)
    swapped.byteswap()
    return swapped.tobytes()


def unpack(typecode: str, data: bytes) -> array[int]:
    """Read integers that `pack` wrote."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers
