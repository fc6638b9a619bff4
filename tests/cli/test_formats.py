"""Files of many formats, as a user has them: ingested, found, cited and opened."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_open import Calls, calls, wait_for
from tests.ingest.parsers import office
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.test_bookmarks import PAGE
from tests.ingest.parsers.test_conversations import CHATGPT, CLAUDE
from tests.ingest.parsers.test_evernote import EXPORT
from tests.ingest.parsers.test_mhtml import saved
from tests.ingest.parsers.test_slack import DAY
from tests.ingest.parsers.test_transcript import WHATSAPP

__all__ = ["calls"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")

FILES: dict[str, bytes] = {
    "talk.pptx": office.pptx([
        office.shape(office.paragraph("Anchoring"), kind="title")
        + office.shape(office.paragraph("the kedge holds in mud")),
    ]),
    "stock.xlsx": office.xlsx(
        {"Spares": ["<c t='s'><v>0</v></c><c><v>4</v></c>"]}, strings=["<t>optode foil</t>"]
    ),
    "letter.odt": office.opendocument("<text:p>Dear harbourmaster</text:p>"),
    "costs.ods": office.opendocument(
        "<table:table><table:table-row><table:table-cell><text:p>tarpaulin</text:p>"
        "</table:table-cell></table:table-row></table:table>"
    ),
    "plan.canvas": json.dumps({"nodes": [{"type": "text", "text": "paint the hull"}]}).encode(),
    "refs.bib": b"@book{x,\n  author = {Slocum, Joshua},\n  title = {Sailing Alone}\n}\n",
    "refs.ris": b"TY  - BOOK\nTI  - Bermuda triangle\nER  - \n",
    "inbox.mbox": b"From a\nSubject: Mooring fees\n\nPlease pay the invoice.\n",
    "conversations.json": json.dumps([CHATGPT, CLAUDE]).encode(),
    "2024-03-09.json": json.dumps(DAY).encode(),
    "refs.json": b'[\n{"type": "book", "title": "Vermeers Hut",\n"author": []}\n]\n',
    "1709971200.M1P22.host:2,S": b"From: ada@example.org\nSubject: Berth\n\nThe pontoon sinks.\n",
    "letter.rtf": rb"{\rtf1 The windlass jams\par}",
    "tide.1": b'.TH TIDE 1\n.SH NAME\ntide \\- predict \\fIneap\\fR heights\n',
    "talk.vtt": b"WEBVTT\n\n00:01.000 --> 00:03.000\nthe halyard slipped\n",
    "call.txt": WHATSAPP.replace("Coffee", "Marmalade").encode(),
    "bookmarks.html": PAGE,
    "saved.mhtml": saved(),
    "boat.enex": EXPORT,
    "export.zip": zipped({f"Rigging {'0a' * 16}.md": "# Rigging\n\nturnbuckle torque\n"}),
}  # fmt: skip
# The query, the type, the citation, and the program that opens it.
FOUND = [
    ("kedge mud", "pptx", "lib/talk.pptx#L1-L3", "xdg-open"),
    ("optode foil", "xlsx", "lib/stock.xlsx#L1-L3", "xdg-open"),
    ("harbourmaster", "opendocument", "lib/letter.odt#L1", "xdg-open"),
    ("tarpaulin", "opendocument", "lib/costs.ods#L1", "xdg-open"),
    ("paint the hull", "canvas", "lib/plan.canvas#L1", ""),
    ("Slocum", "reference", "lib/refs.bib#L1-L4", "vim +1"),
    ("Bermuda", "reference", "lib/refs.ris#L1-L3", "vim +1"),
    ("mooring invoice", "email", "lib/inbox.mbox#L1-L3", ""),
    ("lithium thionyl", "conversation", "lib/conversations.json#L1-L20", ""),
    ("locker cupboard", "conversation", "lib/2024-03-09.json#L1-L10", ""),
    ("Vermeers", "reference", "lib/refs.json#L1-L3", "vim +1"),
    ("pontoon", "email", "lib/1709971200.M1P22.host:2,S#L1-L5", ""),
    ("windlass", "rtf", "lib/letter.rtf#L1", "xdg-open"),
    ("neap heights", "man", "lib/tide.1#L1-L3", ""),
    ("halyard", "subtitles", "lib/talk.vtt#L1", ""),
    ("Marmalade", "transcript", "lib/call.txt#L3-L4", "vim +3"),
    ("Brest", "bookmarks", "lib/bookmarks.html#L10-L12", "xdg-open"),
    ("größte", "html", "lib/saved.mhtml#L1-L3", "xdg-open"),
    ("shackles", "evernote", "lib/boat.enex#L8-L17", ""),
    ("turnbuckle", "archive", "lib/export.zip#L1-L5", ""),
]


def test_every_format_is_found_and_opens(
    tmp_path: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    for name, data in FILES.items():
        (lib / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    run("init")
    report = run("ingest", "lib", "--json").json
    assert (report["failed"], report["skipped"]) == ([], [])
    assert sorted(report["added"]) == sorted(f"lib/{name}" for name in FILES)
    opened = 0
    for query, kind, uri, program in FOUND:
        (hit, *_) = run("search", query, "--json").json["hits"]
        assert (hit["type"], hit["citation"]["uri"]) == (kind, uri)
        assert hit["citation"]["file"] == str(lib / uri.split("/")[1].split("#")[0])
        run("search", query)
        shown = run("open", "1")
        assert shown.status == 0
        if not program:
            assert shown.out
            continue
        opened += 1
        while len(calls()) < opened:
            wait_for(calls)
        assert calls()[-1] == [*program.split(), hit["citation"]["file"]]
