from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kb.models import onnx_weights
from tests.models import make_tiny_m3


def test_the_arrays_are_those_of_onnx(tiny_folder: Path) -> None:
    path = tiny_folder / "model.onnx"
    graph = onnx.load(str(path)).graph
    weights = onnx_weights.read(path)
    expected = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    assert weights.arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert weights.arrays[name].dtype == array.dtype
        assert np.array_equal(weights.arrays[name], array)
    assert [(node.name, node.kind, list(node.inputs)) for node in weights.nodes] == [
        (node.name, node.op_type, list(node.input)) for node in graph.node
    ]


def test_numbers_in_lists(tmp_path: Path) -> None:
    """Small tensors have lists of numbers in place of bytes."""
    tensors = [
        helper.make_tensor("floats", TensorProto.FLOAT, [2], [0.5, -2.0]),
        helper.make_tensor("bytes", TensorProto.INT8, [3], [-128, 0, 127]),
        helper.make_tensor("scalar", TensorProto.UINT8, [], [200]),
    ]
    graph = helper.make_graph([], "lists", [], [], tensors)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), str(path))
    arrays = onnx_weights.read(path).arrays
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "floats": [0.5, -2.0],
        "bytes": [-128, 0, 127],
        "scalar": 200,
    }


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(ValueError, match="not an ONNX file"):
        onnx_weights.read(path)
    folder = make_tiny_m3.lay(tmp_path / "external")
    with pytest.raises(ValueError, match="in another file"):
        onnx_weights.read(folder / "model.onnx")
