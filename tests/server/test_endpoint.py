"""A server whose encoder is an endpoint that fails, hangs or lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.config import Config, SearchConfig, ServeConfig
from tests.models.serving import Answer, Server, serving
from tests.models.test_endpoint import SURROGATE, Script, config
from tests.server.conftest import Running, start


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
