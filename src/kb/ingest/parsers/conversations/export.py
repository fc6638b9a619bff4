"""The conversations in an export: title and date, then the messages of each side.

ChatGPT keeps the messages of a conversation as a tree, because a message can be edited or answered
again. The branch that is shown comes first, and the messages of other branches follow it. Claude
keeps a list. Both add kinds of content over time, so every string is kept unless its key is known
to be technical.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ports import Parsed, Source

_NAMES = {
    "user": "You", "human": "You", "assistant": "Assistant", "tool": "Tool", "system": "System",
}  # fmt: skip
_TEXT_KEYS = ("parts", "text", "result", "content", "thinking", "extracted_content", "file_name")
# Keys whose values are generated, such as `content_type` (a kind) and `asset_pointer` (an address).
_TECHNICAL = re.compile(
    r"(?:.*_)?(?:id|ids|uuid|type|timestamp|slug|pointer|signature)|.*_(?:at|time)|icon_name"
)
# Marks instructions that ChatGPT does not show; every conversation has the same ones.
_HIDDEN = "is_visually_hidden_from_conversation"
# What ChatGPT puts in place of a link to a source: `cite`, `turn0search1` and so on.
_SOURCE_MARK = re.compile(" ?\ue200(?:file)?cite[^\ue200\ue201]{0,500}\ue201|[\ue203\ue204\ue206]")
_UNKNOWN_LANGUAGE = ("language", "unknown")  # of code
_PAYLOADS = ("input", "arguments")  # the input of a tool: the user or the model wrote every value
_WORD = re.compile(r"\w+")
_SHOWN = ("title", "name", "create_time", "created_at", "summary")  # of a conversation
_MAX_TIME = 253_402_300_799  # the end of the year 9999


class _Message(NamedTuple):
    role: str
    text: str


def parse_export(source: Source) -> Parsed:
    try:
        conversations = _conversations(json.loads(decode(source.data)))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not an export of conversations: {error}") from error
    known = any(
        isinstance(each, dict) and ("mapping" in each or "chat_messages" in each)
        for each in conversations
    )
    if not known and conversations:
        raise Unreadable("not an export of conversations by ChatGPT or Claude")
    out = Extract()
    for number, conversation in enumerate(conversations, 1):
        if isinstance(conversation, dict):
            _write(out, conversation)
        else:
            out.lines(_texts(conversation))
        source.on_progress(number, len(conversations))
    return Parsed(
        type="conversation",
        blocks=out.blocks,
        title=_title(conversations) or file_names.title_of(source.name),
        text=out.text,
    )


def _conversations(data: Any) -> list[Any]:
    """The conversations in a file, which contains a list, a single conversation, or an object with
    the list."""
    if isinstance(data, dict):
        wrapped = data.get("conversations")
        return wrapped if isinstance(wrapped, list) else [data]
    return data if isinstance(data, list) else []


def _title(conversations: list[Any]) -> str:
    """The title of the conversation, if the file contains only one."""
    alone = conversations[0] if len(conversations) == 1 else None
    return _name(alone) if isinstance(alone, dict) else ""


def _name(conversation: dict[str, Any]) -> str:
    name = conversation.get("title") or conversation.get("name")
    return one_line(name) if isinstance(name, str) else ""


def _write(out: Extract, conversation: dict[str, Any]) -> None:
    out.heading(1, _name(conversation) or "Conversation")
    date = _date(conversation.get("create_time") or conversation.get("created_at"))
    summary = conversation.get("summary")
    out.paragraph(
        " ".join(filter(None, (date, one_line(summary) if isinstance(summary, str) else "")))
    )
    if isinstance(conversation.get("mapping"), dict):
        messages = _tree(conversation)
    elif isinstance(conversation.get("chat_messages"), list):
        messages = _list(conversation["chat_messages"])
    else:  # an unknown shape
        out.lines(_texts({key: value for key, value in conversation.items() if key not in _SHOWN}))
        return
    for role, text in messages:
        name = _NAMES.get(role, role)
        out.lines([f"**{name}:**", *text.split("\n")])


def _tree(conversation: dict[str, Any]) -> Iterator[_Message]:
    """Yield the messages of a ChatGPT conversation: the branch that is shown, then the others."""
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
            metadata = message.get("metadata")
            known = metadata if isinstance(metadata, dict) else {}
            if known.get(_HIDDEN) is not True:
                yield from _message(role, [message.get("content"), known.get("attachments")])


def _list(messages: Iterable[Any]) -> Iterator[_Message]:
    """Yield the messages of a Claude conversation. Their `text` repeats the texts of their
    `content`."""
    for message in messages:
        if isinstance(message, dict):
            content = [message.get(key) for key in ("content", "attachments", "files")]
            yield from _message(message.get("sender"), content, message.get("text"))


def _message(role: Any, content: Any, summary: Any = None) -> Iterator[_Message]:
    """Yield the message, unless it is empty. The `summary` comes first if the content lacks any of
    its words."""
    texts = list(_texts(content))
    if isinstance(summary, str) and set(_WORD.findall(summary)) - _words(texts):
        texts.insert(0, summary)
    text = "\n\n".join(texts)
    if text.strip():
        yield _Message(role if isinstance(role, str) else "Unknown", text)


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text)}


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts in a message's content: a string, or parts of several kinds, nested to any
    depth. The main text of a part comes before its other strings."""
    stack = [(content, False)]
    while stack:
        part, whole = stack.pop()
        if isinstance(part, str):
            if (text := _SOURCE_MARK.sub("", part)).strip():
                yield text
        elif isinstance(part, list):
            stack += [(each, whole) for each in reversed(part)]
        elif isinstance(part, dict):
            others = [key for key in part if key not in _TEXT_KEYS]
            stack += [
                (part[key], whole or key in _PAYLOADS)
                for key in reversed((*_TEXT_KEYS, *others))
                if key in part
                and (whole or not (_is_technical(key) or (key, part[key]) == _UNKNOWN_LANGUAGE))
            ]
        elif whole and part is not None:
            yield str(part)


def _is_technical(key: str) -> bool:
    return _TECHNICAL.fullmatch(key.lower()) is not None


def _date(value: Any) -> str:
    """The day of a time: seconds since 1970 in exports of ChatGPT, ISO 8601 in those of Claude."""
    if isinstance(value, str):
        return value[:10]
    if isinstance(value, int | float) and 0 < value < _MAX_TIME:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d")
    return ""
