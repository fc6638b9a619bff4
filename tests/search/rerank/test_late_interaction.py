"""MaxSim over token vectors: by hand, with and without numpy, and as they are stored."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import ModelBroken
from kb.index import token_codes
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.late_interaction import Colbert, maxsim
from kb.search.results.hits import CandidateCache
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ExamMark, ModelSpec, StoredModel, TokenVectors
from tests.models.weightless import Weightless
from tests.store.builders import pending_chunks, put, write_vectors


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
        7: rows((1.0, 0.0), (0.6, 0.8)),  # the first has a cosine of 1, the second of .8
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


# A passage of 190 tokens of 64 dimensions, as kb-mini returns them.
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
        model = store.vectors.use_model(spec).model_id
        chunks = [one.chunk_id for one in pending_chunks(store, model, limit=9)]
        tokens = {chunk: directions(20, 64, chunk) for chunk in chunks}
        write_vectors(
            store,
            model,
            [(chunk, Encoding(array("f", [1, 0]), tokens=tokens[chunk])) for chunk in chunks],
        )
        for chunk in chunks:
            found = maxsim(tokens[chunk], store.vectors.token_vectors(model, chunks))
            assert max(found, key=lambda one: found[one]) == chunk
    finally:
        store.close()


# --- as a reranker --------------------------------------------------------------------------------


class Tokens:
    """A store that has token vectors only."""

    def __init__(self, tokens: dict[int, TokenVectors]) -> None:
        self.vectors = self
        self.tokens = tokens
        self.asked: list[tuple[int, list[int]]] = []

    def token_vectors(self, model_id: int, chunk_ids: Sequence[int]) -> dict[int, TokenVectors]:
        self.asked.append((model_id, list(chunk_ids)))
        return {chunk: self.tokens[chunk] for chunk in chunk_ids if chunk in self.tokens}


STORED = StoredModel(7, "weightless", "1", 64, ready=3, pending=0, failed=0)


def reranker(encoder: Weightless, **said: Any) -> Colbert:
    return Colbert(QueryEncoder(lambda: encoder), STORED, **said)


def cache_of(tokens: dict[int, TokenVectors]) -> CandidateCache:
    return CandidateCache(cast(Any, Tokens(tokens)))


def tokens_of(*words: str) -> TokenVectors:
    made = Weightless().encode([" ".join(words)], want={"tokens"})[0].tokens
    assert made is not None
    return made


STORED_TOKENS = {
    1: tokens_of("harbour", "keys"), 2: tokens_of("boat"), 3: TokenVectors(16, array("f")),
}  # fmt: skip


def test_passages_are_compared_by_what_the_store_has_of_them() -> None:
    """Passages without tokens get no score; passages without vectors are left out."""
    store = Tokens(STORED_TOKENS)
    colbert, cache = reranker(Weightless()), CandidateCache(cast(Any, store))
    found = colbert.scores("harbour keys", [1, 2, 3, 4], cache)
    expected = maxsim(
        tokens_of("harbour", "keys"), {chunk: STORED_TOKENS[chunk] for chunk in (1, 2)}
    )
    assert found == {**expected, 3: None}
    assert expected[1] == pytest.approx(1.0)
    assert store.asked == [(7, [1, 2, 3, 4])]
    assert set(cache.token_vectors(7, [4, 2, 5])) == {2}  # reads only what it has not read
    assert store.asked[1:] == [(7, [5])]


def test_passages_that_will_never_have_any_are_not_left_out() -> None:
    colbert, cache = reranker(Weightless(), kept=False), cache_of(STORED_TOKENS)
    assert set(colbert.scores("harbour keys", [1, 2, 3, 4], cache)) == {1, 2, 3, 4}
    assert colbert.scores("harbour keys", [3, 4], cache) == {3: None, 4: None}


def test_it_is_what_the_store_has_a_model_of() -> None:
    colbert = reranker(Weightless(), scripts=("Latin",))
    assert (colbert.name, colbert.model, colbert.scripts) == ("colbert", "weightless", ("Latin",))
    assert reranker(Weightless()).scripts == ()


def test_the_query_is_encoded_before_anything_is_read() -> None:
    encoder = Weightless()
    colbert = reranker(encoder)
    colbert.load()
    assert len(encoder.calls) == 1
    colbert.prepare("harbour keys")
    assert encoder.calls[1:] == [("harbour keys",)]
    colbert.scores("harbour keys", [1], cache_of(STORED_TOKENS))
    assert len(encoder.calls) == 2  # it was encoded once


@pytest.mark.parametrize("tokens", [None, TokenVectors(16, array("f"))])
def test_a_query_without_token_vectors(tokens: TokenVectors | None) -> None:
    class Without(Weightless):
        def encode(self, texts: Sequence[str], **asked: Any) -> list[Encoding]:
            return [replace(one, tokens=tokens) for one in super().encode(texts, **asked)]

    with pytest.raises(ModelBroken) as error:
        reranker(Without()).prepare("harbour")
    if tokens is not None:
        assert error.value.message == "weightless returned no token vectors for the query"
        assert error.value.hint == "see: kb models"


def test_vectors_of_another_width_are_refused() -> None:
    stored = {1: TokenVectors(8, array("f", [1.0, *[0.0] * 7]))}
    with pytest.raises(ModelBroken) as error:
        reranker(Weightless()).scores("harbour", [1], cache_of(stored))
    assert error.value.message == "token vectors of 8 dimensions, and a query of 16"
    assert error.value.hint == "create them again with: kb embed --anew"


def test_a_model_that_failed_the_exam_by_its_dense_vectors_is_unfit() -> None:
    failed = replace(STORED, marks=(ExamMark("dense", "Latin", 1, 10),))
    encodings = QueryEncoder(Weightless)
    told = Colbert(encodings, failed).unfit("harbour keys")
    assert told.startswith("weightless failed kb's exam")
    assert reranker(Weightless()).unfit("harbour keys") == ""
    sparse = replace(STORED, marks=(ExamMark("sparse", "Latin", 1, 10),))
    assert Colbert(encodings, sparse).unfit("harbour keys") == ""


def test_nothing_to_compare() -> None:
    assert maxsim(tokens_of("harbour"), {}) == {}
