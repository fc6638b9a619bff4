"""The schemas are valid, and agree with the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from kb import types, wire
from kb.errors import InvalidRequest
from kb.search.retrievers import registry
from tests.cli.conftest import SCHEMAS
from tests.cli.test_contract import Valid


def test_every_schema_is_known_here() -> None:
    folder = Path(wire.__file__).parent / "schemas"
    assert {path.stem for path in folder.glob("*.json")} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_valid(name: str) -> None:
    schema = wire.schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == name
    assert schema["description"]
    if name not in ("citation.v1", "search_request.v1"):
        assert set(schema["required"]) >= set(schema["properties"]) - {"explain"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("document.v1", types.Document),
        ("search_hit.v1", types.Hit),
        ("ingest_report.v1", types.IngestReport),
    ],
)
def test_schemas_have_the_fields_of_the_values(name: str, value: Any) -> None:
    said = set(wire.schema(name)["properties"])
    assert said == {"schema_version", *(item.name for item in fields(value))}


def test_closed_sets_agree_with_the_code() -> None:
    document = wire.schema("document.v1")["properties"]
    assert document["kind"]["enum"] == [*types.KINDS, None]
    assert document["scope"]["enum"] == [*types.SCOPES]
    assert document["trust"]["enum"] == [*types.TRUSTS]
    request = wire.schema("search_request.v1")
    assert set(request["properties"]["mode"]["examples"]) <= {*registry.modes(), None}
    assert request["properties"]["match"]["enum"] == [*types.MATCHES, None]
    filters = set(request["$defs"]["filters"]["properties"])
    assert filters == {item.name for item in fields(types.Filters)} - {"limits"}  # set by servers


REQUESTS: list[tuple[dict[str, Any], bool]] = [
    ({"query": "x"}, True),
    ({"query": "x", "top": 3, "profile": None, "threshold": 1, "explain": True}, True),
    ({"query": "x", "filters": {"tags": ["a"], "type": "code", "after": "2026-01-01"}}, True),
    ({"query": "x", "filters": None}, True),
    ({}, False),
    ({"query": 1}, False),
    ({"query": "x", "topp": 3}, False),
    ({"query": "x", "top": "3"}, False),
    ({"query": "x", "top": True}, False),
    ({"query": "x", "filters": {"tag": "a"}}, False),
    ({"query": "x", "filters": {"tags": [1]}}, False),
]


@pytest.mark.parametrize(("request_", "good"), REQUESTS)
def test_requests_are_read_according_to_their_schema(
    valid: Valid, request_: dict[str, Any], good: bool
) -> None:
    if good:
        valid("search_request.v1", request_)
        wire.read_request(request_)
        return
    with pytest.raises(ValidationError):
        valid("search_request.v1", request_)
    with pytest.raises(InvalidRequest):
        wire.read_request(request_)


CITATIONS: list[tuple[types.Span, bool]] = [
    (types.Span("line", 3, 9), True),
    (types.Span("line"), True),
    (types.Span("page", page=4), True),
    (types.Span("code", 3, 9, symbol="main", lang="go"), True),
    (types.Span("region", page=4, extra={"box": [0, 0, 1, 1]}), True),
    (types.Span("page"), False),
    (types.Span("line", 0, 9), False),
    (types.Span("line", 3, 9, extra={"box": []}), False),
]


@pytest.mark.parametrize(("span", "good"), CITATIONS)
def test_citations(valid: Valid, span: types.Span, good: bool) -> None:
    shape = wire.citation(types.Citation(span.kind, "a.md", "a.md", None, span))
    if good:
        valid("citation.v1", shape)
        return
    with pytest.raises(ValidationError):
        valid("citation.v1", shape)
