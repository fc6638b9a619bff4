"""Reads the weights and nodes of an ONNX file into numpy arrays, without the package `onnx`."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.models.onnx_file import MODEL_GRAPH, Part, every, first, text_of, varint
from kb.regular_files import open_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Field numbers of onnx.proto.
_NODE, _INITIALIZER = 1, 5  # of a graph
_NODE_INPUT, _NODE_NAME, _NODE_TYPE, _NODE_ATTRIBUTE = 1, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INTEGER = 1, 3
_DIMS, _DATA_TYPE, _FLOATS, _INTEGERS, _TENSOR_NAME, _RAW, _EXTERNAL = (
    1,
    2,
    4,
    5,
    8,
    9,
    13,
)  # of a tensor
_TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 10: "<f2"}
_NOT_ONNX = "it is not an ONNX file"


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of a graph, with its inputs and its integer attributes."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    integers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Weights:
    """The constants of a graph by name, and its nodes in order."""

    arrays: Mapping[str, NDArray[Any]]
    nodes: tuple[Node, ...]


def read(path: Path) -> Weights:
    """Read the file. Raises `ValueError` if it is not an ONNX file or keeps its weights in other
    files, and `OSError`."""
    with (
        open_file(path, links="follow") as file,
        mmap.mmap(file.descriptor, 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            graph = first(data, Part(0, len(data)), MODEL_GRAPH)
            if graph is None:
                raise ValueError(_NOT_ONNX)
            nodes = tuple(_node(data, part) for part in every(data, graph, _NODE))
            return Weights(dict(_arrays(data, graph)), nodes)
        except (IndexError, UnicodeDecodeError) as error:
            raise ValueError(_NOT_ONNX) from error


def _node(data: mmap.mmap, node: Part) -> Node:
    integers = {
        _name(data, part, _ATTRIBUTE_NAME): number.number
        for part in every(data, node, _NODE_ATTRIBUTE)
        if (number := first(data, part, _ATTRIBUTE_INTEGER)) is not None
    }
    inputs = tuple(text_of(data, part) for part in every(data, node, _NODE_INPUT))
    return Node(_name(data, node, _NODE_NAME), _name(data, node, _NODE_TYPE), inputs, integers)


def _arrays(data: mmap.mmap, graph: Part) -> Iterator[tuple[str, NDArray[Any]]]:
    for tensor in every(data, graph, _INITIALIZER):
        name = _name(data, tensor, _TENSOR_NAME)
        if first(data, tensor, _EXTERNAL) is not None:
            raise ValueError(f"its weights are in another file: {name}")
        values = _values(data, tensor)
        if values is not None:
            yield name, values.reshape(tuple(_numbers(data, tensor, _DIMS)))


def _values(data: mmap.mmap, tensor: Part) -> NDArray[Any] | None:
    """The values of a tensor: its bytes, or a list of numbers; None for types without weights."""
    import numpy as np

    kind = first(data, tensor, _DATA_TYPE)
    if kind is None or kind.number not in _TYPES:
        return None
    dtype = np.dtype(_TYPES[kind.number])
    if (raw := first(data, tensor, _RAW)) is not None:
        return np.frombuffer(data[raw.start : raw.end], dtype)
    if dtype.kind == "f":
        parts = every(data, tensor, _FLOATS)
        return np.frombuffer(b"".join(data[part.start : part.end] for part in parts), "<f4")
    return (
        np.array(list(_numbers(data, tensor, _INTEGERS)), np.uint64).astype(np.int64).astype(dtype)
    )


def _numbers(data: mmap.mmap, tensor: Part, field: int) -> Iterator[int]:
    """The numbers of a repeated field, which may be packed into one."""
    for part in every(data, tensor, field):
        if not part.is_bytes:
            yield part.number
            continue
        at = part.start
        while at < part.end:
            number, at = varint(data, at)
            yield number


def _name(data: mmap.mmap, part: Part, field: int) -> str:
    return text_of(data, first(data, part, field) or Part(0, 0))
