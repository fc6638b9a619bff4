from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.models.onnx_encoder import CPU_BATCH, OnnxEncoder
from kb.models.onnx_session import CPU
from kb.types import Encoding
from tests.models import tiny
from tests.models.conftest import open_encoder

ALL = frozenset({"dense", "sparse", "tokens"})
TEXTS = [
    "the retry storm", "radio slots and the clock drift", "salt water in the hull", "a", "",
    "copper guard, wiper, mooring: dissolved oxygen sensors were drifting", "buoy " * 60,
    "?!", "battery sleep window",
]  # fmt: skip
Copied = Callable[[], Path]


# --- outputs --------------------------------------------------------------------------------------


def test_three_parts_in_one_pass(encoder: OnnxEncoder) -> None:
    (given_,) = encoder.encode(["the retry storm, the retries"], want=ALL)
    assert given_.dense is not None
    assert given_.sparse is not None
    assert given_.tokens is not None
    assert len(given_.dense) == tiny.DIMENSION
    assert math.isclose(math.hypot(*given_.dense), 1, abs_tol=1e-6)
    assert set(given_.sparse) <= {
        "the",
        "retry",
        "storm",
        "r",
        "##e",
        "##t",
        "##r",
        "##i",
        "##s",
        "##ies",
    }
    assert all(weight > 0 for weight in given_.sparse.values())
    assert given_.tokens.dimension == tiny.TOKEN_DIMENSION
    for row in np.frombuffer(given_.tokens.data, np.float32).reshape(-1, tiny.TOKEN_DIMENSION):
        assert math.isclose(math.hypot(*row), 1, abs_tol=1e-6)


def test_a_term_has_its_highest_weight(encoder: OnnxEncoder) -> None:
    text = "salt storm salt buoy salt"
    raw, tokens = _raw(encoder, text, "sparse_vecs")
    (given_,) = encoder.encode([text], want={"sparse"})
    for term, weight in (given_.sparse or {}).items():
        assert weight == max(raw[at, 0] for at, token in enumerate(tokens) if token == term)
    absent = {"salt", "storm", "buoy"} - set(given_.sparse or {})
    assert all(raw[at, 0] == 0 for at, token in enumerate(tokens) if token in absent)


def _raw(encoder: OnnxEncoder, text: str, output: str) -> tuple[Any, list[str]]:
    loaded = encoder.loaded()
    tokens = loaded.tokenizer.tokens(text)
    return loaded.session.run(tokens.ids, [output])[output], tokens.texts


def test_vectors_are_the_graphs_own_normalised(encoder: OnnxEncoder) -> None:
    text = "radio buoy"
    (given_,) = encoder.encode([text], want=ALL)
    dense, _ = _raw(encoder, text, "dense_vecs")
    expected = dense / np.linalg.norm(dense)
    assert given_.dense is not None
    np.testing.assert_allclose(np.array(given_.dense), expected, rtol=1e-5)
    rows, tokens = _raw(encoder, text, "colbert_vecs")
    kept = rows[[at for at, token in enumerate(tokens) if not token.startswith("[")]]
    expected = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    assert given_.tokens is not None
    np.testing.assert_allclose(np.array(given_.tokens.data), expected.ravel(), rtol=1e-5)


def test_only_what_is_wanted(encoder: OnnxEncoder) -> None:
    assert encoder.encode(["a"])[0].sparse is None
    only = encoder.encode(["a"], want={"tokens"})[0]
    assert (only.dense, only.sparse) == (None, None)
    assert only.tokens is not None
    assert encoder.encode(["buoy " * 60], want=frozenset()) == [Encoding(truncated=14)]
    assert encoder.encode([]) == []


def test_queries_have_a_prefix_and_weights_of_their_own(encoder: OnnxEncoder) -> None:
    text = "radio buoy"
    (query,) = encoder.encode([text], as_query=True, want=ALL)
    (passage,) = encoder.encode([text], want=ALL)
    assert query.dense != passage.dense
    assert query.sparse != passage.sparse
    assert set(query.sparse or ()) <= {"radio", "buoy"}
    assert query.tokens is not None
    assert len(query.tokens) == 2
    # For the dense vector, the prefix is just text before it.
    assert encoder.encode([tiny.PREFIX + text])[0].dense == query.dense


def test_without_weights_for_queries_passages_ones_serve(tmp_path: Path) -> None:
    outputs = {part: name for part, name in tiny.OUTPUTS.items() if part != "query_sparse"}
    other = open_encoder(tiny.lay(tmp_path / "m", outputs=outputs, query_prefix=""))
    assert other.encode(["radio"], as_query=True, want=ALL) == other.encode(["radio"], want=ALL)


def test_no_words_no_terms(encoder: OnnxEncoder) -> None:
    for empty in encoder.encode(["", "?!", "東京"], want=ALL):
        assert empty.sparse == {}
        assert empty.tokens is not None
        assert len(empty.tokens) == 0
        assert empty.dense is not None


def test_truncation_is_told(encoder: OnnxEncoder) -> None:
    short, long = encoder.encode(["buoy " * 46, "buoy " * 50], want=ALL)
    assert (short.truncated, long.truncated) == (0, 4)
    assert (short.dense, short.tokens) == (long.dense, long.tokens)
    assert encoder.encode(["buoy " * 46], as_query=True)[0].truncated == 3


def test_other_graphs(tmp_path: Path) -> None:
    for name, settings in {"float": {"int8": False}, "no-types": {"token_types": False}}.items():
        other = open_encoder(tiny.lay(tmp_path / name, **settings))  # type: ignore[arg-type]
        assert other.encode(["radio"], want=ALL)[0].sparse


def test_a_list_is_asked_for(encoder: OnnxEncoder) -> None:
    with pytest.raises(InvalidRequest):
        encoder.encode("radio")


def test_progress(encoder: OnnxEncoder) -> None:
    seen: list[int] = []
    encoder.encode(TEXTS, on_progress=seen.append)
    assert seen == list(range(1, len(TEXTS) + 1))


def test_the_unit_of_work(encoder: OnnxEncoder) -> None:
    assert (encoder.provider, encoder.batch_size) == (CPU, CPU_BATCH)


# --- the same text, the same bits -----------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(encoder: OnnxEncoder) -> dict[str, Encoding]:
    return {text: encoder.encode([text], want=ALL)[0] for text in TEXTS}


def test_a_batch_would_give_other_vectors(encoder: OnnxEncoder) -> None:
    """The reason why texts are not batched: the graph computes its scales over the whole batch."""
    loaded = encoder.loaded()
    rows = [loaded.tokenizer.tokens(text).ids for text in TEXTS[:3]]
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows])
    feeds = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}
    feeds["token_type_ids"] = np.zeros_like(ids)
    (batch,) = loaded.session.runtime.run(["dense_vecs"], feeds)
    single = [loaded.session.run(row, ["dense_vecs"])["dense_vecs"] for row in rows]
    assert not any(np.array_equal(*pair) for pair in zip(batch, single, strict=True))
    np.testing.assert_allclose(batch, np.array(single), atol=0.2)


@given(company=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12))
def test_in_any_company(
    encoder: OnnxEncoder, alone: dict[str, Encoding], company: list[str]
) -> None:
    assert encoder.encode(company, want=ALL) == [alone[text] for text in company]


def test_from_any_thread(encoder: OnnxEncoder, alone: dict[str, Encoding]) -> None:
    together = threading.Barrier(8)

    def encode(number: int) -> list[Encoding]:
        together.wait(timeout=60)
        return encoder.encode(TEXTS[number:] + TEXTS[:number], want=ALL)

    with ThreadPoolExecutor(8) as pool:
        for number, encodings in enumerate(pool.map(encode, range(8))):
            assert encodings == [alone[text] for text in TEXTS[number:] + TEXTS[:number]]


@pytest.mark.parametrize("threads", [1, 3])
def test_on_any_number_of_threads(
    tiny_folder: Path, alone: dict[str, Encoding], threads: int
) -> None:
    other = open_encoder(tiny_folder, threads=threads)
    assert other.encode(TEXTS, want=ALL) == list(alone.values())


def test_part_by_part(encoder: OnnxEncoder, alone: dict[str, Encoding]) -> None:
    for text, whole in alone.items():
        assert encoder.encode([text])[0].dense == whole.dense
        assert encoder.encode([text], want={"sparse"})[0].sparse == whole.sparse
        assert encoder.encode([text], want={"tokens"})[0].tokens == whole.tokens


# --- broken models --------------------------------------------------------------------------------


def broken(folder: Path, **want: Any) -> ModelBroken:
    with pytest.raises(ModelBroken) as error:
        open_encoder(folder).encode(["radio buoy"], **want)
    assert error.value.hint
    return error.value


def test_nothing_is_loaded_before_it_is_needed(copied: Copied) -> None:
    folder = copied()
    lazy = open_encoder(folder)
    (folder / "model.onnx").unlink()
    assert lazy.spec.name == "tiny"
    for _ in range(2):
        with pytest.raises(ModelMissing, match=r"a file of tiny is missing: .*model\.onnx"):
            lazy.encode(["radio"])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_cut_off(copied: Copied, name: str) -> None:
    folder = copied()
    (folder / name).write_bytes((folder / name).read_bytes()[:1000])
    assert "has 1,000 bytes instead of" in broken(folder).message


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_of_the_right_size_that_cannot_be_loaded(copied: Copied, name: str) -> None:
    folder = copied()
    (folder / name).write_bytes(b"\xff" * (folder / name).stat().st_size)
    assert "its SHA-256 is" in broken(folder).message


def test_a_file_that_never_was_a_model(tmp_path: Path) -> None:
    folder = tiny.lay(tmp_path / "m")
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).write_bytes(b"not a model")
        said = tiny.read_manifest(folder)
        said["files"][name] = {"bytes": 11, "sha256": tiny._facts(folder / name)["sha256"]}
        tiny.write_manifest(folder, said)
        assert f"{name} cannot be loaded" in broken(folder).message
        tiny.lay(folder)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"outputs": {"dense": "sentence"}}, "no output 'sentence' for dense"),
        ({"outputs": tiny.OUTPUTS | {"tokens": "x"}}, "no output 'x' for tokens"),
        ({"dimension": 384}, "dense has 32 dimensions, not 384"),
        ({"token_dimension": 64}, "tokens has 8 dimensions, not 64"),
        ({"outputs": {"dense": "colbert_vecs"}}, "dense has 8 dimensions, not 32"),
        ({"max_tokens": 1}, "no room"),
    ],
)
def test_another_graph_than_the_manifest_says(
    tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    assert told in broken(tiny.lay(tmp_path / "m", **said)).message


def test_a_shape_that_only_shows_when_it_runs(tmp_path: Path) -> None:
    folder = tiny.lay(tmp_path / "m", outputs={"dense": "colbert_vecs"}, dimension=8)
    assert "dense has the shape (4, 8), not (8,)" in broken(folder).message


@pytest.mark.parametrize(
    ("weights", "part", "told"),
    [
        ({"to_dense": 0.0}, "dense", "a zero vector"),
        ({"to_dense": math.nan}, "dense", "not finite"),
        ({"to_sparse": math.inf}, "sparse", "not finite"),
        ({"to_tokens": 0.0}, "tokens", "a zero vector"),
        ({"to_tokens": math.nan}, "tokens", "not finite"),
    ],
)
def test_vectors_that_are_none(
    tmp_path: Path, weights: dict[str, float], part: str, told: str
) -> None:
    folder = tiny.lay(tmp_path / "m", int8=False, weights=weights)
    assert told in broken(folder, want={part}).message


def test_weights_of_zero_are_left_out(tmp_path: Path) -> None:
    other = open_encoder(tiny.lay(tmp_path / "m", int8=False, weights={"to_sparse": 0.0}))
    assert other.encode(["radio buoy"], want={"sparse"})[0].sparse == {}


def test_vectors_are_buffers(encoder: OnnxEncoder) -> None:
    dense = encoder.encode(["radio"])[0].dense
    assert isinstance(dense, array)
    assert dense.typecode == "f"
