"""Stored token vectors: the precision and the size of each format."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import InvalidRequest, StoreUnusable
from kb.index import token_codes
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ModelSpec, TokenVectors
from tests.store.builders import put, write_vectors

np = pytest.importorskip("numpy")

CLOSE = {"float32": 1 - 1e-7, "float16": 0.99999, "int8": 0.9999, "2-bit": 0.92, "1-bit": 0.77}


def directions(count: int, dimension: int, seed: int) -> Any:
    made = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def token_vectors(rows: Any) -> TokenVectors:
    return TokenVectors(rows.shape[1], array("f", rows.ravel()))


@given(
    form=st.sampled_from(token_codes.FORMATS),
    dimension=st.integers(1, 200),
    count=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_shape_and_size_survive(form: str, dimension: int, count: int, seed: int) -> None:
    data = token_codes.encode(token_vectors(directions(count, dimension, seed)), form)
    assert len(data) == 7 + count * token_codes.row_bytes(dimension, form)
    assert token_codes.parse_header(data) == (form, dimension, count)
    found = token_codes.decode(data)
    assert (found.dimension, len(found)) == (dimension, count)
    lengths = np.linalg.norm(token_codes.decode_rows(data).astype(np.float64), axis=1)
    assert np.allclose(lengths, 1.0, atol=1e-5)
    again = token_codes.decode_rows(
        token_codes.encode(found, form)
    )  # nothing is lost a second time
    assert np.allclose(again, token_codes.decode_rows(data), atol=1e-3)


@given(
    form=st.sampled_from(token_codes.FORMATS),
    dimension=st.integers(64, 256),
    seed=st.integers(0, 999),
)
def test_directions_stay_close(form: str, dimension: int, seed: int) -> None:
    rows = directions(200, dimension, seed)
    cosines = (token_codes.decode_rows(token_codes.encode(token_vectors(rows), form)) * rows).sum(
        axis=1
    )
    assert cosines.mean() > CLOSE[form]
    assert cosines.min() > CLOSE[form] - (0.12 if "bit" in form else 0.0005)


def test_bytes_per_token() -> None:
    sizes = {form: token_codes.row_bytes(64, form) for form in token_codes.FORMATS}
    assert sizes == {"float32": 256, "float16": 128, "int8": 64, "2-bit": 16, "1-bit": 8}


@pytest.mark.parametrize(
    "data", [b"", b"\0", bytes(7), b"\x09\x02\0\x01\0\0\0" + bytes(8), b"\0\x02\0\x01\0\0\0" + b"1"]
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(StoreUnusable, match="damaged"):
        token_codes.decode(data)
    with pytest.raises(InvalidRequest, match="format"):
        token_codes.encode(token_vectors(directions(1, 4, 1)), "4-bit")


@pytest.mark.parametrize("form", token_codes.FORMATS)
def test_a_store_reads_every_format(tmp_path: Path, form: str) -> None:
    opened = SqliteStore(tmp_path / "kb.sqlite", token_format=form)
    put(opened, "a", "one", "two")
    spec = ModelSpec("tiny", "1", 2, frozenset({"dense", "tokens"}), 64)
    model_id = opened.vectors.use_model(spec).model_id
    given_rows = directions(9, 64, 3)
    encoding = Encoding(dense=array("f", [1.0, 0.0]), tokens=token_vectors(given_rows))
    write_vectors(opened, model_id, [(2, encoding)])
    found = opened.vectors.token_vectors(model_id, [1, 2])
    assert list(found) == [2]
    rows = np.asarray(found[2].data).reshape(9, 64)
    assert (rows * given_rows).sum(axis=1).mean() > CLOSE[form]
    opened.close()
