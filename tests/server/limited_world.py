"""A store with documents in different scopes, folders and tags, behind servers with tokens."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.mcp.server import create_app as create_mcp_app
from kb.server.guard import AccessRules
from kb.server.lifecycle import HttpServer
from kb.server.tokens import TokenFile, TokenRegistry
from kb.types import SCOPES, Identity, Limits
from tests.models.weightless import Weightless
from tests.postgres import Server
from tests.server import conftest

COLORS = ("red", "green", "blue")
ROOTS = ("alpha", "beta", "note:")
COUNT = 24
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _spell(number: int) -> str:
    """A number as two letters, so that a word with it is one term."""
    return _LETTERS[number // 26 % 26] + _LETTERS[number % 26]


@dataclass(frozen=True)
class Doc:
    """A document whose text, tags and path contain a word that no other one has. Its `age` only
    changes this word. A file links to the next two documents of its folder, unless the encoder
    fails on it: passages similar to it are found by its words, and the rarity of words in a link
    changes with the age of the document that it leads to."""

    number: int
    age: int = 0

    @property
    def marker(self) -> str:
        return f"zq{_spell(self.number)}{_spell(self.age)}qz"

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
        """Whether the encoder fails on this document."""
        return self.number % 5 == 4

    @property
    def linked(self) -> tuple[str, ...]:
        """The first markers of the documents that this one links to."""
        return tuple(Doc((self.number + step) % COUNT).marker for step in (3, 6))

    @property
    def text(self) -> str:
        broken = " unreadable" if self.fails else ""
        text = f"A boat in the harbour, {self.marker}, rests for night {self.number}.{broken}"
        if self.root == "note:" or self.fails:
            return text
        one, two = self.linked
        return f"{text} See [the next]({one}.md) or [[{two}]]."

    @property
    def file(self) -> str:
        """The path below its root; empty for a note."""
        return "" if self.root == "note:" else f"{self.marker}.md"

    def within(self, limits: Limits) -> bool:
        return (
            (not limits.scopes or self.scope in limits.scopes)
            and (not limits.roots or self.root in limits.roots)
            and (not limits.tags or bool(set(self.tags) & set(limits.tags)))
        )


@dataclass
class World:
    """Servers of both protocols over the same store, and its documents."""

    kb: KnowledgeBase
    folder: Path
    http: httpx.Client
    mcp: httpx.Client
    tokens: TokenFile
    docs: list[Doc]
    paths: dict[str, Doc] = field(default_factory=dict)
    chunks: dict[int, Doc] = field(default_factory=dict)

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

    def age_hidden(self, limits: Limits) -> None:
        """Change the words, the tags, the paths and the order of all documents outside the limits,
        but neither their number nor the rarity of any other word."""
        hidden = [doc for doc in self.docs if not doc.within(limits)]
        self._remove(hidden)
        older = {doc.number: replace(doc, age=doc.age + 1) for doc in hidden}
        self._write(list(older.values())[::-1])
        self.docs = [older.get(doc.number, doc) for doc in self.docs]
        self.refresh()

    def remove_hidden(self, limits: Limits) -> list[Doc]:
        """Remove all documents outside the limits; `restore` adds them again."""
        hidden = [doc for doc in self.docs if not doc.within(limits)]
        self._remove(hidden)
        return hidden

    def restore(self, hidden: list[Doc]) -> None:
        self._write(hidden)
        self.refresh()

    def refresh(self) -> None:
        """Look up the paths and the passages of all documents."""
        by_tag = {f"tag-{doc.marker}": doc for doc in self.docs}
        self.paths = {
            document.doc_path: next(by_tag[tag] for tag in document.tags if tag in by_tag)
            for document in self.kb.documents()
        }
        assert len(self.paths) == len(self.docs)
        self.chunks = {
            chunk.chunk_id: doc
            for path, doc in self.paths.items()
            for chunk in self.kb.chunks(path)
        }

    def _remove(self, docs: list[Doc]) -> None:
        paths = {doc: path for path, doc in self.paths.items()}
        for doc in docs:
            if doc.file:
                (self.folder / doc.root / doc.file).unlink()
            else:
                self.kb.remove(paths[doc])
        self.kb.ingest(self.folder / "alpha", self.folder / "beta")

    def _write(self, docs: list[Doc]) -> None:
        for doc in docs:
            if not doc.file:
                self.kb.add(doc.text, tags=doc.tags, scope=doc.scope)
                continue
            file = self.folder / doc.root / doc.file
            file.parent.mkdir(parents=True, exist_ok=True)
            front = f"---\nscope: {doc.scope}\ntags: [{', '.join(doc.tags)}]\n---\n"
            file.write_text(front + doc.text + "\n")
        self.kb.ingest(self.folder / "alpha", self.folder / "beta")
        conftest.until(self._is_embedded)

    def _is_embedded(self) -> bool:
        """Embed pending passages, beside the server's worker, and return whether none is left. Each
        failing passage is tried three times."""
        self.kb.embed()
        return self.kb.pending() == 0


@contextmanager
def open_world(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world in a new store of this kind."""
    place = str(folder / "store" / "kb.sqlite")
    if kind == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        place = server.url(schema=f"limits{uuid.uuid4().hex[:12]}")
    tokens = TokenFile(folder / "private" / "tokens.json")
    encoder = Weightless(fails_on=["unreadable"])
    with ExitStack() as stack:
        kb = stack.enter_context(KnowledgeBase(place, config=conftest.settings(), encoder=encoder))
        rules = AccessRules(tokens=TokenRegistry(tokens, lambda: 0.0))
        tokens.add(Identity("first"), 0.0)
        running = conftest.start(kb, rules, ())
        stack.callback(running.stop)
        stack.callback(running.client.close)
        mcp = stack.enter_context(_mcp(kb, rules))
        docs = [Doc(number) for number in range(COUNT)]
        world = World(kb, folder, running.client, mcp, tokens, docs)
        world.restore(docs)
        yield world


@contextmanager
def _mcp(kb: KnowledgeBase, rules: AccessRules) -> Iterator[httpx.Client]:
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


# --- requests -------------------------------------------------------------------------------------

some_limits = st.builds(
    Limits,
    st.sets(st.sampled_from(SCOPES)).map(tuple),
    st.sets(st.sampled_from(ROOTS), max_size=2).map(tuple),
    st.sets(st.sampled_from(COLORS), max_size=2).map(tuple),
).filter(bool)
_FILTERS: dict[str, list[Any]] = {
    "scope": list(SCOPES),
    "tags": [[color] for color in COLORS],
    "tags_any": [["red"], ["red", "blue"], ["green", "blue"]],
    "path_glob": ["alpha/**", "**", "note:*", "**/*.md"],
    "links_to": [f"alpha/{Doc(6).marker}.md", Doc(10).marker, "beta"],
}
QUERIES = ("boat harbour", "'boat AND harbour'", "'boat OR zq*'", '"in the harbour"', "oat", "",
           "rests for night", "when do boats rest?")  # fmt: skip
NO_LIMITS = Limits()
Request = tuple[str, str, dict[str, Any]]  # method, path, options
Call = tuple[str, dict[str, Any]]  # a tool and its arguments
# Random choices depend on the documents of the world, which a test may change, so Hypothesis
# chooses a seed only.
seeds = st.integers(0, 2**32 - 1)


def filters(chance: Random) -> dict[str, Any]:
    """No filter, or one or two."""
    names = chance.sample(list(_FILTERS), chance.choice((0, 0, 1, 1, 2)))
    return {name: chance.choice(_FILTERS[name]) for name in names}


def query(world: World, chance: Random, limits: Limits = NO_LIMITS) -> str:
    """A query; its words are common, or those of a document within the limits."""
    docs = [doc for doc in world.docs if doc.within(limits)]
    if not docs or chance.random() < 0.5:
        return chance.choice(QUERIES)
    doc = chance.choice(docs)
    return chance.choice([doc.marker, f"boat {doc.marker} night {doc.number}"])


def requests(world: World, chance: Random, limits: Limits = NO_LIMITS) -> list[Request]:
    """A request of each kind that only reads, about any document. Queries have no words that only
    occur outside the limits."""
    path, chunk = chance.choice(sorted(world.paths)), chance.choice(sorted(world.chunks))
    text, among = query(world, chance, limits), filters(chance)
    search = {"query": text, "filters": among, "top": 50, "explain": chance.random() < 0.5,
              "include_text": chance.random() < 0.5, "collapse": chance.random() < 0.5}  # fmt: skip
    if (mode := chance.choice(["lexical", "vector", "sparse", None])) is not None:
        search["mode"] = mode
    if chance.random() < 0.5:
        search["rerank"] = True
    cut = path[chance.randrange(len(path)) :]
    question = text or "boat"
    judged = {"queries": {"q": question}, "qrels": {"q": {path: 1}}, "methods": ["default"]}
    return [
        ("POST", "/search", {"json": search}),
        ("GET", "/search/compare-methods", {"params": {"q": question, **among}}),
        ("POST", "/search/evaluate", {"json": judged}),
        ("POST", "/search/highlights", {"json": {"query": text, "texts": ["a boat"]}}),
        ("POST", "/search/facets", {"json": {"query": text, "filters": among}}),
        ("POST", "/search", {"json": {"query": "boat", "filters": {"links_to": path}}}),
        ("GET", "/similar", {"params": {"to": path, **among}}),
        ("GET", "/similar", {"params": {"to": str(chunk), "include_text": True}}),
        ("GET", "/documents", {"params": {"limit": 100, **among}}),
        ("GET", "/documents", {"params": {"links_to": path}}),
        ("GET", "/documents/" + path, {}),
        ("GET", "/documents/" + cut, {}),
        ("GET", "/documents/" + path[:-1] + "x", {}),
        ("GET", "/notes/" + path, {}),
        ("GET", "/notes/" + cut, {}),
        ("GET", "/passages", {"params": {"uri": path}}),
        ("GET", "/passages", {"params": {"uri": cut, "quiet": True}}),
        ("GET", "/passages", {"params": {"uri": f"{path}#L1-L5"}}),
        ("GET", "/chunks", {"params": {"document": path}}),
        ("GET", f"/chunks/{chunk}", {}),
        ("GET", "/renderings", {"params": {"uri": path}}),
        ("GET", "/originals/" + path, {}),
        ("GET", "/page-images", {"params": {"document": path, "page": 1, "chunk": chunk}}),
        ("GET", "/ask", {}),
        ("POST", "/ask", {"json": {"question": question, "filters": among}}),
        ("POST", "/ask/written", {"json": {"question": question}}),
        ("GET", "/map", {"params": among}),
        ("GET", "/statistics", {}),
        ("GET", "/tags", {}),
        ("GET", "/status", {}),
        ("GET", "/jobs", {}),
        ("GET", "/profiles", {}),
    ]


def calls(world: World, chance: Random, limits: Limits = NO_LIMITS) -> list[Call]:
    """A call of each tool that only reads."""
    path, text = chance.choice(sorted(world.paths)), query(world, chance, limits)
    whole = {"include_text": chance.random() < 0.5}
    return [
        ("search", {"query": text, "top": 50, **whole, **filters(chance)}),
        ("fetch", {"citation": path}),
        ("fetch", {"citation": path[chance.randrange(len(path)) :]}),
        ("status", {}),
    ]


def leaks(text: str, world: World, limits: Limits, request: object) -> list[str]:
    """The words of documents outside the limits in a response, except those of the request, and of
    links in visible documents."""
    known = json.dumps(request) + " ".join(doc.text for doc in world.docs if doc.within(limits))
    return [
        doc.marker
        for doc in world.docs
        if not doc.within(limits) and doc.marker in text and doc.marker not in known
    ]


class Names:
    """A new name for each token."""

    count = 0

    @classmethod
    def next(cls) -> str:
        cls.count += 1
        return f"token{cls.count}"
