"""The layouts of exports on hubs, each as a tiny model of BGE-M3's architecture."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kb.config import Config
from kb.errors import ModelBroken, ModelMissing
from kb.models import info, manifest, verify
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.pull import pull
from kb.types import Encoding
from tests.models import make_tiny_m3, torch_files
from tests.models.conftest import open_encoder

TEXT = "the radio slots were made wider, 数据库备份 § and slots"
PARTS = frozenset({"dense", "sparse", "tokens"})
HUB = {"dense_vecs": "sentence_embedding", "last_hidden_state": "token_embeddings"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Encoding:
    folder = make_tiny_m3.lay(tmp_path_factory.mktemp("exports") / "m3")
    return encode(open_encoder(folder))


def encode(encoder: OnnxEncoder) -> Encoding:
    return encoder.encode([TEXT], want=PARTS)[0]


def check(encoding: Encoding, expected: Encoding) -> None:
    """Both have the same vectors."""
    assert encoding.dense is not None
    assert encoding.tokens is not None
    assert expected.tokens is not None
    assert encoding.dense.tolist() == pytest.approx(list(expected.dense or ()), abs=1e-5)
    assert encoding.sparse == pytest.approx(expected.sparse, abs=1e-4)
    rows = [np.frombuffer(one.data, "f4") for one in (encoding.tokens, expected.tokens)]
    assert rows[0] == pytest.approx(rows[1], abs=1e-4)


def lay_hub(folder: Path) -> Path:
    """BAAI/bge-m3: a folder `onnx` with hidden states, heads and configuration above it."""
    make_tiny_m3.lay(folder / "onnx", outputs=tuple(HUB), names=HUB)
    make_tiny_m3.lay_heads(folder)
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / "onnx" / name, folder)
    return folder


# --- outputs by name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ("dense_vecs", "sparse_vecs", "colbert_vecs"),
        ("dense_embeddings", "sparse_weights", "colbert_vectors"),
        ("dense_embeddings", "sparse_embeddings", "colbert_embeddings"),
        ("dense", "sparse", "colbert"),
    ],
)
def test_three_outputs(tmp_path: Path, names: tuple[str, ...], expected: Encoding) -> None:
    other = {old: new for old, new in zip(make_tiny_m3.OUTPUTS, names, strict=True) if old != new}
    folder = make_tiny_m3.lay(tmp_path / "m3", names=other)
    assert dict(manifest.read(folder).outputs) == dict(
        zip(("dense", "sparse", "tokens"), names, strict=True)
    )
    check(encode(open_encoder(folder)), expected)
    assert info(Config(), str(folder)).missing == ()


@pytest.mark.parametrize("graph", ["model_quantized.onnx", "bge_m3_model.onnx"])
@pytest.mark.parametrize("below", [True, False])
def test_other_names_of_graphs(tmp_path: Path, graph: str, below: bool, expected: Encoding) -> None:
    folder = make_tiny_m3.lay(tmp_path / "m3", graph=graph)
    if below:  # the graph and its weights in a separate folder
        (folder / "onnx").mkdir()
        for name in (graph, f"{graph}_data"):
            shutil.move(folder / name, folder / "onnx")
    found = manifest.read(folder)
    assert (found.spec.name, found.graph) == ("m3", graph)
    check(encode(OnnxEncoder(found)), expected)


# --- separate heads -------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["", "onnx"])
def test_the_layout_of_the_hub(tmp_path: Path, chosen: str, expected: Encoding) -> None:
    found = manifest.read(lay_hub(tmp_path / "bge-m3") / chosen)
    assert found.spec.name == "bge-m3"
    assert found.spec.gives == PARTS
    assert dict(found.heads) == {"sparse": "sparse_linear.pt", "tokens": "colbert_linear.pt"}
    check(encode(OnnxEncoder(found)), expected)


def test_hidden_states_alone(tmp_path: Path, expected: Encoding) -> None:
    """The dense vector is that of the first token, because the heads show that it is BGE-M3."""
    folder = make_tiny_m3.lay(tmp_path / "m3", outputs=("last_hidden_state",))
    with pytest.raises(ModelBroken, match="no dense output") as error:
        manifest.read(folder)
    assert "1_Pooling/config.json" in error.value.hint
    make_tiny_m3.lay_heads(folder)
    check(encode(open_encoder(folder)), expected)


@pytest.mark.parametrize("first", [True, False])
def test_the_pooling_of_sentence_transformers(tmp_path: Path, first: bool) -> None:
    folder = make_tiny_m3.lay(tmp_path / "m3", outputs=("last_hidden_state",))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": first}))
    if first:
        assert manifest.read(folder).spec.gives == {"dense"}
        assert len(encode(open_encoder(folder)).dense or ()) == make_tiny_m3.HIDDEN
    else:
        with pytest.raises(ModelBroken, match="no dense output"):
            manifest.read(folder)


def test_heads_are_part_of_the_version(tmp_path: Path) -> None:
    folder = lay_hub(tmp_path / "m3")
    before = manifest.read(folder).spec.version
    other = {"weight": np.ones((1, make_tiny_m3.HIDDEN), "<f4"), "bias": np.zeros(1, "<f4")}
    torch_files.write(folder / "sparse_linear.pt", other)
    assert manifest.read(folder).spec.version != before


def test_a_head_without_a_bias(tmp_path: Path) -> None:
    folder = lay_hub(tmp_path / "m3")
    weight = np.ones((1, make_tiny_m3.HIDDEN), "<f2")
    torch_files.write(folder / "sparse_linear.pt", {"weight": weight})
    assert encode(open_encoder(folder)).sparse is not None


@pytest.mark.parametrize(
    "state",
    [
        {"bias": np.zeros(1, "<f4")},
        {"weight": np.ones((2, make_tiny_m3.HIDDEN), "<f4")},
        {"weight": np.ones((1, 7), "<f4")},
        {"weight": np.ones((1, make_tiny_m3.HIDDEN), "<f4"), "bias": np.zeros(2, "<f4")},
        {"weight": np.full((1, make_tiny_m3.HIDDEN), np.nan, "<f4")},
    ],
)
def test_other_heads_are_refused(tmp_path: Path, state: dict[str, np.ndarray]) -> None:
    folder = lay_hub(tmp_path / "m3")
    torch_files.write(folder / "sparse_linear.pt", state)
    with pytest.raises(ModelBroken, match="head"):
        encode(open_encoder(folder))


def test_a_head_that_is_no_file_of_torch(tmp_path: Path) -> None:
    folder = lay_hub(tmp_path / "m3")
    (folder / "sparse_linear.pt").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelBroken, match=r"sparse_linear\.pt cannot be read"):
        encode(open_encoder(folder))


# --- missing parts --------------------------------------------------------------------------------


def test_missing_heads_are_named(tmp_path: Path) -> None:
    folder = make_tiny_m3.lay(tmp_path / "m3", outputs=tuple(HUB), names=HUB)
    (missing,) = info(Config(), str(folder)).missing
    assert missing.startswith("sparse vectors and token vectors: for BGE-M3, copy sparse_linear.pt")
    make_tiny_m3.lay_heads(folder)
    (folder / "colbert_linear.pt").unlink()
    (missing,) = info(Config(), str(folder)).missing
    assert missing.startswith("token vectors: for BGE-M3, copy colbert_linear.pt from https://")


def test_missing_outputs_are_named(tmp_path: Path) -> None:
    folder = make_tiny_m3.lay(tmp_path / "m3", outputs=("dense_vecs",))
    (missing,) = info(Config(), str(folder)).missing
    assert "the graph computes only dense_vecs" in missing


def test_a_tokenizer_in_onnx(tmp_path: Path) -> None:
    folder = make_tiny_m3.lay(tmp_path / "m3", graph="bge_m3_model.onnx")
    (folder / "tokenizer.json").rename(folder / "bge_m3_tokenizer.onnx")
    with pytest.raises(ModelMissing, match=r"tokenizer\.json") as error:
        manifest.read(folder)
    assert "kb cannot use a tokenizer in ONNX format" in error.value.hint


# --- pulled ---------------------------------------------------------------------------------------


def test_a_pulled_export_has_all_files_in_one_folder(tmp_path: Path, expected: Encoding) -> None:
    source = lay_hub(tmp_path / "bge-m3")
    pulled = pull(Config(), str(source), to=tmp_path / "pulled")
    assert {path.name for path in pulled.folder.iterdir()} == {
        "model.json", "model.onnx", "model.onnx_data", "tokenizer.json", "sparse_linear.pt",
        "colbert_linear.pt",
    }  # fmt: skip
    shutil.rmtree(source)
    again = manifest.read(tmp_path / "pulled")
    assert dict(again.heads) == dict(pulled.heads)
    check(encode(OnnxEncoder(again)), expected)
    assert verify(Config(), str(tmp_path / "pulled")).problem is None


def test_hidden_states_and_other_graphs_are_pulled(tmp_path: Path, expected: Encoding) -> None:
    source = make_tiny_m3.lay(
        tmp_path / "m3", outputs=("last_hidden_state",), graph="model_quantized.onnx"
    )
    make_tiny_m3.lay_heads(source)
    pulled = pull(Config(), str(source), to=tmp_path / "pulled")
    assert (pulled.graph, pulled.first_token) == ("model_quantized.onnx", True)
    check(encode(OnnxEncoder(pulled)), expected)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("heads", {"dense": "sparse_linear.pt"}, "heads cannot have 'dense'"),
        ("heads", {"sparse": "other.pt"}, "not among the files"),
        ("heads", [], "heads cannot be"),
        ("pooling", "mean", "pooling cannot be 'mean'"),
        ("graph", "other.onnx", "has no 'other.onnx'"),
    ],
)
def test_manifests_that_do_not_fit(tmp_path: Path, field: str, value: object, why: str) -> None:
    folder = lay_hub(tmp_path / "m3")
    told = manifest.as_json(manifest.read(folder)) | {field: value}
    with pytest.raises(ModelBroken, match=why):
        manifest.parse(folder, told, "model.json")
