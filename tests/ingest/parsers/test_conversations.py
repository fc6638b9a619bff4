"""ChatGPT and Claude exports: conversations by title, with the messages of each side."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parse import Parsers
from kb.ingest.parsers.conversations import ConversationsParser
from kb.ingest.secret_files import secret_reason
from kb.ports import Parsed, Source


def parse(conversations: Any) -> Parsed:
    data = json.dumps(conversations).encode()
    return ConversationsParser().parse(Source("conversations.json", data))


def node(role: str, text: Any, parent: str | None) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"message": {"author": {"role": role}, "content": content}, "parent": parent}


CHATGPT = {
    "title": "Buoy batteries",
    "create_time": 1769846400.5,
    "current_node": "d",
    "mapping": {
        "root": {"message": None, "parent": None},
        "s": node("system", "hidden instructions", "root"),
        "a": node("user", "Which battery lasts?", "s"),
        "b": node("assistant", "An earlier answer.", "a"),
        "c": node("assistant", "Lithium thionyl chloride.\n\n- light", "a"),
        "d": node("user", {"content_type": "image", "text": "a picture's words"}, "c"),
    },
}
CLAUDE = {
    "uuid": "1", "name": "Tide tables", "created_at": "2026-01-31T08:00:00.000Z", "summary": "",
    "chat_messages": [
        {"sender": "human", "text": "old form", "content": [{"type": "text", "text": "When?"}],
         "attachments": [{"file_name": "tides.csv", "extracted_content": "high, low"}]},
        {"sender": "assistant", "text": "At noon.", "content": []},
    ],
}  # fmt: skip


def test_chatgpt() -> None:
    parsed = parse([CHATGPT])
    assert parsed.text == (
        "# Buoy batteries\n\n2026-01-31\n\n**System:**\nhidden instructions\n\n"
        "**You:**\nWhich battery lasts?\n\n"
        "**Assistant:**\nLithium thionyl chloride.\n\n- light\n\n**You:**\na picture's words\n\n"
        "**Assistant:**\nAn earlier answer."
    )
    assert parsed.type == "conversation"
    assert {block.heading_path for block in parsed.blocks} == {("Buoy batteries",)}


def test_claude() -> None:
    assert parse([CLAUDE]).text == (
        "# Tide tables\n\n2026-01-31\n\n**You:**\nold form\n\nWhen?\n\nhigh, low\n\ntides.csv\n\n"
        "**Assistant:**\nAt noon."
    )


def test_which_files() -> None:
    data, parsers = json.dumps([CLAUDE]).encode(), Parsers(1800, [])

    def name(file: str, content: bytes) -> str | None:
        found = parsers.detect(Source(file, content))
        return found.name if found else None

    assert name("conversations.json", data) == "conversations"
    assert name("conversations-002.json", b"\xef\xbb\xbf " + data) == "conversations"
    assert name("conversations.json", b'{"a": 1}') != "conversations"
    assert name("conversations.json", b'[{"a": 1}]') != "conversations"  # other JSON is read
    assert name("my chats.json", data) == "conversations"
    assert name("notes.md", data) != "conversations"
    assert name("other.json", b'[{"mapping": {"a": 1}, "settings": {}}]') != "conversations"
    assert name("chat.json", json.dumps(CHATGPT).encode()) == "conversations"


def test_one_conversation_and_a_wrapped_list() -> None:
    """Programs that save a single conversation write an object, not a list."""
    alone = ConversationsParser().parse(Source("chat.json", json.dumps(CHATGPT).encode()))
    assert (alone.text, alone.title) == (parse([CHATGPT]).text, "Buoy batteries")
    wrapped = ConversationsParser().parse(
        Source("backup.json", json.dumps({"conversations": [CHATGPT, CLAUDE]}).encode())
    )
    assert wrapped.text == parse([CHATGPT, CLAUDE]).text
    assert wrapped.title == "backup"


def test_what_chatgpt_does_not_show() -> None:
    hidden = node("user", "my profile", "root")
    hidden["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}
    code = {"parent": "h", "message": {"author": {"role": "assistant"}, "content": {
        "content_type": "code", "language": "unknown", "text": "search('kedge')"}}}  # fmt: skip
    cited = node("assistant", "It holds.\ue204 \ue200cite\ue202turn0search1\ue201 In mud.", "c")
    chat = {"title": "Anchors", "mapping": {"h": hidden, "c": code, "t": cited},
            "current_node": "t"}  # fmt: skip
    assert parse([chat]).text == (
        "# Anchors\n\n**Assistant:**\nsearch('kedge')\n\n**Assistant:**\nIt holds. In mud."
    )


def test_cycles_and_odd_values() -> None:
    loop = {"mapping": {"a": node("user", "once", "b"), "b": node("user", "twice", "a"), "c": 3},
            "current_node": "a", "title": 7, "create_time": 1e99}  # fmt: skip
    assert parse([loop, {"chat_messages": [1, {"sender": 2, "content": 3}]}, 5]).text == (
        "# Conversation\n\n**You:**\ntwice\n\n**You:**\nonce\n\n# Conversation"
    )
    assert parse([]).text == ""


@pytest.mark.parametrize("data", [b'[{"a": 1}]', b"[", b"[{" * 60_000, b"[1, 2]"])
def test_files_that_are_none(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not an export of conversations"):
        ConversationsParser().parse(Source("conversations.json", data))


def content(kind: str, **fields: Any) -> dict[str, Any]:
    return {"message": {"author": {"role": "user"}, "content": {"content_type": kind, **fields}}}


def claude(**message: Any) -> dict[str, Any]:
    return {"name": "t", "chat_messages": [{"sender": "assistant", "uuid": "noise", **message}]}


@pytest.mark.parametrize(
    "conversation",
    [
        {"mapping": {"a": content("user_editable_context", user_profile="w1", about="w2")}},
        {"mapping": {"a": content("thoughts", thoughts=[{"summary": "w1", "content": "w2"}])}},
        {"mapping": {"a": content("tether_quote", title="w1", url="https://w2", text="t")}},
        {"mapping": {"a": {"message": {"metadata": {"attachments": [{"name": "w1.pdf"}]},
                                       "content": {"parts": ["w2"]}}}}},
        {"mapping": {"a": content("text", parts=[[[[[[[[[[[{"x": [["w1", "w2"]]}]]]]]]]]]]])}},
        claude(content=[{"type": "tool_use", "name": "artifacts",
                         "input": {"title": "w1", "content": "w2"}}]),
        claude(content=[{"name": "x", "input": {"type": "w1", "deep": [{"at": "w2", "id": 4711}]},
                         "type": "noise"}]),
        claude(files=[{"file_name": "w1.png", "file_uuid": "noise"}], text="w2"),
        claude(text="w1", content=[{"type": "text", "text": "w2"}]),
        {"title": "another", "messages": ["w1", {"body": {"x": "w2"}}], "id": "noise"},
        ["w1", {"a": "w2"}],
        "w1 w2",
    ],
)  # fmt: skip
def test_no_text_is_dropped(conversation: Any) -> None:
    text = parse([CLAUDE, conversation]).text or ""
    assert "w1" in text
    assert "w2" in text
    assert "noise" not in text


def test_a_text_that_repeats_the_content_is_not_written_twice() -> None:
    message = claude(text="At noon.\n\nBy the pier.",
                     content=[{"text": "At noon."}, {"text": "By the pier."}])  # fmt: skip
    assert (parse([message]).text or "").count("noon") == 1


def test_deep_content() -> None:
    deep: Any = "bottom"
    for _ in range(300):
        deep = [{"parts": deep}]
    assert "bottom" in (parse([claude(content=deep)]).text or "")


@pytest.mark.parametrize(
    "member",
    [
        # Slack signs the addresses of the files in an export.
        '"url_private": "https://files.slack.com/a.js?t=xoxe-%s"',
        '"token": "%s"',
        '"text": "postgres://ada:%s@db.example/tides"',
    ],
)
def test_conversations_are_not_settings(member: str) -> None:
    token = "1173-48Qz7-9kLmTt2WvYb3Rd8"
    messages = f'[\n{{\n"type": "message",\n"ts": "1459032936.000002",\n{member % token}\n}}\n]\n'
    assert secret_reason("2026-03-26.json", messages.encode()) is None
    settings = messages.replace('"ts"', '"level"')
    assert secret_reason("settings.json", settings.encode()) is not None
