"""A token with limits sees its documents and nothing else, whatever it requests."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.mcp.server import create_app as create_mcp_app
from kb.server.guard import AccessRules
from kb.server.lifecycle import HttpServer
from kb.server.tokens import TokenFile, TokenRegistry
from kb.types import RIGHTS, SCOPES, Identity, Limits
from tests.models.weightless import Weightless
from tests.postgres import Server
from tests.server import conftest

COLORS = ("red", "green", "blue")
ROOTS = ("alpha", "beta", "note:")
COUNT = 24


@dataclass(frozen=True)
class Doc:
    """A document whose text, tags and path contain a word that no other one has."""

    number: int

    @property
    def marker(self) -> str:
        return f"zq{self.number:03}qz"

    @property
    def root(self) -> str:
        return ROOTS[self.number % 3]

    @property
    def scope(self) -> str:
        return SCOPES[self.number // 3 % 2]

    @property
    def color(self) -> str:
        return COLORS[self.number // 6 % 3]

    @property
    def tags(self) -> tuple[str, ...]:
        return (self.color, f"tag-{self.marker}")

    @property
    def fails(self) -> bool:
        """Whether the encoder fails on it."""
        return self.number % 5 == 4

    @property
    def text(self) -> str:
        broken = " unreadable" if self.fails else ""
        return f"A boat in the harbour, {self.marker}, rests for night {self.number}.{broken}"

    def within(self, limits: Limits) -> bool:
        return (
            (not limits.scopes or self.scope in limits.scopes)
            and (not limits.roots or self.root in limits.roots)
            and (not limits.tags or bool(set(self.tags) & set(limits.tags)))
        )


DOCS = [Doc(number) for number in range(COUNT)]


@dataclass(frozen=True)
class World:
    """Servers of both protocols over the same store, and its documents by path."""

    http: httpx.Client
    mcp: httpx.Client
    tokens: TokenFile
    paths: dict[str, Doc]
    chunks: dict[int, Doc]

    def call(self, token: str, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", "X-KB-Request": "1"}
        return self.http.request(method, path, headers=headers, **options)

    def tool(self, token: str, name: str, **arguments: Any) -> str:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": name, "arguments": arguments}}  # fmt: skip
        headers = {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2025-06-18",
                   "Accept": "application/json, text/event-stream"}  # fmt: skip
        answer = self.mcp.post("/mcp", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.text


def fill(kb: KnowledgeBase, folder: Path) -> None:
    for doc in DOCS:
        if doc.root == "note:":
            kb.add(doc.text, tags=doc.tags, scope=doc.scope)
            continue
        file = folder / doc.root / f"{doc.marker}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        front = f"---\nscope: {doc.scope}\ntags: [{', '.join(doc.tags)}]\n---\n"
        file.write_text(front + doc.text + "\n")
    kb.ingest(folder / "alpha", folder / "beta")
    for _ in range(3):
        kb.embed(retry=True)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("limits")
    place = str(folder / "store" / "kb.sqlite")
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        place = server.url(schema=f"limits{uuid.uuid4().hex[:12]}")
    tokens = TokenFile(folder / "private" / "tokens.json")
    encoder = Weightless(fails_on=["unreadable"])
    with ExitStack() as stack:
        kb = stack.enter_context(KnowledgeBase(place, config=conftest.settings(), encoder=encoder))
        fill(kb, folder)
        rules = AccessRules(tokens=TokenRegistry(tokens, lambda: 0.0))
        tokens.add(Identity("first"), 0.0)
        running = conftest.start(kb, rules, ())
        stack.callback(running.stop)
        stack.callback(running.client.close)
        mcp = stack.enter_context(_mcp(kb, rules))
        paths = {
            document.doc_path: next(doc for doc in DOCS if f"tag-{doc.marker}" in document.tags)
            for document in kb.documents()
        }
        assert len(paths) == COUNT
        chunks = {chunk.chunk_id: doc for path, doc in paths.items() for chunk in kb.chunks(path)}
        yield World(running.client, mcp, tokens, paths, chunks)


def _mcp(kb: KnowledgeBase, rules: AccessRules) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def served() -> Iterator[httpx.Client]:
        ports: list[int] = []
        listening = threading.Event()

        def ready(port: int) -> None:
            ports.append(port)
            listening.set()

        server = HttpServer(create_mcp_app(kb, rules), kb.config.serve, ready)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        assert listening.wait(conftest.PATIENCE_S)
        url = f"http://127.0.0.1:{ports[0]}"
        with httpx.Client(base_url=url, timeout=conftest.PATIENCE_S, trust_env=False) as client:
            yield client
        server.should_exit = True
        thread.join(conftest.PATIENCE_S)

    return served()


# --- requests -------------------------------------------------------------------------------------

some_limits = st.builds(
    Limits,
    st.sets(st.sampled_from(SCOPES)).map(tuple),
    st.sets(st.sampled_from(ROOTS), max_size=2).map(tuple),
    st.sets(st.sampled_from(COLORS), max_size=2).map(tuple),
).filter(bool)
some_filters = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(SCOPES),
        "tags": st.sampled_from(COLORS).map(lambda tag: [tag]),
        "tags_any": st.sets(st.sampled_from(COLORS), min_size=1).map(sorted),
        "path_glob": st.sampled_from(["alpha/**", "**", "note:*", "**/*.md"]),
    },
)
queries = st.one_of(
    st.just("boat harbour"),
    st.sampled_from(DOCS).map(lambda doc: doc.marker),
    st.sampled_from(DOCS).map(lambda doc: f"boat {doc.marker} night {doc.number}"),
    st.sampled_from(["'boat AND harbour'", "'boat OR zq*'", '"in the harbour"', "oat", ""]),
)
modes = st.sampled_from(["lexical", "vector", "sparse", None])


@st.composite
def requests(draw: st.DrawFn, world: World) -> tuple[str, str, dict[str, Any]]:
    """The method, the path and the options of a request that only reads."""
    path = draw(st.sampled_from(sorted(world.paths)))
    chunk = draw(st.sampled_from(sorted(world.chunks)))
    query, filters = draw(queries), draw(some_filters)
    search = {"query": query, "filters": filters, "top": 50, "explain": draw(st.booleans()),
              "include_text": draw(st.booleans()), "collapse": draw(st.booleans())}  # fmt: skip
    if (mode := draw(modes)) is not None:
        search["mode"] = mode
    if draw(st.booleans()):
        search["rerank"] = True
    cut = path[draw(st.integers(0, len(path) - 1)) :]
    judged = {"queries": {"q": query or "boat"}, "qrels": {"q": {path: 1}}, "methods": ["default"]}
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/search", {"json": search}),
        ("POST", "/search", {"json": search}),
        ("GET", "/search/compare-methods", {"params": {"q": query or "boat", **filters}}),
        ("POST", "/search/evaluate", {"json": judged}),
        ("POST", "/search/highlights", {"json": {"query": query, "texts": ["a boat"]}}),
        ("GET", "/similar", {"params": {"to": path, **filters}}),
        ("GET", "/similar", {"params": {"to": str(chunk), "include_text": True}}),
        ("GET", "/documents", {"params": {"limit": 100, **filters}}),
        ("GET", "/documents/" + path, {}),
        ("GET", "/documents/" + cut, {}),
        ("GET", "/documents/" + path[:-1] + "x", {}),
        ("GET", "/passages", {"params": {"uri": path}}),
        ("GET", "/passages", {"params": {"uri": cut, "quiet": True}}),
        ("GET", "/passages", {"params": {"uri": f"{path}#L1-L5"}}),
        ("GET", "/chunks", {"params": {"document": path}}),
        ("GET", f"/chunks/{chunk}", {}),
        ("POST", "/ask", {"json": {"question": query or "boat", "filters": filters}}),
        ("POST", "/search/facets", {"json": {"query": query, "filters": filters}}),
        ("GET", "/renderings", {"params": {"uri": path}}),
        ("GET", "/originals/" + path, {}),
        ("GET", "/page-images", {"params": {"document": path, "page": 1, "chunk": chunk}}),
        ("GET", "/tags", {}),
        ("GET", "/status", {}),
        ("GET", "/jobs", {}),
        ("GET", "/profiles", {}),
    ]
    kind: tuple[str, str, dict[str, Any]] = draw(st.sampled_from(kinds))
    return kind


def leaks(text: str, world: World, limits: Limits, request: object) -> list[str]:
    """The words of documents outside the limits in a response, except those of the request."""
    asked = json.dumps(request)
    return [
        doc.marker
        for doc in DOCS
        if not doc.within(limits) and doc.marker in text and doc.marker not in asked
    ]


class Names:
    """A new name for each token."""

    count = 0

    @classmethod
    def next(cls) -> str:
        cls.count += 1
        return f"token{cls.count}"


several = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # requests are slow, so failures are not shrunk
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@several
@given(data=st.data(), limits=some_limits, right=st.sampled_from(RIGHTS[:2]))
def test_no_response_has_a_word_of_another_document(
    world: World, data: st.DataObject, limits: Limits, right: str
) -> None:
    token = world.tokens.add(Identity(Names.next(), right, limits), 0.0)
    for _ in range(4):
        method, path, options = data.draw(requests(world))
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
@given(data=st.data(), limits=some_limits)
def test_no_tool_tells_a_word_of_another_document(
    world: World, data: st.DataObject, limits: Limits
) -> None:
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    path = data.draw(st.sampled_from(sorted(world.paths)))
    query, filters = data.draw(queries), data.draw(some_filters)
    for tool, arguments in (
        ("search", {"query": query, "top": 50, "include_text": True, **filters}),
        ("fetch", {"citation": path}),
        ("status", {}),
    ):
        answer = world.tool(token, tool, **arguments)
        assert leaks(answer, world, limits, arguments) == []
        if tool == "fetch":
            text = world.paths[path].text
            assert (text in json.loads(answer)["result"]["content"][0]["text"]) == world.paths[
                path
            ].within(limits)
    refusal = world.tool(token, "add", text="A note.")
    assert "has the right read" in refusal


@several
@given(limits=some_limits)
def test_counts_are_those_of_the_visible_documents(world: World, limits: Limits) -> None:
    token = world.tokens.add(Identity(Names.next(), "read", limits), 0.0)
    visible = [doc for doc in DOCS if doc.within(limits)]
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
