"""The conversations of an export: title and date, then what each side wrote.

ChatGPT keeps the messages of a conversation as a tree, because a message can be edited or answered
again. The branch that is shown comes first, and the messages of other branches follow it. Claude
keeps a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ports import Parsed, Source

_NAMES = {"user": "You", "human": "You", "assistant": "Assistant", "tool": "Tool"}
_HIDDEN_ROLES = ("system",)
_TEXT_KEYS = ("text", "result", "content", "thinking", "extracted_content", "file_name")
_MAX_DEPTH = 8  # of parts in parts
_MAX_TIME = 253_402_300_799  # the end of the year 9999


class _Message(NamedTuple):
    role: str
    text: str


def parse_export(source: Source) -> Parsed:
    try:
        conversations = json.loads(decode(source.data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not an export of conversations: {error}") from error
    known = [each for each in conversations if isinstance(each, dict)
             and ("mapping" in each or "chat_messages" in each)]  # fmt: skip
    if not known and conversations:
        raise Unreadable("not an export of conversations by ChatGPT or Claude")
    out = Extract()
    for number, conversation in enumerate(known, 1):
        _write(out, conversation)
        source.on_progress(number, len(known))
    return Parsed(
        type="conversation",
        blocks=out.blocks,
        title=file_names.title_of(source.name),
        text=out.text,
    )


def _write(out: Extract, conversation: dict[str, Any]) -> None:
    title = conversation.get("title") or conversation.get("name")
    out.heading(1, one_line(title) if isinstance(title, str) else "Conversation")
    date = _date(conversation.get("create_time") or conversation.get("created_at"))
    summary = conversation.get("summary")
    out.paragraph(
        " ".join(filter(None, (date, one_line(summary) if isinstance(summary, str) else "")))
    )
    is_tree = isinstance(conversation.get("mapping"), dict)
    for role, text in _tree(conversation) if is_tree else _list(conversation):
        name = _NAMES.get(role, role)
        out.lines([f"**{name}:**", *text.split("\n")])


def _tree(conversation: dict[str, Any]) -> Iterator[_Message]:
    """Yield the messages of ChatGPT: those of the branch that is shown, then the others."""
    nodes = {key: node for key, node in conversation["mapping"].items() if isinstance(node, dict)}
    branch: dict[str, None] = {}
    at = conversation.get("current_node")
    while isinstance(at, str) and at in nodes and at not in branch:
        branch[at] = None
        at = nodes[at].get("parent")
    others = [key for key in nodes if key not in branch]
    for key in (*reversed(branch), *others):
        message = nodes[key].get("message")
        if isinstance(message, dict):
            author = message.get("author")
            role = author.get("role") if isinstance(author, dict) else None
            yield from _message(role, message.get("content"))


def _list(conversation: dict[str, Any]) -> Iterator[_Message]:
    """Yield the messages of Claude."""
    messages = conversation.get("chat_messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            content = message.get("content") or message.get("text")
            files = message.get("attachments")
            yield from _message(message.get("sender"), [content, files])


def _message(role: Any, content: Any) -> Iterator[_Message]:
    name = role if isinstance(role, str) else "Unknown"
    text = "\n\n".join(_texts(content))
    if text.strip() and name not in _HIDDEN_ROLES:
        yield _Message(name, text)


def _texts(content: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts in a content: a string, or parts of several kinds."""
    if isinstance(content, str):
        yield content
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part, depth + 1)
    elif isinstance(content, dict):
        for key in ("parts", *_TEXT_KEYS):
            yield from _texts(content.get(key), depth + 1)


def _date(value: Any) -> str:
    """The day of a time: seconds since 1970 in exports of ChatGPT, ISO 8601 in those of Claude."""
    if isinstance(value, str):
        return value[:10]
    if isinstance(value, int | float) and 0 < value < _MAX_TIME:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d")
    return ""
