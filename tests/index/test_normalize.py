from __future__ import annotations

import math
from array import array
from operator import mul

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kb.index.normalize import normalize
from kb.index.normalize_arrays import normalize_decoded, normalize_rows

np = pytest.importorskip("numpy")

VECTORS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4)


@given(VECTORS)
def test_the_length_is_1_and_the_direction_stays(vector: list[float]) -> None:
    assume(any(abs(value) > 1e-30 for value in vector))
    unit = normalize(vector)
    assert unit.typecode == "f"
    assert math.isclose(math.sqrt(sum(map(mul, unit, unit))), 1.0, abs_tol=1e-6)
    length = math.hypot(*vector)
    assert list(unit) == pytest.approx([value / length for value in vector], abs=1e-6)
    for by_numpy in (normalize_rows(np.array(vector)), normalize_rows(np.array([vector]))):
        assert list(by_numpy) == pytest.approx(list(unit), abs=1e-7)


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_a_vector_without_a_direction_is_refused(vector: list[float]) -> None:
    for call in (normalize, lambda values: normalize_rows(np.array(values))):
        with pytest.raises(ValueError, match=r"is zero|not finite"):
            call(vector)


def test_decoded_rows_may_be_zero() -> None:
    rows = normalize_decoded(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert array("f", rows.ravel()) == array("f", [0.6, 0.8, 0.0, 0.0])
