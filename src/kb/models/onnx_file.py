"""Reads the inputs, outputs and external weight files of an ONNX file.

The file is in the protocol buffer format; this reads field by field and skips the weights. So a
graph of gigabytes takes milliseconds, and no library is needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kb.regular_files import open_file

# Field numbers of onnx.proto.
MODEL_GRAPH = 7
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12  # of a graph
_KIND, _ATTRIBUTE = 4, 5  # of a node
_TENSOR, _GRAPH, _TENSORS, _GRAPHS = 5, 6, 10, 11  # of an attribute
_EXTERNAL = 13  # of a tensor
_NAME, _TYPE = 1, 2  # of an input or output
_TENSOR_TYPE, _SHAPE, _DIM, _DIM_VALUE = 1, 2, 1, 1
_KEY, _VALUE = 1, 2  # of a key-value pair

_INT8_KINDS = frozenset({"MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"})
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The interface of a graph. `outputs` maps names to shapes, with None for a dynamic axis;
    `external` are the names of files with weights. `is_int8` means that it multiplies integers,
    which ONNX Runtime does on CPUs only."""

    inputs: tuple[str, ...]
    outputs: Mapping[str, tuple[int | None, ...]]
    external: tuple[str, ...]
    is_int8: bool = False


class Part(NamedTuple):
    """The range of bytes of a field: a message, a text or a number, which is in `number`."""

    start: int
    end: int
    number: int = 0
    is_bytes: bool = False


def read(path: Path) -> GraphFile:
    """Read the file. Raises `ValueError` if it is not an ONNX file, and `OSError`."""
    with (
        open_file(path, links="follow") as file,
        mmap.mmap(file.descriptor, 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            return _graph_file(data)
        except (IndexError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError("it is not an ONNX file") from error


def _graph_file(data: mmap.mmap) -> GraphFile:
    graph = first(data, Part(0, len(data)), MODEL_GRAPH)
    if graph is None:
        raise ValueError("it is not an ONNX file: it has no graph")
    outputs = dict(_value(data, part) for part in every(data, graph, _OUTPUT))
    inputs = tuple(_value(data, part)[0] for part in every(data, graph, _INPUT))
    external = tuple(dict.fromkeys(_external(data, graph)))
    kinds = {_kind(data, node) for node in every(data, graph, _NODE)}
    return GraphFile(inputs, outputs, external, not kinds.isdisjoint(_INT8_KINDS))


def _value(data: mmap.mmap, value: Part) -> tuple[str, tuple[int | None, ...]]:
    """The name and the shape of an input or output."""
    name = first(data, value, _NAME) or Part(0, 0)
    shape: Part | None = value
    for field in (_TYPE, _TENSOR_TYPE, _SHAPE):
        shape = first(data, shape, field) if shape is not None else None
    dims = every(data, shape, _DIM) if shape is not None else ()
    lengths = (first(data, dim, _DIM_VALUE) for dim in dims)
    return text_of(data, name), tuple(None if one is None else one.number for one in lengths)


def _external(data: mmap.mmap, graph: Part) -> Iterator[str]:
    """The external files of a graph and its subgraphs. Initializers and attributes of constants
    hold weights."""
    tensors = list(every(data, graph, _INITIALIZER))
    for node in every(data, graph, _NODE):
        for attribute in every(data, node, _ATTRIBUTE):
            for number, part in fields(data, attribute):
                if number in (_TENSOR, _TENSORS):
                    tensors.append(part)
                elif number in (_GRAPH, _GRAPHS):
                    yield from _external(data, part)
    for tensor in tensors:
        pairs = (_pair(data, part) for part in every(data, tensor, _EXTERNAL))
        yield from (value for key, value in pairs if key == "location")


def _kind(data: mmap.mmap, node: Part) -> str:
    return text_of(data, first(data, node, _KIND) or Part(0, 0))


def _pair(data: mmap.mmap, part: Part) -> tuple[str, str]:
    key, value = (first(data, part, field) or Part(0, 0) for field in (_KEY, _VALUE))
    return text_of(data, key), text_of(data, value)


# --- the format -----------------------------------------------------------------------------------


def text_of(data: mmap.mmap, part: Part) -> str:
    return data[part.start : part.end].decode()


def first(data: mmap.mmap, part: Part, field: int) -> Part | None:
    return next(every(data, part, field), None)


def every(data: mmap.mmap, part: Part, field: int) -> Iterator[Part]:
    return (value for number, value in fields(data, part) if number == field)


def fields(data: mmap.mmap, part: Part) -> Iterator[tuple[int, Part]]:
    """The fields of a message: their numbers and ranges, without their content."""
    at = part.start
    while at < part.end:
        key, at = varint(data, at)
        start, kind, value = at, key & 7, 0
        if kind == _VARINT:
            value, at = varint(data, at)
        elif kind == _BYTES:
            length, start = varint(data, at)
            at = start + length
        elif kind in (_FIXED_64, _FIXED_32):
            at += 8 if kind == _FIXED_64 else 4
        else:
            raise IndexError
        if at > part.end:
            raise IndexError
        yield key >> 3, Part(start, at, value, kind == _BYTES)


def varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
