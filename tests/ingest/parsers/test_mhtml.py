"""Saved web pages: the page, without its pictures and styles."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parsers.mhtml import MhtmlParser
from kb.ports import Source
from tests.ingest.parsers.mutations import check_parsed, check_survives


def saved(body: str = "<title>Tides</title><p>The größte tide</p>", frame: str = "html") -> bytes:
    message = EmailMessage()
    message["Subject"] = "Tides"
    message["Snapshot-Content-Location"] = "https://example.org/tides"
    message.set_content("ignored")
    message.clear_content()
    message.add_related(body.encode(), "text", "html")
    message.get_payload(0).set_param("charset", "utf-8")  # type: ignore[union-attr]
    message.add_related(b"\x89PNG", "image", "png")
    message.add_related(b"<p>a frame", "text", frame)
    return message.as_bytes()


def test_a_page() -> None:
    data = saved()
    parsed = MhtmlParser().parse(Source("tides.mhtml", data))
    assert parsed.text == "The größte tide\n\na frame"
    assert (parsed.type, parsed.title) == ("html", "Tides")
    assert parsed.attributes.metadata["url"] == "https://example.org/tides"
    check_parsed(parsed, data)


def test_a_frame_of_plain_text() -> None:
    parsed = MhtmlParser().parse(Source("tides.mhtml", saved(frame="plain")))
    assert parsed.text == "The größte tide\n\n<p>a frame"


@pytest.mark.parametrize("data", [b"", b"Subject: x\n\ntext", b"\0\0"])
def test_files_without_a_page(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not a saved web page"):
        MhtmlParser().parse(Source("a.mht", data))


def test_damaged_files() -> None:
    check_survives(MhtmlParser(), "a.mhtml", saved())
