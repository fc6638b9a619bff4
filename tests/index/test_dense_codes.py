"""Packed dense vectors have the same bits."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.index import cosine, dense_codes, normalize


@given(st.binary(max_size=4000))
def test_any_bytes_survive(data: bytes) -> None:
    numbers = data[: len(data) // 4 * 4]
    packed = dense_codes.pack(numbers)
    assert dense_codes.unpack(packed) == numbers
    assert packed == numbers or len(packed) < len(numbers)


@given(st.lists(st.binary(min_size=256, max_size=256), max_size=5), st.binary(max_size=300))
def test_many_at_a_time(vectors: list[bytes], damaged: bytes) -> None:
    stored = [*map(dense_codes.pack, vectors), dense_codes.pack(unit_vector()), damaged]
    stored += [dense_codes.pack(unit_vector()[:256])] * 2
    one_by_one = [dense_codes.unpack(each) for each in stored]
    expected = [each if len(each) % 4 or len(each) == 256 or stored[at] == each else b""
                for at, each in enumerate(one_by_one)]  # fmt: skip
    assert dense_codes.unpack_all(stored, 64) == expected
    assert dense_codes.unpack_all([], 64) == []


@given(st.lists(st.floats(-1, 1, width=32), min_size=300, max_size=400))
def test_vectors_survive(numbers: list[float]) -> None:
    data = cosine.to_bytes(array("f", numbers))
    assert dense_codes.unpack(dense_codes.pack(data)) == data


def unit_vector() -> bytes:
    numbers = [math.sin(n * n) + math.cos(3 * n) / 2 for n in range(384)]
    return cosine.to_bytes(normalize.normalize(numbers))


def test_two_vectors_share_a_page() -> None:
    packed = dense_codes.pack(unit_vector())
    assert len(packed) % 2 == 1
    assert len(packed) < 1350


@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_short_vectors_stay_as_they_are(length: int) -> None:
    data = cosine.to_bytes(array("f", [0.5] * length))
    assert dense_codes.pack(data) == data


@given(st.binary(max_size=2000))
def test_damaged_vectors_never_raise(data: bytes) -> None:
    assert isinstance(dense_codes.unpack(data), bytes)


def test_damage_is_noticed() -> None:
    packed = dense_codes.pack(unit_vector())
    for damaged in (packed[:-2], packed + b"ab", packed[2:], b"\xff" + packed[1:]):
        assert not cosine.is_unit(dense_codes.unpack(damaged), 384)
