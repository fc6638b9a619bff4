"""MaxSim over token vectors: by hand, with and without numpy, and as they are stored."""

from __future__ import annotations

import random
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.rerank_colbert import maxsim
from kb.store import SqliteStore, token_codes
from kb.types import Encoding, ModelSpec, TokenVectors
from tests.store.builders import put


def rows(*given_: tuple[float, ...]) -> TokenVectors:
    return TokenVectors(len(given_[0]), array("f", (value for row in given_ for value in row)))


def directions(count: int, dimension: int, seed: int) -> TokenVectors:
    chance = random.Random(seed)
    made: list[tuple[float, ...]] = []
    for _ in range(count):
        row = [chance.gauss(0, 1) for _ in range(dimension)]
        length = sum(value * value for value in row) ** 0.5
        made.append(tuple(value / length for value in row))
    return rows(*made)


def test_by_hand() -> None:
    query = rows((1.0, 0.0), (0.0, 1.0))
    found = maxsim(query, {
        7: rows((1.0, 0.0), (0.6, 0.8)),  # the first finds itself, the second .8
        5: rows((-1.0, 0.0)),  # -1 and 0
        9: rows((0.0, 1.0), (1.0, 0.0), (0.0, -1.0)),
    })  # fmt: skip
    assert found == pytest.approx({7: 0.9, 5: -0.5, 9: 1.0})
    assert maxsim(query, {}) == {}


@given(
    tokens=st.integers(1, 12),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    dimension=st.sampled_from([1, 8, 64]),
    seed=st.integers(0, 999),
)
def test_the_same_without_numpy(tokens: int, lengths: list[int], dimension: int, seed: int) -> None:
    query = directions(tokens, dimension, seed)
    passages = {
        chunk: directions(length, dimension, seed + chunk)
        for chunk, length in enumerate(lengths, start=1)
    }
    fast = maxsim(query, passages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numpy", None)
        slow = maxsim(query, passages)
    assert list(fast) == list(slow) == list(passages)
    assert fast == pytest.approx(slow, abs=1e-5)


def test_a_passage_in_any_company() -> None:
    query = directions(9, 64, 1)
    passages = {chunk: directions(chunk % 7 + 1, 64, chunk) for chunk in range(2, 60)}
    together = maxsim(query, passages)
    assert {chunk: maxsim(query, {chunk: one})[chunk] for chunk, one in passages.items()} == (
        pytest.approx(together, abs=1e-6)
    )


# A passage of 190 tokens of 64 dimensions, as kb-mini gives them.
COST_BYTES = {"1-bit": 1_527, "2-bit": 3_047, "int8": 12_167, "float16": 24_327}


@pytest.mark.parametrize("form", list(COST_BYTES))
def test_what_a_passage_costs_and_how_close_it_stays(tmp_path: Path, form: str) -> None:
    passage, query = directions(190, 64, 3), directions(12, 64, 4)
    data = token_codes.encode(passage, form)
    assert len(data) == COST_BYTES[form]
    exact = maxsim(query, {1: passage})[1]
    found = maxsim(query, {1: token_codes.decode(data)})[1]
    assert abs(found - exact) < {"1-bit": 0.08, "2-bit": 0.04}.get(form, 0.002)


def test_many_are_decoded_as_each_is() -> None:
    blobs = [
        token_codes.encode(directions(1 + number % 9, 64, number), "2-bit") for number in range(20)
    ]
    assert token_codes.decode_all(blobs) == [token_codes.decode(data) for data in blobs]
    mixed = [*blobs, token_codes.encode(directions(3, 64, 1), "int8")]
    assert token_codes.decode_all(mixed) == [token_codes.decode(data) for data in mixed]
    assert token_codes.decode_all([]) == []


@pytest.mark.parametrize("form", token_codes.FORMATS)
@pytest.mark.parametrize("dimension", [1, 7, 64])
def test_what_is_stored_is_read_without_numpy(form: str, dimension: int) -> None:
    data = token_codes.encode(directions(9, dimension, 5), form)
    by_numpy = token_codes.decode(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numpy", None)
        plain = token_codes.decode(data)
    assert (plain.dimension, len(plain)) == (dimension, 9)
    assert list(plain.data) == pytest.approx(list(by_numpy.data), abs=1e-6)


def test_from_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kb.sqlite")
    try:
        put(store, "a.md", "one", "two", "three")
        spec = ModelSpec("m", "1", 2, frozenset({"dense", "tokens"}), token_dimension=64)
        model = store.use_model(spec).model_id
        chunks = [one.chunk_id for one in store.to_embed(model, limit=9)]
        tokens = {chunk: directions(20, 64, chunk) for chunk in chunks}
        store.write_embeddings(
            model, [(chunk, Encoding(array("f", [1, 0]), tokens=tokens[chunk])) for chunk in chunks]
        )
        for chunk in chunks:
            found = maxsim(tokens[chunk], store.tokens_of(model, chunks))
            assert max(found, key=lambda one: found[one]) == chunk
    finally:
        store.close()
