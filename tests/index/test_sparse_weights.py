"""Sparse vectors as text and as bytes."""

from __future__ import annotations

import json
import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.index import cosine, sparse_blocks, sparse_weights
from kb.index.sparse_blocks import Block

weights = st.dictionaries(
    st.text(min_size=1, max_size=9), st.floats(0, 1e30, allow_subnormal=False), max_size=30
)


@given(weights)
def test_bytes_have_the_weights_of_the_text(written: dict[str, float]) -> None:
    text = sparse_weights.to_text(written)
    stored = sparse_weights.compress(text)
    assert sparse_weights.decimals(stored) == json.loads(text)
    assert sparse_weights.from_text(stored) == sparse_weights.from_text(text)


def test_bytes_take_less_than_half() -> None:
    words = "the store keeps passages vectors postings weights of terms that a model adds".split()
    text = sparse_weights.to_text({f"{w}{n}": 0.1 + n / 7 for n, w in enumerate(words * 8)})
    assert len(sparse_weights.compress(text)) < len(text.encode()) / 2


@pytest.mark.parametrize("text", ["{}", '{"a\\u0000b":1.0}', '{"a":0.12345}', '{"a":1e-45}'])
def test_what_has_no_bytes_stays_text(text: str) -> None:
    assert sparse_weights.compress(text) == text


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_bytes_are_refused(noise: bytes, cut: int) -> None:
    stored = sparse_weights.compress('{"boat":0.5,"red":1.25,"sea":0.0314}')
    assert isinstance(stored, bytes)
    for damaged in (noise, stored[: cut % len(stored)], stored + b"\0", b"\2" + stored[1:]):
        with pytest.raises(ValueError, match=r".*"):
            sparse_weights.from_text(damaged)
    assert sparse_weights.from_text_or_empty(stored[:-1]) == {}


@given(st.lists(st.floats(1e-6, 1e6), max_size=80), st.booleans())
def test_blocks_of_postings_are_compressed_without_loss(weights: list[float], exact: bool) -> None:
    rounded = [weight if exact else float(f"{weight:.3g}") for weight in weights]
    places = array("H", range(len(weights)))
    block = Block(bytearray(cosine.to_bytes(array("f", rounded))), places).to_bytes()
    stored = sparse_blocks.compress(block)
    assert sparse_blocks.expand(stored) == block
    assert stored == block or len(stored) == 4 * len(weights) + 1


def test_every_code_has_the_same_weight_with_and_without_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = [code for code in range(900 * 72) if abs(code % 72 - 40) <= 22]
    by_numpy = sparse_weights.weights_of(array("H", codes))
    monkeypatch.delitem(sys.modules, "numpy")
    assert sparse_weights.weights_of(array("H", codes)) == by_numpy
    assert [sparse_weights.code_of(weight) for weight in by_numpy[::97]] == [*codes[::97]]


@given(st.binary(max_size=300))
def test_damaged_blocks_never_raise(stored: bytes) -> None:
    assert isinstance(sparse_blocks.expand(stored), bytes)
