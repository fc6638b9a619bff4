"""Mutated requests, many and fast: every route, method and header, and MCP over HTTP.

    python -m tests.server.fuzz --count 1000000 --seed 1

Most go to the applications themselves, in this process; one of `--sockets` goes to a real server,
as mutated bytes. Whatever is sent, there is an answer within seconds, no status of 500 or above but
503 and 507, and every error is `error.v1`. The request number INDEX of a seed is always the same:
`--first INDEX --count 1` sends it once more.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_from_bytes, unquote, urlencode

from kb import KnowledgeBase
from kb.config import Config, ServeConfig
from kb.mcp.server import create_app as create_mcp
from kb.server.api import create_app
from kb.server.guard import AccessRules
from kb.server.lifecycle import ApiServer
from tests.server.fuzz_values import HEADERS, METHODS, PATHS, VALUES, hostile_text

_HANG_S = 20.0
_RESET_EVERY = 4_000  # requests, after which the store is restored
_ALLOWED_5XX = (503, 507)
_ERROR_KEYS = {"code", "message", "hint"}


@dataclass(frozen=True)
class FuzzRequest:
    """A request. `body` is bytes, or a value that becomes JSON."""

    method: str
    path: str
    weight: float = 1.0
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    is_mcp: bool = False

    @property
    def data(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        try:
            return b"" if self.body is None else json.dumps(self.body).encode()
        except RecursionError:  # nested by two mutations, too deeply for Python's encoder
            return b'{"metadata":' + b"[" * 2_000 + b"]" * 2_000 + b"}"

    @property
    def target(self) -> str:
        return self.path + (f"?{urlencode(self.query, errors='replace')}" if self.query else "")

    def raw(self) -> bytes:
        """The request as bytes for a connection that is closed afterwards."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        data = self.data
        if data:
            lines.append(f"Content-Length: {len(data)}")
        text = "\r\n".join([*lines, "Connection: close", "", ""])
        return text.encode("utf-8", "surrogatepass") + data


_JSON = (("Host", "localhost"), ("Content-Type", "application/json"))
_PLAIN = (("Host", "localhost"),)
_FORCED = (*_PLAIN, ("X-KB-Request", "1"))
_MCP = (*_JSON, ("Accept", "application/json, text/event-stream"))
_FILTERS = {"tags": ["field"], "tags_any": ["hardware", "x"], "type": ["markdown"],
            "kind": "lesson", "scope": "global", "lang": "en", "path_glob": "lib/**/*.md",
            "trust_min": "secondary", "after": "2020-01-01", "before": "2030-01-01"}  # fmt: skip


def _post(path: str, body: Any, weight: float = 1.0) -> FuzzRequest:
    return FuzzRequest("POST", path, weight, body=body, headers=_JSON)


def _get(path: str, weight: float = 1.0, **query: str) -> FuzzRequest:
    return FuzzRequest("GET", path, weight, tuple(query.items()), headers=_PLAIN)


def _tool(name: str, weight: float = 0.3, **arguments: Any) -> FuzzRequest:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}  # fmt: skip
    return FuzzRequest("POST", "/mcp", weight, body=call, headers=_MCP, is_mcp=True)


REQUESTS = (
    _post("/search", {"query": "retry storm", "top": 3, "mode": "lexical", "match": "any",
                      "filters": _FILTERS, "explain": True, "profile": "default"}, 5),
    _post("/search", {"query": "'jitter OR storm*'", "threshold": 0.1, "rerank": False,
                      "budget_ms": 50}, 3),
    _post("/search/highlights", {"query": "retry", "texts": ["It retries.", "No storm."]}, 2),
    _post("/search/evaluate", {"queries": {"q": "storm"}, "qrels": {"q": {"lib/notes/retry.md": 1}},
                               "methods": ["lexical"], "measures": ["nDCG@10"], "gain": "linear",
                               "baseline": "lexical"}, 0.02),
    _get("/search/compare-methods", 0.2, q="retry storm", top="3", tags="field"),
    _get("/similar", 0.5, to="lib/notes/retry.md#L3", top="3", explain="true"),
    _get("/profiles", 0.3),
    _get("/documents", 2, limit="5", offset="0", kind="lesson", path_glob="lib/**", tags="field"),
    _post("/documents", {"text": "The gateway retries.", "title": "A", "tags": ["a", "b"],
                         "kind": "lesson", "scope": "global", "trust": "primary", "lang": "en",
                         "ttl": "7d", "metadata": {"a": {"b": [1, 2, {"c": None}]}}}, 1),
    _get("/documents/lib/notes/retry.md", 2),
    FuzzRequest("DELETE", "/documents/note:1", 0.5, headers=_FORCED),
    _get("/passages", 2, uri="lib/notes/retry.md#L1-L3", quiet="true"),
    _get("/chunks", 1, document="lib/notes/retry.md", limit="2", offset="0"),
    _get("/chunks/1", 2),
    _get("/tags", 0.5),
    _post("/tags", {"document": "lib/notes/retry.md", "add": ["gateway"], "remove": []}, 0.5),
    _post("/ingest", {"paths": ["lib"], "force": False, "dry_run": True}, 0.2),
    FuzzRequest("PUT", "/uploads/a.md", 0.1, body=b"# A\n\nText of an upload.\n", headers=_FORCED),
    _post("/embed", {"retry": True}, 1),
    _get("/jobs", 0.3),
    _get("/events", 0.5),
    _get("/status", 0.3),
    _get("/health", 1),
    _get("/metrics", 0.2),
    _get("/openapi.json", 0.1),
    _get("/", 0.3),
    _get("/assets/app.js", 0.3),
    _tool("search", query="retry storm", top=3, tags=["field"], mode="lexical", max_chars=600),
    _tool("fetch", citation="lib/notes/retry.md#L1-L3", offset=0),
    _tool("add", 0.1, text="A note of an agent.", tags=["agent"], ttl="7d"),
    _tool("status"),
    FuzzRequest("POST", "/mcp", 0.2, body={"jsonrpc": "2.0", "id": 7, "method": "tools/list"},
          headers=_MCP, is_mcp=True),
)  # fmt: skip
_WEIGHTS = [each.weight for each in REQUESTS]


# --- mutations ------------------------------------------------------------------------------------


def request(seed: int, index: int) -> FuzzRequest:
    """Request number `index`: a valid one, changed in up to three places."""
    rng = random.Random(seed * 1_000_003 + index)
    asked = rng.choices(REQUESTS, _WEIGHTS)[0]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        asked = rng.choice(_MUTATIONS)(asked, rng)
    return asked


def _in_body(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    if isinstance(asked.body, bytes) or asked.body is None:
        return _in_bytes(asked, rng)
    try:
        body = copy.deepcopy(asked.body)
        places = list(_places(body))
    except RecursionError:  # nested by an earlier mutation
        return asked
    holder, key = rng.choice(places) if places else ({}, "")
    what = rng.random()
    if what < 0.7 and places:
        holder[key] = rng.choice(VALUES)(rng)
    elif what < 0.8 and places:
        del holder[key]
    elif isinstance(body, dict):
        body[hostile_text(rng)] = rng.choice(VALUES)(rng)
    else:
        body = rng.choice(VALUES)(rng)
    return replace(asked, body=body)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _in_bytes(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    return replace(asked, body=garbled(asked.data, rng))


def garbled(data: bytes, rng: random.Random) -> bytes:
    """`data` with bytes changed, put in, cut out or repeated."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(changed))
        what = rng.randrange(5)
        if what == 0:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
        elif what == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif what == 2 and changed:
            changed[at % len(changed)] = rng.randrange(256)
        elif what == 3:
            changed[at:at] = changed[at : at + rng.randint(1, 40)] * rng.randint(1, 50)
        else:
            del changed[at:]
    return bytes(changed)


def _in_query(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    query = list(asked.query)
    text = hostile_text(rng)
    if query and rng.random() < 0.7:
        at = rng.randrange(len(query))
        name, _ = query[at]
        query[at] = (name, text)
        query += [query[at]] * (rng.random() < 0.2) * rng.randint(1, 30)
    else:
        query.append((rng.choice(("limit", "offset", "q", "uri", "tags", "type", text)), text))
    return replace(asked, query=tuple(query))


def _in_path(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    if asked.is_mcp and rng.random() < 0.9:
        return _in_body(asked, rng)
    if rng.random() < 0.3:
        return replace(asked, path=rng.choice(PATHS))
    head, _, tail = asked.path.rpartition("/")
    odd = rng.random() < 0.3
    end = (
        quote_from_bytes(rng.randbytes(4))
        if odd
        else quote(hostile_text(rng)[:300], safe="", errors="replace")
    )
    return replace(asked, path=f"{head}/{tail if rng.random() < 0.3 else ''}{end}")


def _in_headers(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    headers = list(asked.headers)
    if headers and rng.random() < 0.3:
        del headers[rng.randrange(len(headers))]
    name, values = rng.choice(HEADERS)
    value = rng.choice(values)
    headers += [(name, value)] * (150 if rng.random() < 0.02 else 1)
    return replace(asked, headers=tuple(headers))


def _in_method(asked: FuzzRequest, rng: random.Random) -> FuzzRequest:
    return replace(asked, method=rng.choice(METHODS))


_MUTATIONS: tuple[Callable[[FuzzRequest, random.Random], FuzzRequest], ...] = (
    _in_body, _in_body, _in_body, _in_query, _in_query, _in_bytes, _in_path, _in_headers,
    _in_method,
)  # fmt: skip


# --- in this process ------------------------------------------------------------------------------


@dataclass
class Report:
    """The responses, and those that are wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def check(self, label: str, asked: FuzzRequest, status: int, kind: str, body: bytes) -> None:
        self.statuses[status] += 1
        why = _fault(asked, status, kind, body)
        if why:
            self.faults.append(f"{label}: {why}\n    {asked!r:.2000}\n    {body[:300]!r}")


def _fault(asked: FuzzRequest, status: int, kind: str, body: bytes) -> str | None:
    if status == 0:
        return "no answer"
    if status >= 500 and status not in _ALLOWED_5XX:
        return f"status {status}"
    if asked.method == "HEAD" or status in (204, 304) or (asked.is_mcp and status == 202):
        return None
    if not kind.startswith("application/json"):
        return f"an error as {kind}" if status >= 400 and not asked.is_mcp else None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if status < 400 or (asked.is_mcp and isinstance(value, dict) and "jsonrpc" in value):
        return None
    is_error = isinstance(value, dict) and set(value) == _ERROR_KEYS
    return None if is_error and all(isinstance(v, str) for v in value.values()) else "no error.v1"


async def call(app: Any, asked: FuzzRequest) -> tuple[int, str, bytes]:
    """The status, content type and body of the application's response."""
    path, _, query = asked.target.partition("?")
    data, done, parts = asked.data, asyncio.Event(), list[bytes]()
    start: dict[str, Any] = {}
    is_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": data, "more_body": False}
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        parts.append(message.get("body", b""))
        if not message.get("more_body") or asked.path == "/events":
            done.set()

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": asked.method,
        "scheme": "http", "path": unquote(path), "raw_path": path.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"), "root_path": "", "state": {},
        "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2),
        "headers": [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
                    for name, value in asked.headers],
    }  # fmt: skip
    await app(scope, receive, send)
    kinds = [
        v.decode("latin-1") for n, v in start.get("headers", ()) if n.lower() == b"content-type"
    ]
    return start.get("status", 0), (kinds or [""])[0], b"".join(parts)


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """Start `app`, and stop it at the end."""
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    running = asyncio.ensure_future(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, messages.get, told.put)
    )
    await messages.put({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await messages.put({"type": "lifespan.shutdown"})
        await running


class Campaign:
    """A store with three files, the two applications over it, and their responses."""

    def __init__(self, folder: Path, seed: int) -> None:
        from tests.server.conftest import FILES

        self.seed = seed
        self.report = Report()
        self._library = folder / "lib"
        for name, text in FILES.items():
            (self._library / name).parent.mkdir(parents=True, exist_ok=True)
            (self._library / name).write_text(text, encoding="utf-8")
        config = replace(Config(), serve=replace(ServeConfig(), port=0))
        self.kb = KnowledgeBase(folder / "kb.sqlite", config=config, encoder="none")
        self._reset()

    def _reset(self) -> None:
        """Remove what requests have added, and restore what they have removed."""
        self.kb.ingest(self._library)
        while rest := [each.doc_path for each in self.kb.documents(limit=500)
                       if not each.doc_path.startswith("lib/")]:  # fmt: skip
            self.kb.remove(*rest)

    async def run(self, first: int, count: int, sockets: int, at_once: int = 4) -> None:
        web, agents = (
            create_app(self.kb, ingest_from=(self._library,)),
            create_mcp(self.kb, AccessRules()),
        )
        numbers = iter(range(first, first + count))
        async with lifespan(web), lifespan(agents):
            with _server(self.kb, self._library) as port:

                async def send_some() -> None:
                    for index in numbers:
                        if sockets and index % sockets == 0:
                            await self._over_socket(port, index)
                        else:
                            await self._in_process(web, agents, index)
                        if index % _RESET_EVERY == 0:
                            await asyncio.to_thread(self._reset)

                await asyncio.gather(*(send_some() for _ in range(at_once)))

    async def _in_process(self, web: Any, agents: Any, index: int) -> None:
        asked = request(self.seed, index)
        started = time.monotonic()
        status, kind, body = 0, "", b""
        try:
            async with asyncio.timeout(_HANG_S):
                status, kind, body = await call(agents if asked.is_mcp else web, asked)
        except Exception as error:  # noqa: BLE001  # of whatever kind: it is what is looked for
            body = repr(error).encode()
        self.report.slowest_s = max(self.report.slowest_s, time.monotonic() - started)
        self.report.check(f"{self.seed}:{index}", asked, status, kind, body)

    async def _over_socket(self, port: int, index: int) -> None:
        rng = random.Random(self.seed * 7 + index)
        asked = request(self.seed, index)
        raw = asked.raw()
        sent = garbled(raw, rng) if rng.random() < 0.7 else raw
        answer = await asyncio.to_thread(_exchange, port, sent)
        self.report.statuses[int(answer[9:12]) if answer[9:12].isdigit() else 0] += 1
        if answer[9:10] == b"5" and int(answer[9:12]) not in _ALLOWED_5XX:
            self.report.faults.append(f"{self.seed}:{index}: {sent[:2000]!r}\n    {answer[:300]!r}")
        elif answer and not answer.startswith(b"HTTP/1.1 "):
            self.report.faults.append(f"{self.seed}:{index}: no HTTP\n    {answer[:300]!r}")


def _exchange(port: int, sent: bytes) -> bytes:
    """The beginning of the server's response; empty if it waits for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=_HANG_S) as raw:
        try:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            return raw.recv(4096)
        except OSError:  # closed before all was sent
            return b""


@contextmanager
def _server(kb: KnowledgeBase, folder: Path) -> Iterator[int]:
    """A real server in a thread, and its port."""
    listening, ports = threading.Event(), list[int]()

    def ready(port: int) -> None:
        ports.append(port)
        listening.set()

    server = ApiServer(create_app(kb, ingest_from=(folder,)), kb.config.serve, ready)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert listening.wait(_HANG_S)
    try:
        yield ports[0]
    finally:
        server.should_exit = True
        thread.join()


def fuzz(folder: Path, *, count: int, seed: int, first: int = 1, sockets: int = 20) -> Report:
    """Send `count` requests, and return their responses. One in `sockets` goes over a socket; 0
    means none."""
    campaign = Campaign(folder, seed)
    with campaign.kb:
        asyncio.run(campaign.run(first, count, sockets))
    return campaign.report


def main() -> int:
    import logging

    parser = argparse.ArgumentParser(description="Send mutated requests to kb's servers.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--sockets", type=int, default=20)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-fuzz-") as folder:
        report = fuzz(Path(folder), **vars(options))
    seconds = time.monotonic() - started
    for each in report.faults[:20]:
        sys.stdout.write(f"{each}\n")
    statuses = ", ".join(f"{status}: {n}" for status, n in sorted(report.statuses.items()))
    rate = f"{options.count} requests in {seconds:.0f} s ({options.count / seconds:.0f} a second)"
    sys.stdout.write(f"{rate}, the slowest took {report.slowest_s:.2f} s; {statuses}\n")
    sys.stdout.write(f"{len(report.faults)} faults\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
