"""The shape of JSON is checked before it is parsed, at the cost of a few scans of its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import InvalidRequest
from kb.server import request_bodies
from kb.server.request_bodies import check_shape
from tests.server.conftest import Running

MANY_OBJECTS = b'{"query": "a", "x": [' + b"{}," * 340_000 + b"{}]}"
MANY_NAMED_OBJECTS = b'{"query": "a", "x": [' + b'{"a":1},' * 120_000 + b"{}]}"
DEEP = b'{"x":' * 65 + b"1" + b"}" * 65

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{},:"\\aé\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(alphabet='[]{}"\\a', max_size=4), inner, max_size=6)
    ),
    max_leaves=40,
)


def containers(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + sum(containers(each) for each in inner)


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + max((levels(each) for each in inner), default=0)


@given(values, st.booleans())
def test_structure_ignores_strings(value: Any, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    structure = request_bodies._structure(data)
    assert structure.count(b"[") + structure.count(b"{") == containers(value)
    assert request_bodies._levels(structure) == levels(value)


def test_structure_of_more_strings_than_a_batch() -> None:
    value = [[f'"{number}[,'] for number in range(request_bodies._QUOTES_AT_ONCE)][:9_000]
    structure = request_bodies._structure(json.dumps(value).encode())
    assert structure.count(b"[") == 9_001


@pytest.mark.parametrize("data", [MANY_OBJECTS, MANY_NAMED_OBJECTS, DEEP])
def test_too_many_containers_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="64 levels, or more than 10,000 lists and objects"):
        check_shape(data)


def test_refused_shapes_are_not_parsed(filled: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: Any, **__: Any) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(request_bodies, "parse_object", parse)
    sent = {"Content-Type": "application/json"}
    for data in (MANY_OBJECTS, MANY_NAMED_OBJECTS):
        answer = filled.client.post("/search", content=data, headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_brackets_in_a_text_are_no_containers(filled: Running) -> None:
    note = {"text": "# Code\n\n" + "f(a[0], {b: [1, 2]})\n" * 20_000}
    assert filled.client.post("/documents", json=note).status_code == 201


def test_the_estimate_grows_with_the_values() -> None:
    flat = check_shape(b'{"text": "' + b"," * 100_000 + b'"}')
    keys = check_shape(json.dumps({str(number): 1 for number in range(100_000)}).encode())
    assert flat < 1_000_000
    assert keys > 20_000_000


def test_other_encodings_than_utf8_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="not JSON"):
        request_bodies.parse_object('{"query": "a"}'.encode("utf-16"))
    assert request_bodies.parse_object(b'\xef\xbb\xbf{"query": "a"}') == {"query": "a"}
