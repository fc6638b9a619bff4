"""Dialogue in plain text: recognized, and never separated from its speaker."""

from __future__ import annotations

import pytest

from kb.ingest.chunk import chunk
from kb.ingest.parse import Parsers
from kb.ingest.parsers.transcript import TranscriptParser, is_dialogue
from kb.ports import Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

TALK = """Interview, second part

Ada: When does the tide turn?
Ben Brown: At noon.
And then we sail.

Ada: Which anchor?
Ben Brown: The kedge, it holds in mud.
"""
WHATSAPP = """31.12.23, 21:15 - Ada: Happy new year
31.12.23, 21:16 - Ben: You too
01.01.24, 09:00 - Ada: Coffee?
01.01.24, 09:05 - Ben: At ten
"""
WHATSAPP_IOS = """[12/31/23, 9:15:01 PM] Ada: Happy new year
[12/31/23, 9:16:40 PM] Ben: You too
[1/1/24, 9:00:00 AM] Ada: Coffee?
[1/1/24, 9:05:11 AM] Ben: At ten
"""


@pytest.mark.parametrize("text", [TALK, WHATSAPP, WHATSAPP_IOS])
def test_dialogue_is_recognized(text: str) -> None:
    assert is_dialogue(text)
    parser = Parsers(1800, plug_ins=()).detect(Source("a.txt", text.encode()))
    assert parser is not None
    assert parser.name == "transcript"


@pytest.mark.parametrize(
    "text",
    [
        "Title: x\nAuthor: y\nDate: z\nNote: a\nSource: b\n",
        "Note: one\nplain prose\nmore prose\nand more\nNote: two\nprose\n" * 5,
        "https://a.b\nhttps://c.d\nhttps://a.b\nhttps://c.d\n",
        "",
        "a: 1\nb: 2\na: 3\nb: 4\na: 5\n",
    ],
)
def test_other_texts_are_not(text: str) -> None:
    assert not is_dialogue(text)


def test_turns_and_days() -> None:
    parsed = TranscriptParser().parse(Source("chat.txt", WHATSAPP.encode()))
    chunks = chunk(parsed.blocks, 1800)
    assert [(one.section_label, one.text.count("\n") + 1) for one in chunks] == [
        ("31.12.23", 2),
        ("01.01.24", 2),
    ]
    assert (chunks[1].spans[0].start, chunks[1].spans[0].end) == (3, 4)


def test_an_answer_stays_with_its_question() -> None:
    text = "".join(f"Ada: question {n}?\nBen: answer {n} {'word ' * 30}\n" for n in range(20))
    parsed = TranscriptParser().parse(Source("a.txt", text.encode()))
    chunks = chunk(parsed.blocks, 1800)
    assert len(chunks) > 3
    assert all(one.text.startswith(("Ada: ", "Ben: ")) for one in chunks)
    assert max(len(one.text) for one in chunks) < 1100


def test_lines_are_those_of_the_file() -> None:
    parsed = TranscriptParser().parse(Source("a.txt", TALK.encode()))
    check_parsed(parsed, TALK.encode())
    check_survives(TranscriptParser(), "a.txt", TALK.encode())
