"""The OpenAPI document agrees with the schemas and with the server."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kb import KnowledgeBase
from kb.server.api import create_app
from kb.server.request_bodies import parse_object
from tests.schemas import validator
from tests.server.conftest import FILES, Running

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with KnowledgeBase(tmp_path_factory.mktemp("contract") / "kb.sqlite") as kb:
        return create_app(kb).openapi()


def test_its_shapes_are_schemas_and_its_references_lead_somewhere(document: Any) -> None:
    text = json.dumps(document)
    assert "urn:kb:" not in text
    for shape in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(shape)
    for reference in _references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def _references(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)


def test_every_operation_is_described_and_has_an_example_of_what_it_takes(document: Any) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert "4XX" in operation["responses"]
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if method == "post":
                assert content["example"], path


def test_the_examples_are_valid(document: Any) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None:
                whole = content["schema"] | {"components": document["components"]}
                Draft202012Validator(whole).validate(content["example"])


def test_every_route_is_in_the_how_to(document: Any) -> None:
    told = HOW_TO.read_text(encoding="utf-8")
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"`{method.upper()} {path}`".replace(":path", "") in told, path


def test_nothing_is_loaded_from_elsewhere(filled: Running) -> None:
    for path in ("/docs", "/redoc"):
        assert filled.client.get(path).status_code == 404


# --- invalid requests -----------------------------------------------------------------------------

ROUTES = ["/search", "/search/evaluate", "/search/highlights", "/documents", "/tags", "/ingest",
          "/embed"]  # fmt: skip
BODIES = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b'{"query": NaN}', b'{"query": Infinity}',
    b"[" * 100_000, b'{"a":' * 5000, b'{"query": "\\ud800"}', b'{"query": 1' + b"0" * 5000 + b"}",
    b'{"query": {"query": "x"}}', b'{"text": 1}', b'{"paths": [1]}', b'{"retry": "yes"}',
    b'{"document": []}', b'{"queries": [], "qrels": {}}', b'{"texts": [1], "query": "x"}',
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One server for many requests."""
    from tests.server.conftest import settings as made
    from tests.server.conftest import start

    folder = tmp_path_factory.mktemp("shared")
    for name, text in FILES.items():
        (folder / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "lib" / name).write_text(text, encoding="utf-8")
    with KnowledgeBase(folder / "kb.sqlite", config=made(), encoder="none") as kb:
        kb.ingest(folder / "lib")
        running = start(kb, None, ())
        yield running
        running.client.close()
        running.stop()


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:20]))
def test_invalid_bodies(shared: Running, path: str, body: bytes) -> None:
    sent = {"Content-Type": "application/json"}
    answer = shared.client.post(path, content=body, headers=sent)
    validator("error.v1").validate(answer.json())
    assert answer.status_code == 422, answer.text


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FILTERS = ("tags", "tags_any", "type", "kind", "scope", "lang", "path_glob", "trust_min", "after",
           "before")  # fmt: skip
REQUESTS = st.fixed_dictionaries(
    {"query": st.text()},
    optional={
        "top": JSONS | st.integers(1, 50),
        "profile": st.sampled_from(["default", "lexical", "notes"]) | JSONS,
        "mode": st.sampled_from(["lexical", "hybrid"]) | JSONS,
        "match": st.sampled_from(["any", "all"]) | JSONS,
        "filters": st.dictionaries(st.sampled_from(FILTERS), JSONS, max_size=3) | JSONS,
        "threshold": JSONS,
        "rerank": JSONS,
        "budget_ms": JSONS,
        "explain": st.booleans() | JSONS,
    },
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(REQUESTS)
def test_any_request_is_answered_or_refused(shared: Running, asked: Any) -> None:
    answer = shared.client.post("/search", json=asked)
    if answer.status_code == 200:
        validator("search_response.v1").validate(answer.json())
    else:
        validator("error.v1").validate(answer.json())
        assert 400 <= answer.status_code < 500, (asked, answer.text)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from([*FILTERS, "limit", "offset"]), st.text(max_size=20)))
def test_any_parameters_are_answered_or_refused(shared: Running, asked: dict[str, str]) -> None:
    answer = shared.client.get("/documents", params=asked)
    assert answer.status_code in (200, 422), (asked, answer.text)


@given(st.binary(max_size=200))
def test_any_body_is_an_object_or_an_error(data: bytes) -> None:
    from kb.errors import InvalidRequest

    with suppress(InvalidRequest):
        assert isinstance(parse_object(data), dict)


@pytest.mark.slow
def test_schemathesis_finds_no_failure(shared: Running) -> None:
    """Requests generated from the document: none returns a 500, and each response matches its
    schema."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = (not_a_server_error, content_type_conformance, response_schema_conformance,
              status_code_conformance)  # fmt: skip
    schema = schemathesis.openapi.from_url(f"{shared.url}/openapi.json")
    asked = []

    for result in schema.exclude(path="/events").get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        cases = operation.as_strategy()

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(cases)
        def one(case: Any) -> None:
            asked.append(case.operation.label)
            case.headers = {**(case.headers or {}), "X-KB-Request": "1"}
            case.call_and_validate(checks=checks)

        one()
    assert len(set(asked)) >= 20
