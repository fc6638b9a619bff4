"""Answers of a language model: streams, failures, wrong citations and injected instructions. The
endpoint is a real HTTP server with scripted responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.config import AskConfig, Config, ModelsConfig
from kb.errors import ConfigError, EndpointError, ModelBroken, Offline
from kb.library.conversation import Conversation, Delta, split_sentences
from kb.types import WrittenSentence
from tests.chat_endpoint import Endpoint, WordJudge, endpoint
from tests.library.injections import INJECTIONS

__all__ = ["endpoint"]  # a fixture
NOTE = "The gateway retries a failed upload at most seven times. The pause doubles each time."
QUESTION = "how many times does the gateway retry a failed upload"
KEY = "sk-secret-4711"


@pytest.fixture
def kb(tmp_path: Path, endpoint: Endpoint) -> Iterator[KnowledgeBase]:
    settings = AskConfig(endpoint_url=endpoint.url, endpoint_model="tiny", timeout_s=20.0)
    config = Config(ask=settings, models=ModelsConfig(encoder="none"))
    judge: Any = WordJudge()
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, judge=judge) as opened:
        for number in range(12):
            opened.add(f"Dinghy {number} is stored in the winter shed beside the crane.")
        opened.add(NOTE, title="Gateway")
        yield opened


def ask(kb: KnowledgeBase, question: str = QUESTION) -> list[WrittenSentence]:
    return [each for each in Conversation(kb).ask(question) if isinstance(each, WrittenSentence)]


# --- answers --------------------------------------------------------------------------------------


def test_an_answer_streams_and_its_citations_are_checked(
    kb: KnowledgeBase, endpoint: Endpoint
) -> None:
    endpoint.say("The gateway retries a failed ", "upload at most seven times", ". [1]", "\n")
    conversation = Conversation(kb)
    events = list(conversation.ask(QUESTION))
    assert sum(isinstance(each, Delta) for each in events) == 4
    (sentence,) = [each for each in events if isinstance(each, WrittenSentence)]
    assert sentence.text == "The gateway retries a failed upload at most seven times. [1]"
    assert sentence.state == "supported"
    assert sentence.citations[0].uri.startswith("note:")
    assert endpoint.requests[0]["messages"] == conversation.sent
    assert endpoint.requests[0]["stream"] is True


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("The gateway retries a failed upload. [1]", "supported"),
        ("Emperors of the eleventh century issued paper money. [1]", "unsupported"),
        ("The gateway retries a failed upload at most 9 times. [1]", "unsupported"),
        ("The gateway retries a failed upload. [7]", "unknown"),
        ("The gateway retries a failed upload. [1][99]", "unknown"),
        ("The gateway retries a failed upload. [0]", "unknown"),
        ("The gateway retries a failed upload.", "uncited"),
    ],
)
def test_citations_are_checked(
    kb: KnowledgeBase, endpoint: Endpoint, text: str, state: str
) -> None:
    endpoint.say(text)
    assert [each.state for each in ask(kb)] == [state]


def test_without_a_judge_citations_are_not_called_supported(
    kb: KnowledgeBase, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kb, "judge", lambda: None)
    endpoint.say("The gateway retries a failed upload. [1]")
    assert [each.state for each in ask(kb)] == ["unchecked"]


def test_nothing_is_sent_if_nothing_is_relevant(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    conversation = Conversation(kb)
    assert list(conversation.ask("which emperor introduced paper money")) == []
    assert endpoint.requests == []
    assert conversation.sent == []


def test_a_follow_up_continues_the_conversation(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    conversation = Conversation(kb)
    endpoint.say("Seven times. [1]")
    list(conversation.ask(QUESTION))
    list(conversation.ask("and then?"))
    roles = [message["role"] for message in endpoint.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert endpoint.requests[1]["messages"][1]["content"] == QUESTION
    assert NOTE in endpoint.requests[1]["messages"][3]["content"]


def test_a_server_that_does_not_stream(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    endpoint.type = "application/json"
    content = "The gateway retries a failed upload. [1]"
    endpoint.body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
    assert [each.state for each in ask(kb)] == ["supported"]


def test_a_refusal_is_shown_as_it_is(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    delta = {"refusal": "I cannot help with that."}
    event = {"choices": [{"delta": delta, "finish_reason": "stop"}]}  # without [DONE]
    endpoint.lines = [b"data: %s\n\n" % json.dumps(event).encode()]
    assert ask(kb) == [WrittenSentence("I cannot help with that.", (), "uncited")]


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"data: {not json}\n\n",
        b"data: []\n\n",
        b"data: 7\n\n",
        b'data: {"choices": 7}\n\n',
        b'data: {"choices": [7]}\n\n',
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": ["x"]}}]}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: \xff\xfe\n\n",
    ],
)
def test_malformed_streams(kb: KnowledgeBase, endpoint: Endpoint, line: bytes) -> None:
    endpoint.lines = [line]
    with pytest.raises(ModelBroken):
        ask(kb)


def test_comments_and_empty_choices_are_skipped(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    endpoint.say("The gateway retries a failed upload. [1]")
    endpoint.lines = [b": hello\n\n", b"event: x\n", b'data: {"choices": []}\n\n', *endpoint.lines]
    assert [each.state for each in ask(kb)] == ["supported"]


def test_an_endless_answer_is_cut_off(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    endpoint.say(*["x " * 10_000] * 20)
    with pytest.raises(ModelBroken, match="too long"):
        ask(kb)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 302])
def test_errors_of_the_server(kb: KnowledgeBase, endpoint: Endpoint, status: int) -> None:
    endpoint.status, endpoint.body = status, b'{"error": {"message": "no such model"}}'
    with pytest.raises(EndpointError, match=r"no such model|HTTP 302"):
        ask(kb)


def test_an_error_in_the_stream(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    endpoint.lines = [b'data: {"error": {"message": "out of memory"}}\n\n']
    with pytest.raises(EndpointError, match="out of memory"):
        ask(kb)


def test_an_answer_that_is_cut_off_is_an_error(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    """A server that crashes closes the connection, like a server that has finished."""
    endpoint.say("The gateway retries a failed upload. [1]", "Half an ans")
    endpoint.lines.pop()
    with pytest.raises(EndpointError, match="before the end of the answer"):
        ask(kb)


def test_a_server_that_hangs(kb: KnowledgeBase, endpoint: Endpoint) -> None:
    endpoint.say("The gateway")
    endpoint.lines.pop()
    endpoint.hang = True
    kb.config = replace(kb.config, ask=replace(kb.config.ask, timeout_s=0.5))
    with pytest.raises(EndpointError, match="in time"):
        ask(kb)


def test_a_server_that_is_gone(kb: KnowledgeBase) -> None:
    gone = replace(kb.config.ask, endpoint_url="http://127.0.0.1:9/v1")
    kb.config = replace(kb.config, ask=gone)
    with pytest.raises(EndpointError, match="failed"):
        ask(kb)


def test_the_key_is_sent_and_never_shown(
    kb: KnowledgeBase, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_ASK_KEY", KEY)
    endpoint.status, endpoint.body = 401, f'{{"error": "bad key {KEY}"}}'.encode()
    with pytest.raises(EndpointError) as raised:
        ask(kb)
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in raised.value.message


def test_settings(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    kb.config = replace(kb.config, ask=AskConfig(endpoint_url="http://example.org/v1"))
    with pytest.raises(ConfigError, match="endpoint_model"):
        ask(kb)
    remote = AskConfig(endpoint_url="http://example.org/v1", endpoint_model="m")
    kb.config = replace(kb.config, ask=remote)
    monkeypatch.setenv("KB_OFFLINE", "1")
    with pytest.raises(Offline):
        ask(kb)
    kb.config = replace(kb.config, ask=AskConfig())
    with pytest.raises(ConfigError, match="no language model"):
        ask(kb)


# --- injected instructions ------------------------------------------------------------------------


@pytest.mark.parametrize("attack", INJECTIONS)
def test_instructions_in_documents_change_nothing(
    kb: KnowledgeBase, endpoint: Endpoint, attack: str
) -> None:
    """The endpoint obeys the attack completely: it repeats it, cites what does not exist, and calls
    tools. kb sends the document as marked data, calls nothing, and writes nothing."""
    # Without the original, of which this is nearly a copy: the two would be shown as one hit.
    kb.remove(*(document.doc_path for document in kb.documents() if document.title == "Gateway"))
    note = kb.add(f"{NOTE}\n\n{attack}", title="Gateway retry upload")
    before = {document.doc_path: document for document in kb.documents()}
    tool = {"function": {"name": "delete_all", "arguments": "{}"}, "id": "1", "type": "function"}
    endpoint.say(f"{attack} [99]")
    call = {"choices": [{"delta": {"tool_calls": [tool]}}]}
    endpoint.lines.insert(0, b"data: %s\n\n" % json.dumps(call).encode())
    conversation = Conversation(kb)
    written = [each for each in conversation.ask(QUESTION) if isinstance(each, WrittenSentence)]
    assert not any(each.state == "supported" for each in written)
    system, user = endpoint.requests[0]["messages"]
    assert len(endpoint.requests) == 1
    assert "tools" not in endpoint.requests[0]
    mark = system["content"].split("<passage-")[1].split(" ")[0]
    assert attack not in system["content"]
    passages, _, question = user["content"].rpartition(f"</passage-{mark}>")
    assert attack in passages
    assert question == f"\n\nQuestion: {QUESTION}"
    assert passages.count(f"</passage-{mark}>") == len(conversation.citations) - 1
    assert {document.doc_path: document for document in kb.documents()} == before
    assert note.doc_path in before


def test_there_are_fifty_attacks() -> None:
    assert len(set(INJECTIONS)) >= 50


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("One. [1] Two. [2]", ["One. [1]", " Two. [2]"]),
        ("One [1]. Two [2].", ["One [1].", " Two [2]."]),
        ("One.", ["One."]),
        ("One. [1", ["One. [1"]),
        ("- a [1]\n- b [2]\n", ["- a [1]\n", "- b [2]\n"]),
        ("Version 1.5 is out [1]. Yes.", ["Version 1.5 is out [1].", " Yes."]),
    ],
)
def test_sentences_end_with_their_citations(text: str, parts: list[str]) -> None:
    assert split_sentences(text) == parts
