from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import ModelBroken, ModelError, ModelMissing
from kb.models import manifest
from tests.models import tiny

Copied = Callable[[], Path]


def test_what_it_says(tiny_folder: Path) -> None:
    read = manifest.read(tiny_folder)
    assert read.spec.name == "tiny"
    assert read.spec.gives == {"dense", "sparse", "tokens"}
    assert (read.spec.dimension, read.spec.token_dimension) == (32, 8)
    assert read.spec.query_prefix == tiny.PREFIX
    assert read.outputs == tiny.OUTPUTS
    assert read.licence == "MIT"
    on_disk = [(tiny_folder / file.name).stat().st_size for file in read.files]
    assert read.size_bytes == sum(on_disk)
    manifest.check_hashes(read)


def test_a_model_of_dense_vectors_only(copied: Copied) -> None:
    folder = copied()
    said = tiny.read_manifest(folder) | {"outputs": {"dense": "dense_vecs"}}
    del said["token_dimension"]
    tiny.write_manifest(folder, said)
    spec = manifest.read(folder).spec
    assert spec.gives == {"dense"}
    assert spec.token_dimension is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"format": 2}, "format is 2"),
        ({"name": ""}, "name is empty"),
        ({"dimension": 0}, "dimension cannot be 0"),
        ({"dimension": True}, "dimension cannot be True"),
        ({"dimension": "384"}, "dimension cannot be '384'"),
        ({"outputs": {"sparse": "s"}}, "'dense'"),
        ({"outputs": {"dense": "d", "colbert": "c"}}, "'colbert' is not one of the outputs"),
        ({"outputs": {"dense": "d", "query_sparse": "c"}}, "query_sparse without sparse"),
        ({"outputs": ["dense"]}, "outputs cannot be"),
        ({"files": {}}, "model.onnx"),
        ({"files": {"model.onnx": 3, "tokenizer.json": 3}}, "not an object"),
    ],
)
def test_one_that_is_none(copied: Copied, said: dict[str, Any], told: str) -> None:
    folder = copied()
    tiny.write_manifest(folder, tiny.read_manifest(folder) | said)
    with pytest.raises(ModelBroken) as broken:
        manifest.read(folder)
    assert told in broken.value.message
    assert broken.value.hint


@pytest.mark.parametrize("name", ["../model.onnx", "/etc/passwd", "a/b", "..\\x"])
def test_files_are_beside_it(copied: Copied, name: str) -> None:
    folder = copied()
    said = tiny.read_manifest(folder)
    said["files"][name] = said["files"]["model.onnx"]
    tiny.write_manifest(folder, said)
    with pytest.raises(ModelBroken, match="is not a valid file name"):
        manifest.read(folder)


@given(data=st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
))  # fmt: skip
def test_anything_else_is_an_error_with_a_hint(tmp_path: Path, data: Any) -> None:
    tiny.write_manifest(tmp_path, data)
    with pytest.raises(ModelBroken) as broken:
        manifest.read(tmp_path)
    assert broken.value.hint


def test_no_manifest(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelMissing, match=r"it has no model\.json"):
            manifest.read(folder)
    (tmp_path / "model.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelBroken, match="is not valid JSON"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_files_that_are_not_what_they_should_be(copied: Copied, name: str) -> None:
    folder = copied()
    read, path = manifest.read(folder), folder / name
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    for check in (manifest.check_sizes, manifest.check_hashes):
        with pytest.raises(ModelBroken, match="bytes instead of"):
            check(read)
    path.write_bytes(data[:-1] + b"\x00")
    manifest.check_sizes(read)
    with pytest.raises(ModelBroken, match="its SHA-256 is"):
        manifest.check_hashes(read)
    path.unlink()
    for check in (manifest.check_sizes, manifest.check_hashes):
        with pytest.raises(ModelMissing) as missing:
            check(read)
        assert isinstance(missing.value, ModelError)
        assert str(path) in missing.value.message


def test_scripts_that_a_model_reads(copied: Copied) -> None:
    folder = copied()
    assert manifest.read(folder).spec.scripts == ()
    said = tiny.read_manifest(folder)
    tiny.write_manifest(folder, {**said, "scripts": ["Latin", "Greek"]})
    assert manifest.read(folder).spec.scripts == ("Latin", "Greek")
    for bad in ("Latin", [""], [1], {"Latin": 1}, None):
        tiny.write_manifest(folder, {**said, "scripts": bad})
        with pytest.raises(ModelBroken, match="scripts cannot be"):
            manifest.read(folder)


def test_a_judge_gives_a_score_and_nothing_else(copied: Copied) -> None:
    folder = copied()
    said = tiny.read_manifest(folder) | {"outputs": {"score": "scores"}}
    del said["dimension"]
    tiny.write_manifest(folder, said)
    spec = manifest.read(folder).spec
    assert (spec.is_judge, spec.dimension) == (True, 0)
    assert spec.gives == {"score"}
    tiny.write_manifest(folder, said | {"outputs": {"score": "scores", "dense": "d"}})
    with pytest.raises(ModelBroken):
        manifest.read(folder)


def test_a_file_that_two_models_share(copied: Copied, tmp_path: Path) -> None:
    """It is found in the owner's folder, counts for its owner only, and is checked for both."""
    folder = copied()
    other = tmp_path / "other"
    other.mkdir()
    (folder / "tokenizer.json").rename(other / "tokenizer.json")
    said = tiny.read_manifest(folder)
    said["files"]["tokenizer.json"]["of"] = "other"
    tiny.write_manifest(folder, said)
    read = manifest.read(folder)
    assert read.path("tokenizer.json") == other / "tokenizer.json"
    assert read.size_bytes == (folder / "model.onnx").stat().st_size
    manifest.check_hashes(read)
    (other / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelBroken):
        manifest.check_sizes(read)


@pytest.mark.parametrize("of", ["..", "../other", "/etc", "a\\b", "", 3])
def test_a_shared_file_is_of_a_neighbour(copied: Copied, of: object) -> None:
    folder = copied()
    said = tiny.read_manifest(folder)
    said["files"]["tokenizer.json"]["of"] = of
    tiny.write_manifest(folder, said)
    with pytest.raises(ModelBroken):
        manifest.read(folder)
