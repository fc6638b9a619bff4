"""Scales the rows of numpy arrays to length 1."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.types import Vector

    Rows = NDArray[np.float32]


def normalize_rows(values: NDArray[np.floating]) -> Vector[float]:
    """Normalize a row, or each row, of an array. Float64 arithmetic keeps the result independent of
    the order of summation. Raises `ValueError` for a row that is zero or not finite."""
    import numpy as np

    exact = values.astype(np.float64)
    lengths = np.sqrt(np.square(exact).sum(axis=-1, keepdims=True))
    if not lengths.all() or not np.isfinite(lengths).all():
        raise ValueError("is zero or not finite")
    vector = array("f")
    vector.frombytes((exact / lengths).astype(np.float32).tobytes())
    return vector


def normalize_decoded(rows: Rows) -> Rows:
    """Normalize decoded rows in float32, in place, which is fast; zero rows stay zero."""
    import numpy as np

    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    lengths[lengths == 0] = 1.0
    rows /= lengths
    return rows
