from __future__ import annotations

import sys
from email.message import EmailMessage

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.email import EmailParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

parser = EmailParser()
HEAD = b"From: A <a@x.test>\nSubject: S\nDate: Sun, 1 Mar 2026 10:30:00 +0100\n"


def message(text: str = "Hello,\n\nthe slots are wider.\n") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = "Größe der Slots"
    mail["From"] = "Jürgen <j@x.test>"
    mail["To"] = "a@x.test, b@x.test"
    mail["Date"] = "Sun, 1 Mar 2026 10:30:00 +0100"
    mail["Message-ID"] = "<1@x.test>"
    mail.set_content(text)
    return mail


def parse(data: bytes) -> Parsed:
    return parser.parse(Source("some-mail.eml", data))


def text_of(data: bytes) -> str:
    return check_parsed(parse(data), b"")


def body_of(data: bytes) -> str:
    """What stands below the header fields."""
    return text_of(data).split("\n\n", 2)[2]


def test_a_typical_mail() -> None:
    mail = message()
    mail.add_alternative("<p>Hello, <b>HTML</b></p>", subtype="html")
    mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="größe.pdf")
    parsed = parse(mail.as_bytes())
    assert check_parsed(parsed, b"") == (
        "# Größe der Slots\n\n"
        "From: Jürgen <j@x.test>\nTo: a@x.test, b@x.test\nDate: Sun, 01 Mar 2026 10:30:00 +0100\n\n"
        "Hello,\n\nthe slots are wider.\n\nAttachments:\n- größe.pdf\n\nHello, HTML"
    )
    assert (parsed.type, parsed.title) == ("email", "Größe der Slots")
    assert parsed.attributes.date == "2026-03-01T09:30:00Z"
    assert parsed.attributes.metadata["from"] == "Jürgen <j@x.test>"
    assert parsed.attributes.metadata["message_id"] == "<1@x.test>"
    assert parsed.attributes.metadata["attachments"] == ["größe.pdf"]


def test_html_where_there_is_no_text() -> None:
    mail = message(" \n")
    mail.add_alternative("<h2>News</h2><ul><li>wider</ul><p style='display:none'>x", subtype="html")
    assert body_of(mail.as_bytes()) == "## News\n\n- wider"


def test_html_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(Unsupported, match="to read it, run: pip install"):
        parse(HEAD + b"Content-Type: text/html\n\n<p>x")
    assert "text" in text_of(HEAD + b"\ntext")


def test_a_mail_in_a_mail_stands_below_it() -> None:
    mail = message()
    mail.add_attachment(message("the inner one"))
    text = text_of(mail.as_bytes())
    outer, inner = text.split("Attachments:\n- Größe der Slots\n\n")
    assert "the slots are wider." in outer
    assert inner.startswith("## Größe der Slots\n\nFrom: Jürgen")
    assert inner.endswith("the inner one")


def test_mails_nested_too_deep_are_named() -> None:
    mail = message("inner")
    for _ in range(9):
        around = message("outer")
        around.add_attachment(mail)
        mail = around
    parsed = parse(mail.as_bytes())
    assert parsed.warnings == ("mails nested more than 8 levels deep are not read",)
    assert "inner" not in check_parsed(parsed, b"")


def test_texts_that_are_attached_are_read() -> None:
    mail = message()
    mail.add_attachment("chain,40 m\n", subtype="csv", filename="parts.csv")
    mail.add_attachment("<p>in HTML</p>", subtype="html", filename="page.html")
    mail.add_attachment("BEGIN:VCALENDAR\nSUMMARY:Regatta", subtype="calendar", filename="i.ics")
    mail.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="buoy.png")
    text = text_of(mail.as_bytes())
    for word in ("parts.csv", "chain,40 m", "in HTML", "SUMMARY:Regatta", "buoy.png"):
        assert word in text


def test_other_versions_add_what_they_say_besides() -> None:
    mail = message("Open this mail in a browser.")
    page = "<p hidden>Preview</p><p>Open the <b>regatta</b> page</p><p>this mail</p>"
    mail.add_alternative(page, subtype="html")
    mail["Reply-To"] = "Zacharias <z@x.test>"
    assert body_of(mail.as_bytes()) == (
        "Open this mail in a browser.\n\nZacharias <z@x.test>\nOpen the regatta page\nPreview"
    )


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable",
         b"gr=C3=B6=\n=C3=9Fe", "größe"),
        (b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64",
         b"Z3LDtsOfZQ==", "größe"),
        (b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64",
         b"Z3LDtsOfZQ", "größe"),
        (b"Content-Type: text/plain; charset=unheard-of", "größe".encode(), "größe"),
        (b"Content-Type: text/plain; charset=us-ascii", b"gr\xf6\xdfe", "größe"),
        (b"Content-Type: text/plain; charset=utf-8", b"gr\xf6\xdfe", "größe"),
        (b"Content-Type: text/html", "<meta charset=koi8-r><p>мир".encode("koi8-r"), "мир"),
        (b"X: y", b"> quoted\n> more\n\n-- \nme", "> quoted\n> more\n\n--\nme"),
    ],
)  # fmt: skip
def test_encodings(head: bytes, body: bytes, text: str) -> None:
    assert body_of(HEAD + head + b"\n\n" + body) == text


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        (b"=?utf-8?q?Gr=C3=B6=C3=9Fe?=", "Größe"),
        (b"=?utf-8?b?5Lit5paH?= x", "中文 x"),
        ("größe".encode(), "größe"),
        (b"gr\xf6\xdfe", "größe"),
        (b"one\n two", "one two"),
        (b"", "some mail"),
        (b"=?x?q", "=?x?q"),
    ],
)
def test_titles(subject: bytes, title: str) -> None:
    assert parse(b"From: a\nSubject: " + subject + b"\n\ntext").title == title


@pytest.mark.parametrize("date", [b"", b"yesterday", b"Sun, 99 Foo 2026", b"1 Jan 99999 0:0"])
def test_broken_dates(date: bytes) -> None:
    assert parse(b"From: a\nDate: " + date + b"\n\ntext").attributes.date is None


@pytest.mark.parametrize("data", [b"", b"no header\n", b"{}", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_mail_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not a mail"):
        parse(data)


def test_parts_within_parts() -> None:
    head = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2000)
    )
    with pytest.raises(Unreadable, match="RecursionError"):
        text_of(HEAD + head + b"\n\ndeep")


def test_a_line_of_one_megabyte() -> None:
    assert len(text_of(HEAD + b"\n" + b"word " * 200_000)) > 999_000


def test_damage() -> None:
    mail = message()
    mail.add_alternative("<p>Hello, <b>HTML</b></p>", subtype="html")
    mail.add_attachment(b"x" * 50, maintype="application", subtype="pdf", filename="größe.pdf")
    check_survives(parser, "a.eml", mail.as_bytes())


@pytest.mark.parametrize("field", ["To", "Subject", "Date", "Content-Type", "Message-ID"])
@pytest.mark.parametrize("unit", ["a@b.c, ", "=?utf-8?q?a?= ", "(", "a ", ";a=b", "a.", "=?a?q?"])
def test_a_header_without_end_is_read_as_it_is(field: str, unit: str) -> None:
    """Its parser would need gigabytes."""
    text = text_of(f"From: x\n{field}: x/y {unit * 50_000}\n\nbody".encode())
    assert "body" in text or field == "Content-Type"
