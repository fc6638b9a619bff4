"""Mailboxes: each message is read like a file of its own."""

from __future__ import annotations

import mailbox
from email.message import EmailMessage
from pathlib import Path

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parsers.email import EmailParser
from kb.ports import Parsed, Source


def parse(data: bytes) -> Parsed:
    return EmailParser().parse(Source("inbox.mbox", data))


def mail(subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"] = subject, "ada@example.org"
    message.set_content(text)
    return message


def test_a_mailbox_of_the_standard_library(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "inbox.mbox")
    box.add(mail("Tide", "The tide turns.\n\nFrom here on it falls.\n"))
    box.add(mail("Grüße", "Bis bald.\n"))
    box.close()
    parsed = parse((tmp_path / "inbox.mbox").read_bytes())
    single = [EmailParser().parse(Source("a.eml", bytes(each))) for each in (
        mail("Tide", "The tide turns.\n\nFrom here on it falls.\n"), mail("Grüße", "Bis bald.\n"),
    )]  # fmt: skip
    assert parsed.text == "\n\n".join(each.text or "" for each in single)
    assert "\n\nFrom here on it falls." in parsed.text
    assert (parsed.type, parsed.title) == ("email", "inbox")
    headings = {block.heading_path for block in parsed.blocks}
    assert headings == {path for each in single for block in each.blocks
                        for path in [block.heading_path]}  # fmt: skip
    lines = parsed.text.split("\n")
    for block in parsed.blocks:
        assert block.span.start is not None
        assert block.text == "\n".join(lines[block.span.start - 1 : block.span.end])


def test_line_ends_of_windows() -> None:
    one = b"From a\r\nSubject: one\r\n\r\ntext\r\n\r\n"
    parsed = parse(one + one.replace(b"one", b"two"))
    assert parsed.text is not None
    assert "one" in parsed.text
    assert "two" in parsed.text
    assert "From a" not in parsed.text


DATED = b"From ada@example.org Thu Jan  1 00:00:00 2026\n"


@pytest.mark.parametrize(
    "first",
    [DATED, b"From - Thu Jan 01 00:00:00 2026\r\n", b"From 17@x Thu Jan 01 00:00:00 +0000 2026\n"],
)
@pytest.mark.parametrize("following", [b"", b"Note: w3x like a header\n", b"w3x\n"])
def test_a_line_of_a_text_that_begins_like_a_separator(first: bytes, following: bytes) -> None:
    """Mailboxes of Thunderbird and others do not quote such lines."""
    message = b"Subject: %s\n\nw1x\n\nFrom w2x on it falls.\n" + following + b"\nw4x\n\n"
    data = (first + message % b"one") + (first + message % b"two")
    parsed = parse(data.replace(b"\r\n", b"\n").replace(b"\n", first[-2:].lstrip(b"26")))
    assert parsed.text is not None
    assert parsed.warnings == ()
    assert {block.heading_path for block in parsed.blocks} == {("one",), ("two",)}
    words = ["w1x", "From w2x on it falls.", "w4x", *(["w3x"] if following else [])]
    assert [parsed.text.count(word) for word in words] == [2] * len(words)
    assert "Jan" not in parsed.text


def test_text_that_is_no_message_is_kept() -> None:
    parsed = parse(b"before it\n\n" + DATED + b"Subject: good\n\ntext\n\nFrom b\n\x01 no header\n")
    assert parsed.text is not None
    for words in ("before it", "good", "From b", "no header"):
        assert words in parsed.text
    assert "Jan" not in parsed.text
    broken = parse(DATED + b"no header\nat all\n\n" + DATED + b"Subject: good\n\ntext\n")
    assert broken.text is not None
    assert "no header\nat all" in broken.text
    assert "good" in broken.text
    assert broken.warnings == (
        "message 1 is kept as plain text: not an e-mail: it does not begin with a header",
    )


@pytest.mark.parametrize("data", [b"", b"Subject: x\n\ntext", b"From a\n\x00"])
def test_files_that_are_none(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(data)
