"""Scales a vector to length 1, without numpy."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from operator import mul

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.types import Vector


def normalize(vector: Sequence[float]) -> Vector[float]:
    """Return the vector scaled to length 1, as float32; the arithmetic is float64. Raises
    `ValueError` for a vector that is zero or not finite."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not 0.0 < length < math.inf:  # also for a NaN
        raise ValueError("is zero" if length == 0 else "has numbers that are not finite")
    return array("f", [value / length for value in vector])
