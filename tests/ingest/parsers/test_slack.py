"""Slack exports: the messages of a channel on one day."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parse import Parsers
from kb.ingest.parsers.conversations import ConversationsParser
from kb.ports import Parsed, Source

DAY: list[dict[str, Any]] = [
    {
        "type": "message", "user": "U1", "ts": "1709971200.000100",
        "thread_ts": "1709971200.000100",
        "text": "Where is the <https://example.org|pilot book>? cc <@U2>",
        "user_profile": {"display_name": "ada", "real_name": "Ada Byron"},
    },
    {"type": "message", "user": "U2", "ts": "1709974800.0", "text": "Other &amp; unrelated"},
    {
        "type": "message", "user": "U2", "ts": "1709975000.0", "thread_ts": "1709971200.000100",
        "text": "In the locker", "user_profile": {"display_name": "", "real_name": "Ben"},
        "files": [{"name": "locker.jpg", "title": "The cupboard"}],
        "blocks": [{"elements": [{"text": "In the locker"}]}],
    },
]  # fmt: skip


def parse(data: Any) -> Parsed:
    return ConversationsParser().parse(Source("2024-03-09.json", json.dumps(data).encode()))


def test_messages_in_threads() -> None:
    parsed = parse(DAY)
    assert (parsed.text or "").split("\n\n") == [
        "**ada** 08:00:\nWhere is the pilot book (https://example.org)? cc @Ben",
        "**Ben** 09:03:\nIn the locker\nlocker.jpg\nThe cupboard",
        "**Ben** 09:00:\nOther & unrelated",
    ]
    assert (parsed.type, parsed.attributes.date) == ("conversation", "2024-03-09")


def test_which_files() -> None:
    parsers = Parsers(1800, plug_ins=())
    found = parsers.detect(Source("2024-03-09.json", json.dumps(DAY).encode()))
    other = parsers.detect(Source("2024-03-09.json", b'[{"height": 4}]'))
    assert found is not None
    assert other is not None
    assert (found.name, other.name) == ("conversations", "code")


@pytest.mark.parametrize("data", [[1, None, {"ts": []}, {"ts": "x", "text": 4}], {}, []])
def test_values_of_other_types(data: Any) -> None:
    assert parse(data).text == ""


def test_files_that_are_no_json() -> None:
    with pytest.raises(Unreadable, match="not a Slack export"):
        ConversationsParser().parse(Source("2024-03-09.json", b"[{"))


def test_texts_of_bots_and_files() -> None:
    alert = {
        "title": "Disk", "text": "full", "fields": [{"title": "Host", "value": "tp-11"}],
        "footer": "by monit", "author_name": "Watch", "color": "danger",
    }  # fmt: skip
    remark = {"name": "a.txt", "initial_comment": {"comment": "see page two"}}
    text = parse([
        {"ts": "1709971200.1", "username": "alert", "text": "", "attachments": [alert]},
        {"ts": "1709971201.1", "user": "U1", "text": "", "files": [remark]},
        {"ts": "1709971202.1", "user": "U1", "text": "", "comment": {"comment": "and three"}},
        {"ts": "1709971203.1", "user": "U1", "text": "yes", "root": {"ts": "1.1", "text": "tea?"}},
        {"ts": "1709971204.1", "user": "U1", "text": "", "root": {"ts": "1709971200.1",
                                                                  "text": "twice"}},
    ]).text or ""  # fmt: skip
    for words in ("Host", "tp-11", "by monit", "Watch", "see page two", "and three", "tea?"):
        assert words in text
    assert "danger" not in text
    assert "twice" not in text
