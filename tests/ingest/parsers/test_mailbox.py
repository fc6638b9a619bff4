"""Mailboxes: each message is read like a separate file."""

from __future__ import annotations

import mailbox
from email.message import EmailMessage
from pathlib import Path

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parse import Parsers
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


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("1709971200.M1P22.host:2,S", "email"),
        ("1709971200.V801I4M2.mail.example.org,S=1234:2,RS", "email"),
        ("1709971200.M1P22.host", "email"),
        ("1709971200.M1P22.host;2,S", "email"),
        ("52:2,", "email"),
        ("message.emlx", "email"),
    ],
)
def test_messages_of_a_maildir(name: str, wanted: str) -> None:
    data = b"From: ada@example.org\nSubject: Fees\n\nPlease pay.\n"
    if name.endswith("emlx"):
        data = b"%d\n%b<plist>ignored</plist>" % (len(data), data)
    parser = Parsers(1800, plug_ins=()).detect(Source(name, data))
    assert parser is not None
    assert parser.name == wanted
    parsed = parser.parse(Source(name, data))
    assert (parsed.title, parsed.text) == ("Fees", "# Fees\n\nFrom: ada@example.org\n\nPlease pay.")


def test_other_files_with_such_names() -> None:
    for name in ("1709971200.M1P22.host", "52:2,"):
        parser = Parsers(1800, plug_ins=()).detect(Source(name, b"no headers"))
        assert parser is None or parser.name != "email"


@pytest.mark.parametrize("name", ["Inbox", "2025", "lists.debian"])
def test_mailboxes_without_a_suffix(name: str) -> None:
    one = (
        b"From - Mon Jan 01 00:00:00 2026\nX-Mozilla-Status: 0001\nSubject: =?utf-8?B?VGlkZQ==?=\n"
        b"Content-Transfer-Encoding: base64\n\nVGhlIHRpZGUgdHVybnMu\n\n"
    )
    source = Source(name, one * 2)
    parser = Parsers(1800, plug_ins=()).detect(source)
    assert parser is not None
    parsed = parser.parse(source)
    assert (parsed.type, (parsed.text or "").count("The tide turns.")) == ("email", 2)
    assert "# Tide" in (parsed.text or "")


def test_a_patch_is_no_mailbox() -> None:
    patch = b"From 0123abc Mon Sep 17 00:00:00 2001\nFrom: Ada <a@x>\nSubject: [PATCH] a\n\n-b\n"
    parser = Parsers(1800, plug_ins=()).detect(Source("0001-a.patch", patch))
    assert parser is None or parser.name != "email"
