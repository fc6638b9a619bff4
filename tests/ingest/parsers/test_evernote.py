"""Evernote exports: notes under their titles."""

from __future__ import annotations

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parsers.evernote import EvernoteParser
from kb.ports import Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

EXPORT = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export4.dtd">
<en-export export-date="20240501T120000Z" application="Evernote" version="10">
<note><title>Mooring &amp; chain</title><created>20240309T081500Z</created>
<updated>20240310T081500Z</updated><tag>boat</tag><tag>winter</tag>
<note-attributes><author>Ada</author><source-url>https://example.org</source-url></note-attributes>
<content><![CDATA[<?xml version="1.0"?><!DOCTYPE en-note SYSTEM "http://x">
<en-note><h2>Spares</h2><div>two shackles</div><en-todo checked="true"/>paint
<table><tr><td>a</td><td>b</td></tr></table></en-note>]]></content>
<resource><data encoding="base64">iVBORw0KGgo=</data><mime>image/png</mime>
<resource-attributes><file-name>hull.png</file-name></resource-attributes></resource></note>
<note><title>Second</title><content><![CDATA[<en-note>other words</en-note>]]></content></note>
</en-export>"""


def test_notes() -> None:
    parsed = EvernoteParser().parse(Source("boat.enex", EXPORT))
    assert (parsed.text or "").split("\n\n") == [
        "# Mooring & chain",
        "2024-03-09, 2024-03-10\n#boat #winter\nAda\nhttps://example.org",
        "## Spares",
        "two shackles",
        "paint",
        "a | b",
        "Attachments:\n- hull.png",
        "# Second",
        "other words",
    ]
    assert parsed.attributes.tags == ("boat", "winter")
    assert (parsed.type, parsed.title) == ("evernote", "boat")
    check_parsed(parsed, EXPORT)


@pytest.mark.parametrize(
    "data", [b"", b"<a/>", b"<en-export>", b'<!DOCTYPE x [<!ENTITY a "b">]><x/>']
)
def test_other_files(data: bytes) -> None:
    with pytest.raises(Unreadable):
        EvernoteParser().parse(Source("a.enex", data))


def test_damaged_files() -> None:
    check_survives(EvernoteParser(), "a.enex", EXPORT)


def test_tasks_and_attachments() -> None:
    export = b"""<en-export><note><title>a</title><content><![CDATA[<en-note>body</en-note>]]>
    </content><task><title>buy chain</title><taskStatus>open</taskStatus>
    <taskNote>ten metres</taskNote></task><task><title>paint</title>
    <taskStatus>completed</taskStatus></task><resource><mime>application/pdf</mime>
    <resource-attributes><file-name>survey.pdf</file-name></resource-attributes></resource>
    </note></en-export>"""
    parsed = EvernoteParser().parse(Source("a.enex", export))
    assert "- [ ] buy chain\n  ten metres\n- [x] paint" in (parsed.text or "")
    assert parsed.warnings == ("attachments are not read: survey.pdf",)
