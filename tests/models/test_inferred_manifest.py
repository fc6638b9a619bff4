"""An export like BGE-M3's on a hub: tiny, with random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tokenizers import Tokenizer

from kb import KnowledgeBase, models
from kb.config import Config
from kb.errors import ModelBroken, ModelMissing
from kb.locations import cache_folder
from kb.models import checksums, manifest, onnx_file
from kb.models.onnx_encoder import OnnxEncoder
from tests.models import make_tiny_m3, tiny
from tests.models.conftest import open_encoder

TEXT = "the radio slots were made wider, 数据库备份 § and slots"
PARTS = frozenset({"dense", "sparse", "tokens"})


@pytest.fixture(scope="session")
def m3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_m3.lay(tmp_path_factory.mktemp("exports") / "tiny-m3")


@pytest.fixture
def broken(m3: Path, tmp_path: Path) -> Callable[[], Path]:
    return lambda: Path(shutil.copytree(m3, tmp_path / "broken"))


@pytest.fixture(scope="session")
def encoder(m3: Path) -> OnnxEncoder:
    return open_encoder(m3)


# --- inference from the files ---------------------------------------------------------------------


def test_its_manifest(m3: Path) -> None:
    found = manifest.read(m3)
    assert dict(found.outputs) == {
        "dense": "dense_vecs", "sparse": "sparse_vecs", "tokens": "colbert_vecs",
    }  # fmt: skip
    spec = found.spec
    assert (spec.name, spec.dimension, spec.token_dimension) == ("tiny-m3", 32, 32)
    assert spec.max_tokens == 64  # 66 places, of which the first two are never used
    assert spec.gives == PARTS
    assert spec.scripts == ()  # any
    names = [file.name for file in found.files]
    assert names == ["model.onnx", "model.onnx_data", "tokenizer.json"]


def test_the_version_is_what_the_files_are(m3: Path, broken: Callable[[], Path]) -> None:
    other = broken()
    assert manifest.read(m3).spec.version == manifest.read(other).spec.version
    data = bytearray((other / "model.onnx_data").read_bytes())
    data[-1] ^= 1
    (other / "model.onnx_data").write_bytes(data)
    assert manifest.read(m3).spec.version != manifest.read(other).spec.version


def test_weights_inside_of_the_graph(tmp_path: Path, encoder: OnnxEncoder) -> None:
    inside = open_encoder(make_tiny_m3.lay(tmp_path / "inside", external=False))
    assert [file.name for file in inside.manifest.files] == ["model.onnx", "tokenizer.json"]
    assert inside.encode([TEXT]) == encoder.encode([TEXT])


def test_an_export_that_gives_dense_vectors_only(tmp_path: Path) -> None:
    folder = make_tiny_m3.lay(tmp_path / "dense", outputs=("dense_vecs",))
    assert manifest.read(folder).spec.gives == {"dense"}


def test_a_folder_called_onnx_has_the_name_of_its_parent(tmp_path: Path) -> None:
    assert manifest.read(make_tiny_m3.lay(tmp_path / "m3" / "onnx")).spec.name == "m3"


def test_a_manifest_wins(broken: Callable[[], Path]) -> None:
    folder = broken()
    told = manifest.as_json(manifest.read(folder)) | {"name": "mine", "query_prefix": "q: "}
    tiny.write_manifest(folder, told)
    assert manifest.read(folder).spec.name == "mine"
    assert manifest.read(folder).spec.query_prefix == "q: "
    assert OnnxEncoder(manifest.read(folder)).encode(["radio"])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json", "model.onnx_data"])
def test_a_file_that_is_missing(broken: Callable[[], Path], name: str) -> None:
    folder = broken()
    (folder / name).unlink()
    with pytest.raises(ModelMissing, match=name) as caught:
        manifest.read(folder)
    assert "model.json" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[]", "is not a JSON object"),
        ("{", "cannot be read"),
        ("{}", "has no valid max_position_embeddings: it is None"),
        ('{"max_position_embeddings": true}', "it is True"),
        ('{"max_position_embeddings": 2, "model_type": "xlm-roberta"}', "is too small"),
    ],
)
def test_a_config_that_does_not_tell(broken: Callable[[], Path], said: str, why: str) -> None:
    folder = broken()
    (folder / "config.json").write_text(said)
    with pytest.raises(ModelBroken, match=why):
        manifest.read(folder)


def test_a_graph_without_a_dense_vector(tmp_path: Path) -> None:
    folder = make_tiny_m3.lay(tmp_path / "bare", outputs=("last_hidden_state",))
    with pytest.raises(ModelBroken, match="its outputs are last_hidden_state"):
        manifest.read(folder)


def test_an_output_of_another_shape(broken: Callable[[], Path]) -> None:
    folder = broken()
    model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 7
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelBroken, match="dense_vecs has 3 axes"):
        manifest.read(folder)


def test_weights_that_lie_elsewhere(broken: Callable[[], Path]) -> None:
    folder = broken()
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes().replace(b"model.onnx_data", b"../nx_data_file"))
    with pytest.raises(ModelBroken, match="outside its folder"):
        manifest.read(folder)


@pytest.mark.parametrize("cut", [1, 100, 3000])
def test_what_is_no_graph(broken: Callable[[], Path], cut: int) -> None:
    folder = broken()
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ModelBroken, match=r"model\.onnx cannot be read"):
        manifest.read(folder)


def test_an_empty_graph(broken: Callable[[], Path]) -> None:
    folder = broken()
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelBroken):
        manifest.read(folder)


def test_a_graph_file_says_what_onnx_says(m3: Path) -> None:
    told = onnx_file.read(m3 / "model.onnx")
    model = onnx.load(str(m3 / "model.onnx"), load_external_data=False)
    assert told.inputs == tuple(each.name for each in model.graph.input)
    assert {name: len(shape) for name, shape in told.outputs.items()} == {
        each.name: len(each.type.tensor_type.shape.dim) for each in model.graph.output
    }
    assert told.outputs["dense_vecs"] == (None, 32)
    assert told.outputs["sparse_vecs"] == (None, None, 1)
    assert told.external == ("model.onnx_data",)


def test_constants_may_lie_in_files_too(tmp_path: Path) -> None:
    """Some exports store large constants in separate files."""
    from onnx import TensorProto, helper

    constant = helper.make_tensor("c", TensorProto.FLOAT, [1], [0.0])
    constant.ClearField("float_data")
    constant.data_location = TensorProto.EXTERNAL
    constant.external_data.add(key="location", value="Constant_7")
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["x"], value=constant)], "g", [], []
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner)
    model = helper.make_model(helper.make_graph([node], "outer", [], []))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert onnx_file.read(tmp_path / "model.onnx").external == ("Constant_7",)


# --- encodings ------------------------------------------------------------------------------------


def test_term_weights_by_hand(m3: Path, encoder: OnnxEncoder) -> None:
    """The maximum of each token, by its own text; special and unknown ones are dropped."""
    (found,) = encoder.encode([TEXT], want=PARTS)
    pieces = Tokenizer.from_file(str(m3 / "tokenizer.json")).encode(TEXT)
    raw = encoder.loaded().session.run(pieces.ids, ["sparse_vecs"])["sparse_vecs"][:, 0]
    wanted: dict[str, float] = {}
    for number, token, weight in zip(pieces.ids, pieces.tokens, raw.tolist(), strict=True):
        if number > 3 and token not in ("▁", ",") and weight > 0:
            wanted[token] = max(weight, wanted.get(token, 0.0))
    assert found.sparse == wanted
    assert {"▁radio", "▁slot", "数据"} & set(wanted)
    assert pieces.tokens.count("▁slot") == 2
    assert 3 in pieces.ids


def test_a_vector_for_each_token_but_the_special_ones(m3: Path, encoder: OnnxEncoder) -> None:
    """The graph returns none for the first token; each token still gets its own."""
    (found,) = encoder.encode(["radio slots"], want=PARTS)
    pieces = Tokenizer.from_file(str(m3 / "tokenizer.json")).encode("radio slots")
    assert pieces.tokens == ["<s>", "▁radio", "▁slot", "s", "</s>"]
    raw = encoder.loaded().session.run(pieces.ids, ["colbert_vecs"])["colbert_vecs"]
    assert raw.shape == (4, 32)
    assert found.tokens is not None
    rows = np.array(found.tokens.data).reshape(-1, 32)
    np.testing.assert_allclose(rows, raw[:3], atol=1e-6)


def test_the_dense_vector(encoder: OnnxEncoder) -> None:
    (found,) = encoder.encode([TEXT])
    assert found.dense is not None
    assert sum(value * value for value in found.dense) == pytest.approx(1)
    together = encoder.encode([TEXT, "salt water", "数据"])
    assert together[0] == found


def test_a_long_text_is_cut(encoder: OnnxEncoder) -> None:
    (found,) = encoder.encode(["radio" + " radio" * 99])
    assert found.truncated == 100 - 62


def test_a_store_by_it(m3: Path, tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=str(m3)) as kb:
        kb.add("the radio slots were made wider")
        kb.add("数据库备份")
        assert kb.embed().embedded == 2
        (model,) = kb._store.vectors.models()
        assert (model.sparse, model.tokens) == (2, 2)
        assert kb.search("radio", mode="sparse").hits[0].doc_id == 1
        assert kb.search("数据库", mode="vector").degraded == ()
    assert models.verify(Config(), str(m3)).name == "tiny-m3"


# --- cached hashes --------------------------------------------------------------------------------


def test_large_files_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"one")
    first = checksums.cached_sha256(path, large_bytes=1)
    assert first == checksums.sha256_of(path)
    memory = json.loads((cache_folder() / "hashes.json").read_text())
    memory[str(path)]["sha256"] = "remembered"
    (cache_folder() / "hashes.json").write_text(json.dumps(memory))
    assert checksums.cached_sha256(path, large_bytes=1) == "remembered"
    assert checksums.cached_sha256(path) == first  # small ones are read each time
    path.write_bytes(b"three")
    assert checksums.cached_sha256(path, large_bytes=1) == checksums.sha256_of(path)
    memory = json.loads((cache_folder() / "hashes.json").read_text())
    del memory[str(path)]["sha256"]
    for damaged in ("no JSON", "[" * 100_000, json.dumps(memory)):
        (cache_folder() / "hashes.json").write_text(damaged)
        assert checksums.cached_sha256(path, large_bytes=1) == checksums.sha256_of(path)
