"""A token with limits sees its documents and nothing else, whatever it requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kb.types import RIGHTS, Identity, Limits
from tests.server.limited_world import (
    ROOTS,
    Names,
    World,
    calls,
    leaks,
    open_world,
    requests,
    seeds,
    some_limits,
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with open_world(request.param, tmp_path_factory.mktemp("limits"), request) as opened:
        yield opened


several = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # requests are slow, so failures are not shrunk
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@several
@given(seed=seeds, limits=some_limits, right=st.sampled_from(RIGHTS[:2]))
def test_no_response_has_a_word_of_another_document(
    world: World, seed: int, limits: Limits, right: str
) -> None:
    token = world.tokens.add(Identity(Names.next(), right, limits), 0.0)
    chance = Random(seed)
    for method, path, options in chance.sample(requests(world, chance), 6):
        answer = world.call(token, method, path, **options)
        assert answer.status_code in (200, 404, 422), answer.text
        text = answer.text.replace(path.rpartition("/")[2], "")  # errors repeat the path
        assert leaks(text, world, limits, (path, options)) == []
        if path == "/search" and answer.status_code == 200:
            found = {hit["doc_path"] for hit in answer.json()["hits"]}
            assert all(world.paths[each].within(limits) for each in found)
        if path.startswith("/chunks/") and answer.status_code == 200:
            assert world.chunks[int(path.rpartition("/")[2])].within(limits)
        if method == "GET" and path.removeprefix("/documents/") in world.paths:
            visible = world.paths[path.removeprefix("/documents/")].within(limits)
            assert (answer.status_code == 200) == visible


@several
@given(seed=seeds, limits=some_limits)
def test_no_tool_tells_a_word_of_another_document(world: World, seed: int, limits: Limits) -> None:
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    for tool, arguments in calls(world, Random(seed)):
        answer = world.tool(token, tool, **arguments)
        assert leaks(answer, world, limits, arguments) == []
        if (path := arguments.get("citation")) in world.paths:
            doc = world.paths[path]
            content = json.loads(answer)["result"]["content"][0]["text"]
            assert (doc.text in content) == doc.within(limits)
    refusal = world.tool(token, "add", text="A note.")
    assert "has the right read" in refusal


@several
@given(limits=some_limits)
def test_counts_are_those_of_the_visible_documents(world: World, limits: Limits) -> None:
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    visible = [doc for doc in world.docs if doc.within(limits)]
    failing = [doc for doc in visible if doc.fails]
    status = world.call(token, "GET", "/status").json()
    assert (status["documents"], status["chunks"]) == (len(visible), len(visible))
    assert sum(status["by_scope"].values()) == sum(status["by_type"].values()) == len(visible)
    assert {root["name"]: root["documents"] for root in status["roots"]} == {
        root: count for root in ROOTS[:2] if (count := sum(doc.root == root for doc in visible))
    }
    (model,) = status["vectors"]["models"]
    assert (model["ready"], model["failed"]) == (len(visible) - len(failing), len(failing))
    tags = world.call(token, "GET", "/tags").json()["tags"]
    expected: dict[str, int] = {}
    for doc in visible:
        for tag in doc.tags:
            expected[tag] = expected.get(tag, 0) + 1
    assert tags == status["tags"] == expected
    jobs = world.call(token, "GET", "/jobs").json()
    assert {world.paths[each["doc_path"]] for each in jobs["failures"]} == set(failing)
    assert jobs["jobs"] == []
    listed = world.call(token, "GET", "/documents", params={"limit": 100}).json()["documents"]
    assert {world.paths[each["doc_path"]] for each in listed} == set(visible)
    # Every visible document is found, so limits apply before the list is cut.
    few = {"query": "boat harbour", "top": len(visible) or 1, "collapse": False}
    for mode, reachable in (("lexical", visible), ("vector", [d for d in visible if not d.fails])):
        answer = world.call(token, "POST", "/search", json=few | {"mode": mode}).json()
        assert {world.paths[each["doc_path"]] for each in answer["hits"]} == set(reachable)
        pending = [each["detail"] for each in answer["degraded"] if each["reason"] == "failed"]
        assert pending == (
            [f"{len(failing)} passage{'s' * (len(failing) > 1)} could not be embedded"]
            if failing and mode == "vector"
            else []
        )


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/metrics", {}),
        ("GET", "/images?document=a.md&path=a.png", {}),
        ("GET", "/events", {}),
        ("POST", "/ingest", {"json": {}}),
        ("POST", "/embed", {"json": {}}),
        ("PUT", "/uploads/a.md", {"content": b"text"}),
    ],
)
def test_what_concerns_the_whole_store_is_refused(
    world: World, method: str, path: str, options: dict[str, Any]
) -> None:
    token = world.tokens.add(Identity(Names.next(), "write", Limits(scopes=("project",))), 0.0)
    answer = world.call(token, method, path, **options)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_limited_token_writes_within_its_limits(world: World) -> None:
    limits = Limits(scopes=("project",), tags=("red",))
    token = world.tokens.add(Identity(Names.next(), "write", limits), 0.0)
    refused = world.call(token, "POST", "/documents", json={"text": "A note.", "scope": "project"})
    assert (refused.status_code, refused.json()["hint"]) == (403, "add one of the tags: red")
    hidden = {"text": "---\nscope: global\n---\nA note.", "tags": ["red"]}
    refused = world.call(token, "POST", "/documents", json=hidden)
    assert (refused.status_code, refused.json()["hint"]) == (403, "set the scope to: project")
    note = {"text": "A note.", "scope": "project", "tags": ["red"]}
    added = world.call(token, "POST", "/documents", json=note)
    assert added.status_code == 201
    path = added.json()["doc_path"]
    change = {"document": path, "remove": ["red"]}
    refused = world.call(token, "POST", "/tags", json=change)
    assert (refused.status_code, refused.json()["hint"]) == (403, "keep one of the tags: red")
    other = next(path for path, doc in world.paths.items() if not doc.within(limits))
    for answer in (
        world.call(token, "DELETE", f"/documents/{other}"),
        world.call(token, "POST", "/tags", json={"document": other, "add": ["red"]}),
    ):
        assert answer.status_code == 404
    assert world.call(token, "DELETE", f"/documents/{path}").status_code == 200
