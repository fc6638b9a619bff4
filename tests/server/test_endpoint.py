"""A server whose encoder is an endpoint that fails, hangs or lies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.config import Config, SearchConfig, ServeConfig
from kb.models.endpoint import EndpointEncoder
from tests.models.serving import (
    Answer,
    RawServer,
    ReceivedRequest,
    Server,
    raw_serving,
    serving,
)
from tests.models.test_connections import slow_header
from tests.models.test_endpoint import SURROGATE, Script, config, embed
from tests.server.conftest import Running, start, taken, until


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def endpoint(script: Script) -> Iterator[Server]:
    with serving(script) as started:
        yield started


def settings(url: str, *, retriever_timeout_ms: int = 2000, **models: Any) -> Config:
    return replace(
        config(url, **models),
        serve=ServeConfig(port=0),
        search=SearchConfig(retriever_timeout_ms=retriever_timeout_ms),
    )


@contextmanager
def served(path: Path, configured: Config) -> Iterator[Running]:
    """A server whose store has one note, with a vector."""
    with ExitStack() as stack:
        kb = stack.enter_context(KnowledgeBase(path / "kb.sqlite", config=configured))
        if not kb.exists():
            kb.add("the banana boat")
            kb.embed()
        running = start(kb, None, ())
        stack.callback(running.stop)
        stack.callback(running.client.close)
        yield running


def test_an_error_text_that_is_not_unicode(
    tmp_path: Path, script: Script, endpoint: Server
) -> None:
    with served(tmp_path, settings(endpoint.url)) as running:
        script.answers = [Answer(400, SURROGATE)] * 99
        answers = [
            running.client.post("/search", json={"query": "banana", "explain": True}),
            running.client.post("/search", json={"query": "boat", "mode": "vector"}),
            running.client.get("/search/compare-methods", params={"q": "banana boat"}),
        ]
        for each in answers:
            assert each.status_code == 200, each.text
            assert r"lone \\ud800 here" in each.text


class Endpoint:
    """Responds, or not."""

    def __init__(self) -> None:
        self.silent = False
        self.asked = 0  # while it was silent

    def __call__(self, asked: ReceivedRequest) -> Answer:
        self.asked += self.silent
        return Answer(mute=True) if self.silent else embed(asked)


def without_pause(running: Running) -> None:
    encoder = running.kb.encoder()
    assert isinstance(encoder, EndpointEncoder)
    encoder._breaker._pause_s = 0.05


def degraded(running: Running, query: str) -> list[str]:
    """The parts that did not work for this search, which must find the note."""
    found = running.search(query)
    assert found["returned"] == 1
    return [each["part"] for each in found["degraded"]]


def test_searches_do_not_wait_for_a_silent_endpoint(tmp_path: Path) -> None:
    """The first one waits for a response, the others do not; they use the endpoint again once it
    is back."""
    endpoint = Endpoint()
    with serving(endpoint) as server:
        configured = settings(server.url, retriever_timeout_ms=1000, endpoint_timeout_s=2.0)
        with served(tmp_path, configured) as running:
            running.search("boat")
            without_pause(running)
            endpoint.silent = True
            with ThreadPoolExecutor(12) as clients:
                found = list(clients.map(lambda at: degraded(running, f"banana {at}"), range(24)))
            assert found == [["dense"]] * 24
            assert endpoint.asked < 24  # the others did not wait for a response
            assert running.search("banana", mode="lexical")["degraded"] == []
            endpoint.silent = False
            until(lambda: degraded(running, f"boat {time.monotonic()}") == [])


def test_a_slow_header_frees_its_worker(tmp_path: Path) -> None:
    """This works from the start, when nothing is known about the endpoint."""
    with serving(embed) as healthy, served(tmp_path, settings(healthy.url)):
        pass
    slow = True

    def respond(server: RawServer, connection: Any) -> None:
        if slow:
            slow_header(server, connection)
            return
        body = b'{"data": [{"embedding": [1, 2, 3]}]}'
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with raw_serving(respond) as server:
        configured = settings(server.url, retriever_timeout_ms=100, endpoint_timeout_s=0.3)
        with served(tmp_path, configured) as running:
            without_pause(running)
            with ThreadPoolExecutor(8) as clients:
                found = list(clients.map(lambda at: degraded(running, f"boat {at}"), range(8)))
            assert found == [["dense"]] * 8
            slow = False
            until(lambda: degraded(running, f"banana {time.monotonic()}") == [])


@pytest.mark.parametrize("asked", [{"mode": "lexical"}, {"profile": "lexical"}], ids=str)
def test_searches_by_words_have_their_own_threads(
    tmp_path: Path, endpoint: Server, asked: dict[str, str]
) -> None:
    with served(tmp_path, settings(endpoint.url)) as running:
        context = running.app.state.context
        with taken(context.searches, context.limits.searches_at_once):
            assert running.search("banana", **asked)["returned"] == 1
            response = running.client.get("/similar", params={"to": "1"})
            assert response.status_code == 200, response.text
