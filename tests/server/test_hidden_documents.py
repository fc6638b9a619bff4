"""The responses to a token with limits do not depend on the documents that it cannot see."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kb.types import RIGHTS, Identity, Limits
from tests.server.limited_world import (
    Names,
    Request,
    World,
    calls,
    open_world,
    requests,
    seeds,
    some_limits,
)

EXAMPLES = int(os.environ.get("KB_TEST_EXAMPLES", "4"))
# Times, versions, and counts that the requests of the test itself change.
VARYING = {"ms", "index_version", "version", "versions", "access_count", "most_read"}

several = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # requests are slow, so failures are not shrunk
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with open_world(request.param, tmp_path_factory.mktemp("hidden"), request) as opened:
        yield opened


def comparable(value: Any) -> Any:
    """A response without what varies."""
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()
                if key not in VARYING and not key.endswith("_ms")}  # fmt: skip
    return [comparable(each) for each in value] if isinstance(value, list) else value


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """The places at which two responses differ."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        return [each for key in expected
                for each in differences(expected[key], found[key], f"{place}.{key}")]  # fmt: skip
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [each for at, pair in pairs for each in differences(*pair, f"{place}[{at}]")]
    return [] if expected == found else [f"{place}: {expected!r} != {found!r}"]


def response(world: World, token: str, request: Request) -> list[Any]:
    method, path, options = request
    answer = world.call(token, method, path, **options)
    assert answer.status_code in (200, 404, 422), answer.text
    if answer.headers["content-type"].startswith("application/json"):
        return [answer.status_code, comparable(answer.json())]
    return [answer.status_code, answer.text]


@several
@given(seed=seeds, limits=some_limits)
def test_responses_are_the_same_with_other_hidden_documents(
    world: World, seed: int, limits: Limits
) -> None:
    """Their words, tags, paths and order change; the rarity of other words, a part of scores,
    remains."""
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    chance = Random(seed)
    asked, called = requests(world, chance, limits), calls(world, chance, limits)
    before = [response(world, token, each) for each in asked]
    told = [world.tool(token, name, **arguments) for name, arguments in called]
    world.age_hidden(limits)
    for each, expected in zip(asked, before, strict=True):
        assert differences(expected, response(world, token, each)) == [], each
    for (name, arguments), text in zip(called, told, strict=True):
        assert world.tool(token, name, **arguments) == text, (name, arguments)


@several
@given(limits=some_limits)
def test_lists_and_counts_are_the_same_without_hidden_documents(
    world: World, limits: Limits
) -> None:
    """What depends on the rarity of words, which hidden documents change, is not compared."""
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    facets = {"json": {"query": "boat harbour", "mode": "lexical"}}
    asked: list[Request] = [
        ("GET", "/status", {}),
        ("GET", "/tags", {}),
        ("GET", "/jobs", {}),
        ("GET", "/profiles", {}),
        ("GET", "/statistics", {}),
        ("GET", "/map", {}),
        ("GET", "/documents", {"params": {"limit": 100}}),
        ("GET", "/documents", {"params": {"limit": 3, "offset": 2}}),
        ("GET", "/documents", {"params": {"links_to": "alpha"}}),
        ("GET", "/documents/nothing.md", {}),
        ("POST", "/search/facets", facets),
        ("GET", "/ask", {}),
    ]
    before = [response(world, token, each) for each in asked]
    found = _paths_found(world, token)
    hidden = world.remove_hidden(limits)
    try:
        for each, expected in zip(asked, before, strict=True):
            assert differences(expected, response(world, token, each)) == [], each
        assert _paths_found(world, token) == found
    finally:
        world.restore(hidden)


def _paths_found(world: World, token: str) -> list[set[str]]:
    found = []
    for mode in ("lexical", "vector", "sparse"):
        search = {"query": "boat harbour", "top": 50, "collapse": False, "mode": mode}
        answer = world.call(token, "POST", "/search", json=search).json()
        found.append({hit["doc_path"] for hit in answer["hits"]})
    return found


@several
@given(seed=seeds, limits=some_limits)
def test_no_write_changes_a_hidden_document(world: World, seed: int, limits: Limits) -> None:
    token = world.tokens.add(Identity(Names.next(), "write", limits), 0.0)
    before = _exported(world, limits)
    for path in Random(seed).sample(sorted(world.paths), 6):
        if world.paths[path].within(limits):
            continue
        edit = {"text": "changed", "version": "1"}
        for method, where, options in (
            ("DELETE", f"/documents/{path}", {}),
            ("PUT", f"/notes/{path}", {"json": edit}),
            ("POST", "/tags", {"json": {"document": path, "add": ["red"]}}),
            ("GET", f"/documents/{path}", {}),
        ):
            answer = world.call(token, method, where, **options)
            assert answer.status_code == 404, answer.text
    assert _exported(world, limits) == before


def _exported(world: World, limits: Limits) -> list[Any]:
    """All documents outside the limits, with their passages."""
    lines = [json.loads(line) for line in world.kb._store.maintenance.export()][1:]
    hidden = {
        line["document"]["doc_id"]
        for line in lines
        if "document" in line and not world.paths[line["document"]["doc_path"]].within(limits)
    }
    return [line for line in lines if any(
        isinstance(each, dict) and each.get("doc_id") in hidden for each in line.values()
    )]  # fmt: skip


# --- every route ----------------------------------------------------------------------------------

# Routes whose responses are about no document, or that a token with limits must not use.
WITHOUT_DOCUMENTS = {"/health", "/healthz", "/readyz", "/openapi.json", "/profiles"}
REFUSED = {"/metrics", "/images", "/events", "/ingest", "/embed", "/uploads/{name}"}
WRITES = {("POST", "/documents"), ("DELETE", "/documents/{doc_path}"), ("POST", "/tags"),
          ("PUT", "/notes/{doc_path}")}  # fmt: skip


def test_every_route_is_requested(world: World) -> None:
    """A new route must be added to these tests."""
    schema = world.call(world.tokens.add(Identity(Names.next(), RIGHTS[0]), 0.0), "GET",
                        "/openapi.json").json()  # fmt: skip
    known = {(method.upper(), path) for path, methods in schema["paths"].items()
             for method in methods}  # fmt: skip
    covered = {("GET", path) for path in WITHOUT_DOCUMENTS} | WRITES
    covered |= {(method, path) for method, path in known if path in REFUSED}
    drawn = {(method, path) for method, path, _ in requests(world, Random(1))}
    for method, path in known - covered:
        prefix = path.partition("{")[0]
        assert any(
            method == one and (other == path or (prefix != path and other.startswith(prefix)))
            for one, other in drawn
        ), (method, path)
