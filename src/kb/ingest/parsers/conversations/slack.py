"""The messages of a Slack channel on one day, as Slack exports them: with their sender and time.

A reply in a thread follows the message that it replies to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable, decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ports import Parsed, Source
from kb.types import Attributes

USERS = "users.json"  # at the top of an export
_LINK = re.compile(r"<(https?:[^|>]{1,2000}|mailto:[^|>]{1,200})(?:\|([^>]{0,500}))?>")
_MENTION = re.compile(r"<([#@!])([A-Z0-9a-z^]{1,40})(?:\|([^>]{0,80}))?>")
_MAX_DEPTH = 12
_MAX_TIME = 253_402_300_799  # the end of the year 9999
_TEXT_KEYS = frozenset(
    {
        "alt_text", "author_name", "author_subname", "comment", "description", "fallback", "footer",
        "label", "name", "plain_text", "pretext", "preview", "service_name", "text", "title", "url",
        "value",
    }
)  # fmt: skip
_NAME_KEYS = ("display_name", "real_name", "first_name", "name")  # of a profile
_EXTRA_KEYS = ("attachments", "files", "file", "comment", "blocks")  # of a message


def people(data: bytes) -> dict[str, str]:
    """The names in the list of users of an export, by id; none if it is no such list."""
    try:
        users = json.loads(decode(data))
    except (ValueError, RecursionError, Unreadable):
        return {}
    names: dict[str, str] = {}
    for user in users if isinstance(users, list) else ():
        if isinstance(user, dict):
            profile = user.get("profile")
            shown = _first(profile, *_NAME_KEYS) if isinstance(profile, dict) else ""
            names[_first(user, "id")] = shown or _first(user, "real_name", "name")
    return {key: name for key, name in names.items() if key and name}


def parse_slack(source: Source, people: Mapping[str, str]) -> Parsed:
    try:
        data = json.loads(decode(source.data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not a Slack export: {error}") from error
    messages = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
    out = Extract()
    names = {**people, **_names(messages)}
    times = {message.get("ts") for message in messages if isinstance(message.get("ts"), str)}
    for message in _in_threads(messages):
        _write(out, message, names, times)
    day = file_names.day_of(source.name)
    return Parsed(
        type="conversation",
        blocks=out.blocks,
        title=file_names.title_of(source.name),
        attributes=Attributes(date=day, created_at=dates.moment(day) if day else None),
        text=out.text,
    )


def _names(messages: list[dict[str, Any]]) -> dict[str, str]:
    """The names of people, by the id that messages mention."""
    names: dict[str, str] = {}
    for message in messages:
        profile, user = message.get("user_profile"), message.get("user")
        if isinstance(profile, dict) and isinstance(user, str):
            names[user] = _first(profile, *_NAME_KEYS)
    return {user: name for user, name in names.items() if name}


def _in_threads(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort the messages by the time of their thread, and within a thread by their own time."""
    return sorted(
        messages, key=lambda one: (_time(one, "thread_ts") or _time(one, "ts"), _time(one, "ts"))
    )


def _time(message: dict[str, Any], name: str) -> float:
    value = message.get(name)
    try:
        seconds = float(value) if isinstance(value, str | int | float) else 0.0
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < _MAX_TIME else 0.0


def _write(
    out: Extract, message: dict[str, Any], names: dict[str, str], times: Container[Any]
) -> None:
    """Write a message, unless it is empty. The message that it replies to is part of it if it was
    not sent at one of these `times`."""
    user = _first(message, "user", "bot_id")
    name = names.get(user) or _first(message, "username") or user or "Unknown"
    seconds = _time(message, "ts")
    clock = datetime.fromtimestamp(seconds, UTC).strftime("%H:%M") if seconds else ""
    text = _plain(_first(message, "text"), names)
    root = message.get("root")
    other_day = root if isinstance(root, dict) and root.get("ts") not in times else None
    extra = [
        line
        for each in _extra_texts([*(message.get(key) for key in _EXTRA_KEYS), other_day])
        if (line := one_line(_plain(each, names))) and line not in text
    ]
    lines = [*text.split("\n"), *dict.fromkeys(extra)]
    if any(line.strip() for line in lines):
        out.lines([f"**{one_line(name)}** {clock}:".replace(" :", ":"), *lines])


def _first(values: dict[str, Any], *keys: str) -> str:
    return next((text for key in keys if isinstance(text := values.get(key), str) and text), "")


def _extra_texts(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            yield from _extra_texts(each, depth + 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                if key in _TEXT_KEYS:
                    yield inner
            else:
                yield from _extra_texts(inner, depth + 1)


def _plain(text: str, names: dict[str, str]) -> str:
    """The text without Slack's markup: names instead of ids, and links as they are shown."""
    text = _LINK.sub(lambda link: f"{link[2]} ({link[1]})" if link[2] else link[1], text)
    text = _MENTION.sub(
        lambda mention: f"{mention[1]}{mention[3] or names.get(mention[2], mention[2])}", text
    )
    return unescape(text)
