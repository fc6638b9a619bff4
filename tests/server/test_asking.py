"""Written answers over HTTP: streams, failures, conversations, and clients that stop."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from kb.config import AskConfig
from tests.chat_endpoint import Endpoint, WordJudge, endpoint
from tests.library.injections import INJECTIONS
from tests.server.conftest import Running, Serve, until

__all__ = ["endpoint"]  # a fixture
NOTE = "The gateway retries a failed upload at most seven times. The pause doubles each time."
QUESTION = "how many times does the gateway retry a failed upload"


@pytest.fixture
def writing(serve: Serve, endpoint: Endpoint) -> Running:
    """A server with a language model."""
    running = serve()
    settings = AskConfig(endpoint_url=endpoint.url, endpoint_model="tiny", timeout_s=20.0)
    running.kb.config = replace(running.kb.config, ask=settings)
    judge: Any = WordJudge()
    running.kb.judge = lambda: judge  # type: ignore[method-assign]
    for number in range(12):
        running.kb.add(f"Dinghy {number} is stored in the winter shed beside the crane.")
    running.kb.add(NOTE, title="Gateway")
    return running


def events(running: Running, question: str = QUESTION, **more: Any) -> list[tuple[str, Any]]:
    answer = running.client.post("/ask/written", json={"question": question, **more})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    parsed = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        parsed.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return parsed


def test_the_model_is_named(writing: Running, serve: Serve) -> None:
    assert writing.client.get("/ask").json()["model"] == "tiny"
    writing.kb.config = replace(writing.kb.config, ask=AskConfig())
    assert writing.client.get("/ask").json() == {"model": None, "host": None}


def test_an_answer_streams(writing: Running, endpoint: Endpoint) -> None:
    endpoint.say("The gateway retries a failed ", "upload. [1]", " It sleeps. [9]")
    (first, sent), *rest = events(writing)
    assert first == "sent"
    assert sent["messages"] == endpoint.requests[0]["messages"]
    assert sent["citations"][0]["uri"].startswith("note:")
    assert [name for name, _ in rest] == ["delta", "delta", "delta", "sentence", "sentence", "done"]
    assert [data["state"] for name, data in rest if name == "sentence"] == ["supported", "unknown"]


def test_nothing_is_sent_if_nothing_is_relevant(writing: Running, endpoint: Endpoint) -> None:
    assert events(writing, "which emperor introduced paper money") == [("done", {})]
    assert endpoint.requests == []


def test_the_client_sends_the_conversation(writing: Running, endpoint: Endpoint) -> None:
    endpoint.say("The pause doubles. [1]")
    events(writing, "and then?", turns=[{"question": QUESTION, "answer": "Seven. [1]"}])
    contents = [each["content"] for each in endpoint.requests[0]["messages"]]
    assert contents[1:3] == [QUESTION, "Seven. [1]"]


@pytest.mark.parametrize(
    "body",
    [
        {"question": 7},
        {"question": "x", "turns": [7]},
        {"question": "x", "turns": [{"question": "x"}]},
        {"question": "x", "turns": [{"question": "x", "answer": "y"}] * 4},
        {"question": "x", "model": "other"},
        {"question": "x", "filters": {"nonsense": 1}},
    ],
)
def test_refused_requests(writing: Running, endpoint: Endpoint, body: dict[str, Any]) -> None:
    assert writing.client.post("/ask/written", json=body).status_code == 422
    assert endpoint.requests == []


def test_without_a_model(writing: Running) -> None:
    writing.kb.config = replace(writing.kb.config, ask=AskConfig())
    answer = writing.client.post("/ask/written", json={"question": QUESTION})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    "line",
    [b"data: {not json}\n\n", b"data: []\n\n", b'data: {"error": {"message": "no memory"}}\n\n'],
)
def test_a_malformed_stream_ends_with_an_error(
    writing: Running, endpoint: Endpoint, line: bytes
) -> None:
    endpoint.say("The gateway retries a failed upload. [1] ")
    endpoint.lines = [endpoint.lines[0], line]
    names = [name for name, _ in events(writing)]
    assert names[:2] == ["sent", "delta"]
    assert names[-1] == "error"


def test_a_server_that_refuses_or_hangs(writing: Running, endpoint: Endpoint) -> None:
    endpoint.status, endpoint.body = 429, b'{"error": {"message": "too many"}}'
    assert "too many" in events(writing)[-1][1]["message"]
    endpoint.status, endpoint.body, endpoint.hang = 200, b"", True
    settings = replace(writing.kb.config.ask, timeout_s=0.5)
    writing.kb.config = replace(writing.kb.config, ask=settings)
    name, error = events(writing)[-1]
    assert (name, "in time" in error["message"]) == ("error", True)


def test_a_client_that_leaves_stops_the_answer(writing: Running, endpoint: Endpoint) -> None:
    """The endpoint hangs in the middle of its answer; the thread must not wait for it."""
    endpoint.say("The gateway retries ")
    endpoint.lines.pop()
    endpoint.hang = True
    pool = writing.app.state.context.answers
    with ExitStack() as stack:
        answer = stack.enter_context(
            writing.client.stream("POST", "/ask/written", json={"question": QUESTION})
        )
        lines = answer.iter_lines()
        assert any("delta" in line for line in lines)
        assert pool.task_count == 1
    until(lambda: pool.task_count == 0)


@pytest.mark.parametrize("attack", INJECTIONS)
def test_instructions_change_nothing(writing: Running, endpoint: Endpoint, attack: str) -> None:
    """The endpoint obeys the attack: it repeats it, cites what does not exist, and calls tools."""
    writing.kb.add(f"{NOTE}\n\n{attack}", title="Gateway retry upload")
    before = writing.client.get("/documents", params={"limit": 100}).json()
    endpoint.say(f"{attack} [99]")
    call = {"choices": [{"delta": {"tool_calls": [{"function": {"name": "delete_all"}}]}}]}
    endpoint.lines.insert(0, b"data: %s\n\n" % json.dumps(call).encode())
    answer = events(writing)
    assert {name for name, _ in answer} == {"sent", "delta", "sentence", "done"}
    states = {data["state"] for name, data in answer if name == "sentence"}
    assert "supported" not in states
    assert len(endpoint.requests) == 1
    assert "tools" not in endpoint.requests[0]
    assert writing.client.get("/documents", params={"limit": 100}).json() == before
