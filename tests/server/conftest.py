"""A real server on its own port, for every test that needs one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from kb import KnowledgeBase
from kb.config import Config, ServeConfig
from kb.server.api import create_app
from kb.server.guard import AccessRules
from kb.server.lifecycle import ApiServer
from kb.server.worker_pool import WorkerPool
from tests.models.weightless import Weightless, unexamined

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PATIENCE_S = 30.0  # until a test gives up; nothing waits that long when all is well


@dataclass(frozen=True)
class Running:
    """A running server, and a client with its address."""

    kb: KnowledgeBase
    url: str
    port: int
    client: httpx.Client
    server: ApiServer
    app: FastAPI
    thread: threading.Thread

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()

    def search(self, query: str, **asked: Any) -> dict[str, Any]:
        answer = self.client.post("/search", json={"query": query} | asked)
        assert answer.status_code == 200, answer.text
        shape: dict[str, Any] = answer.json()
        return shape


Serve = Callable[..., Running]


def start(kb: KnowledgeBase, rules: AccessRules | None, ingest_from: tuple[Path, ...]) -> Running:
    kb.create()
    app = create_app(kb, rules, ingest_from=ingest_from)
    listening, ports = threading.Event(), list[int]()

    def ready(port: int) -> None:
        ports.append(port)
        listening.set()

    server = ApiServer(app, kb.config.serve, ready)
    thread = threading.Thread(target=server.run, name="served", daemon=True)
    thread.start()
    assert listening.wait(PATIENCE_S)
    url = f"http://127.0.0.1:{ports[0]}"
    client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
    return Running(kb, url, ports[0], client, server, app, thread)


def settings(**limits: Any) -> Config:
    return replace(unexamined(), serve=replace(ServeConfig(), **({"port": 0} | limits)))


HEADERS = {"X-KB-Request": "test"}


def put(running: Running, name: str, data: bytes) -> httpx.Response:
    return running.client.put(f"/uploads/{name}", content=data, headers=HEADERS)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve(rules, encoder=..., max_body_bytes=...)`: a server with its own store."""
    with ExitStack() as stack:

        def served(
            rules: AccessRules | None = None,
            *,
            encoder: Any = "none",
            ingest_from: tuple[Path, ...] = (),
            **limits: Any,
        ) -> Running:
            path = tmp_path / "served" / "kb.sqlite"
            kb = stack.enter_context(
                KnowledgeBase(path, config=settings(**limits), encoder=encoder)
            )
            running = start(kb, rules, ingest_from)
            stack.callback(running.stop)
            stack.callback(running.client.close)
            return running

        yield served


FILES = {
    "notes/retry.md": "# The retry storm\n\nIt began with a gateway.\n\n## What ended it\n\n"
    "Jitter ended the retry storm. Every gateway waits a random time.\n",
    "notes/battery.md": "---\ntags: [hardware, field]\nkind: lesson\n---\n# Battery\n\n"
    "Cold nights drain the battery of a buoy.\n",
    "code/pump.py": "def drain_queue(frames):\n    '''Send what waits.'''\n    return frames\n",
}


@pytest.fixture
def filled(serve: Serve, library: Callable[..., Path]) -> Running:
    """A server over three files; words only."""
    running = serve()
    running.kb.ingest(library(FILES))
    return running


@contextmanager
def taken(pool: WorkerPool, count: int) -> Iterator[None]:
    """Keep `count` tasks running or waiting in the pool inside the block."""
    go = threading.Event()

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def work() -> None:
        request = Request({"type": "http", "method": "GET", "headers": []}, never)
        await asyncio.gather(*(pool.run(request, lambda _: go.wait()) for _ in range(count)))

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        until(lambda: pool.task_count == count)
        yield
    finally:
        go.set()
        thread.join(PATIENCE_S)


def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds; the test fails if it never does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- the web page ---------------------------------------------------------------------------------

Open = Callable[..., "Page"]


class Watch:
    """Records the requests and the console messages of a page."""

    def __init__(self, context: BrowserContext) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # The page reports failed requests itself, which other tests check.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """`open_page(running, "#q=x", width=390)`: opens a new page. At the end, no page has sent a
    request to another server or violated its content security policy."""
    contexts: list[tuple[BrowserContext, Watch, str]] = []

    def opened(running: Running, where: str = "", *, width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append((context, Watch(context), running.url))
        page = context.new_page()
        page.goto(f"{running.url}/{where}")
        return page

    yield opened
    for context, watch, url in contexts:
        context.close()
        outside = [each for each in watch.asked if not each.startswith((url, "data:", "blob:"))]
        assert (outside, watch.complaints) == ([], [])


@pytest.fixture
def wordy(filled: Running) -> Running:
    """A server without vectors."""
    return filled


@pytest.fixture
def knowing(serve: Serve, library: Callable[..., Path]) -> Running:
    """A server with vectors."""
    running = serve(encoder=Weightless())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    return running
