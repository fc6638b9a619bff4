from __future__ import annotations

import re
import sys
import time
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
    """The text below the header fields."""
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


def test_html_without_a_text_version() -> None:
    mail = message(" \n")
    mail.add_alternative("<h2>News</h2><ul><li>wider</ul><p style='display:none'>x", subtype="html")
    assert body_of(mail.as_bytes()) == "## News\n\n- wider"


def test_html_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(Unsupported, match="to read it, run: pip install"):
        parse(HEAD + b"Content-Type: text/html\n\n<p>x")
    assert "text" in text_of(HEAD + b"\ntext")


def test_an_attached_message_follows_the_text() -> None:
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
    assert parsed.warnings == ("messages nested more than 8 levels deep are not read",)
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


def test_other_versions_add_only_new_words() -> None:
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
        (b"Content-Type: text/plain; charset=utf-8", "größe über 中文 ".encode() + b"\xe9 x",
         "größe über 中文 \ufffd x"),
        (b"X: y", "数据库的索引用来加快查询。".encode("gb18030"), "数据库的索引用来加快查询。"),
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
def test_a_file_that_is_not_an_email_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not an e-mail"):
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


# --- parts with wrong types -----------------------------------------------------------------------

MIXED = b'Content-Type: multipart/mixed; boundary="b"\n\n'
BASE64 = b"Content-Transfer-Encoding: base64"
TEXT = b"Content-Type: text/plain\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Type: multipart/mixed; boundary=b\n\nwords\n",
        b"Content-Type: multipart/mixed\n\n--b\n\nwords\n--b--\n",
        b"Content-Type: multipart/alternative; boundary=other\n\n--b\n\nwords\n--b--\n",
        MIXED + b"--b\nContent-Type: multipart/related; boundary=c\n\nwords\n--b--\n",
        MIXED + b"words\n--b\n\nx\n--b--\n",
        MIXED + b"--b\n\nx\n--b--\nwords\n",
        MIXED + b"--b\nContent-Description: words\n\nx\n--b--\n",
        b"Content-Type: application/octet-stream\n\nwords\n",
        b"Content-Type: application/json\n\n{\"a\": \"\\u0077ords\"}\n",
        b"Content-Type: application/octet-stream\n" + BASE64 + b"\n\nd29yZHM=\n",
        b"Content-Type: application/x-note; charset=utf-16\n" + BASE64 + b"\n\n//53AG8AcgBkAHMA\n",
        b"Content-Type: nonsense\n\nwords\n",
        MIXED + b'--b\nContent-Type: application/xml; name="a.xml"\n\n<a>words</a>\n--b--\n',
        b"Content-Type: message/rfc822\n\n\nwords\n",
        b"Content-Type: message/rfc822\n\nFrom: x\n\nwords\n",
        b"Content-Type: message/rfc822\n" + BASE64 + b"\n\nU3ViamVjdDogeAoKd29yZHMK\n",
        MIXED + b"--b\nContent-Type: message/rfc822\n\nno header\n\nwords\n--b--\n",
        MIXED + b"--b\nContent-Type: message/delivery-status\n\nA: x\n\nStatus: words\n--b--\n",
        MIXED + b"--b\nContent-Type: message/disposition-notification\n\nA: words\n--b--\n",
        b"Content-Type: message/partial; id=x; number=2; total=3\n\nmore words\n",
        b"Content-Type: message/external-body; access-type=URL; URL=words\n\nContent-ID: x\n",
        b"Content-Type: message/external-body; access-type=x\n\nContent-ID: <words>\n\nx",
        TEXT + BASE64 + b"\n\nThese are words.\n",
        TEXT + BASE64 + b"\n\nThese\nare\nwords\n",
        TEXT + BASE64 + b"\n\neA==\n-- \nfooter with words\n",
        TEXT + b"Content-Transfer-Encoding: unheard-of\n\nwords\n",
        b"Content-Type: text/plain; format=flowed; delsp=yes\n\nwo \nr \nds and\n",
        b"Content-Type: image/svg+xml\n\n<svg><text>words</text></svg>\n",
        b"Subject: second words\n\nx\n",
        b"Cc: a\nCc: words\n\nx\n",
    ],
)  # fmt: skip
def test_odd_parts_are_read(rest: bytes) -> None:
    parsed = parse(HEAD + rest)
    assert "words" in re.findall(r"\w+", check_parsed(parsed, b""))
    assert not parsed.warnings


def test_soft_breaks_without_a_space() -> None:
    head = HEAD + b"Content-Type: text/plain; format=flowed; delsp=yes\n\n"
    body = b"Donau \ndampf\n> quo \n> ted\n>> deeper \n> less\n-- \nme"
    assert body_of(head + body) == "Donaudampf\n> quoted\n>> deeper\n> less\n--\nme"
    assert len(body_of(head + b"word \n" * 100_000)) > 390_000


def test_parts_that_are_not_text_are_named() -> None:
    mail = message()
    mail.add_attachment(b"%PDF-1.4\n\0", maintype="application", subtype="pdf", filename="a.pdf")
    mail.add_attachment(b"PK\x03\x04", maintype="application", subtype="zip", filename="b.zip")
    mail.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="c.png")
    mail.add_attachment(b"\0\1", maintype="application", subtype="octet-stream")
    assert parse(mail.as_bytes()).warnings == (
        "attachments are not read: a.pdf, b.zip, application/octet-stream",
    )


def test_an_encrypted_body_is_named() -> None:
    kind = (
        b"Content-Type: application/pkcs7-mime; name=smime.p7m\nContent-Transfer-Encoding: base64"
    )
    assert "smime.p7m" in str(parse(HEAD + kind + b"\n\nMIAGCSqGSIb3\n").warnings)


def test_explanations_for_old_programs_and_signatures_are_left_out() -> None:
    part = b"--b\nContent-Type: application/pgp-signature\n\niQ\n--b--\n"
    preamble = b"This is a multi-part message in MIME format.\n"
    parsed = parse(HEAD + MIXED + preamble + b"--b\n\nx\n" + part)
    assert body_of(HEAD + MIXED + preamble + b"--b\n\nx\n" + part) == "x"
    assert parsed.warnings == ()


def test_many_headers_of_one_name_take_little_time() -> None:
    headers = "".join(f"To: a{number}@example.org\n" for number in range(20_000))
    started = time.thread_time()
    parsed = EmailParser().parse(Source("a.eml", f"{headers}Subject: x\n\ntext\n".encode()))
    assert time.thread_time() - started < 6  # twelve, if each is parsed
    assert "a0@example.org" in (parsed.text or "")


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("gb2312", "gbk", "朱镕基说话"), ("euc-kr", "cp949", "똠방각하"),
        ("ks_c_5601-1987", "cp949", "똠방각하"), ("shift_jis", "cp932", "①番と髙橋"),
        ("big5", "cp950", "恒碁"), ("iso-8859-1", "cp1252", "“smart” 50 € – dash"),
        ("iso-8859-8-i", "iso8859-8", "שלום"), ("iso-8859-9", "cp1254", "“ığdır”"),
        ("us-ascii", "utf-8", "Grüße"),
    ],
)  # fmt: skip
def test_labels_that_mean_more_than_they_say(label: str, codec: str, text: str) -> None:
    head = HEAD + f"Content-Type: text/plain; charset={label}\n\n".encode()
    assert text in text_of(head + text.encode(codec))


def test_invalid_bytes_of_a_known_encoding_are_reported() -> None:
    head = HEAD + b"Content-Type: text/plain; charset=shift_jis\n\n"
    parsed = parse(head + "漢字とかな".encode("cp932") + b"\x81 \x81\n")
    assert "漢字とかな" in (parsed.text or "")
    assert any("cannot be decoded" in warning for warning in parsed.warnings)
