"""Files of many formats, as a user has them: ingested, found, cited and opened."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from kb.ingest.parse import Parsers
from kb.ports import Source
from kb.types import TYPES
from tests.cli.conftest import Run
from tests.cli.test_open import Calls, calls, wait_for
from tests.ingest.parsers import office, pdfs
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.test_bookmarks import PAGE
from tests.ingest.parsers.test_conversations import CHATGPT, CLAUDE
from tests.ingest.parsers.test_docx import docx, p
from tests.ingest.parsers.test_epub import parts as epub
from tests.ingest.parsers.test_evernote import EXPORT
from tests.ingest.parsers.test_mhtml import saved
from tests.ingest.parsers.test_notebook import code, markdown, notebook, stream
from tests.ingest.parsers.test_slack import DAY
from tests.ingest.parsers.test_transcript import WHATSAPP
from tests.ingest.parsers.test_zotero import database as zotero

__all__ = ["calls"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")

MAIL = b"""Subject: Crane
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain

The crane comes on Friday.
--x
Content-Type: text/plain; name=list.txt
Content-Disposition: attachment; filename=list.txt

strops and spreader beam
--x--
"""
MANUAL = """<html><body><main><section id="hull"><h2>Hull</h2><p>Sand it before the winter.</p>
</section><section id="keel"><h2>Keel</h2><p>The ballast bolts are bronze.</p></section></main>
</body></html>"""
NOTEBOOK = notebook(
    markdown("# Log"), code("drag = 3"), code("fit(drag)", stream("residual sextant error"))
)
FILES: dict[str, bytes] = {
    "boat.md": b"# Boat\n\nThe bilge pump clogs.\n",
    "guide.rst": b"Guide\n=====\n\nSplice the painter.\n",
    "todo.org": b"* Sails\n\nMend the genoa.\n",
    "manual.adoc": b"= Manual\n\nGrease the gudgeon.\n",
    "tide.py": b"def drift(knots):\n    return knots * 2  # leeway allowance\n",
    "prices.csv": b"item,price\nantifouling,40\n",
    "rows.jsonl": b'{"item": "fairlead"}\n{"item": "cleat"}\n',
    "paper.pdf": pdfs.made(pdfs.text_page("One."), pdfs.text_page("About barnacles.")),
    "manual.html": MANUAL.encode(),
    "survey.docx": docx(p("Rudder", "H2"), p("The pintle is worn.")),
    "novel.epub": zipped(
        epub() | {"OEBPS/text/one.xhtml": "<html><h1>Calm</h1><p>An albatross followed.</p></html>"}
    ),
    "log.ipynb": NOTEBOOK,
    "crane.eml": MAIL,
    "talk.pptx": office.pptx([
        office.shape(office.paragraph("Anchoring"), kind="title")
        + office.shape(office.paragraph("the kedge holds in mud")),
    ]),
    "stock.xlsx": office.xlsx(
        {"Spares": ["<c r='B7' t='s'><v>0</v></c><c r='C7'><v>4</v></c>"]},
        strings=["<t>optode foil</t>"],
    ),
    "letter.odt": office.opendocument("<text:p>Dear harbourmaster</text:p>"),
    "costs.ods": office.opendocument(
        "<table:table table:name='Costs'><table:table-row table:number-rows-repeated='3'/>"
        "<table:table-row><table:table-cell table:number-columns-repeated='27'/><table:table-cell>"
        "<text:p>tarpaulin</text:p></table:table-cell></table:table-row></table:table>"
    ),
    "slides.odp": office.opendocument(
        "<office:presentation><draw:page><draw:frame><draw:text-box><text:p>scuppers and freeboard"
        "</text:p></draw:text-box></draw:frame></draw:page></office:presentation>"
    ),
    "memo.txt": b"The chandler closes at noon.\n",
    "zotero.sqlite": zotero(),
    "plan.canvas": json.dumps({"nodes": [{"type": "text", "text": "paint the hull"}]}).encode(),
    "refs.bib": b"@book{x,\n  author = {Slocum, Joshua},\n  title = {Sailing Alone}\n}\n",
    "refs.ris": b"TY  - BOOK\nTI  - Bermuda triangle\nER  - \n",
    "inbox.mbox": b"From a\nSubject: Hello\n\nHi.\n\nFrom b\nSubject: Mooring fees\n\n"
    b"Please pay the invoice.\n",
    "conversations.json": json.dumps([CHATGPT, CLAUDE]).encode(),
    "2024-03-09.json": json.dumps(DAY).encode(),
    "refs.json": b'[\n{"type": "book", "title": "Vermeers Hut",\n"author": []}\n]\n',
    "1709971200.M1P22.host:2,S": b"From: ada@example.org\nSubject: Berth\n\nThe pontoon sinks.\n",
    "letter.rtf": rb"{\rtf1 The windlass jams\par}",
    "tide.1": b'.TH TIDE 1\n.SH NAME\ntide \\- predict \\fIneap\\fR heights\n',
    "ebb.7.gz": gzip.compress(b".TH EBB 7\n.SH NAME\nebb \\- slack water ratio\n"),
    "changelog.gz": gzip.compress(b"The sounding rod is longer.\n"),
    "talk.vtt": b"WEBVTT\n\n00:01.000 --> 00:03.000\nthe halyard slipped\n",
    "film.srt": b"1\n00:00:05,000 --> 00:00:07,000\nreef the mizzen\n",
    "call.txt": WHATSAPP.replace("Coffee", "Marmalade").encode(),
    "bookmarks.html": PAGE,
    "saved.mhtml": saved(),
    "boat.enex": EXPORT,
    "export.zip": zipped({
        f"Rigging {'0a' * 16}.md": "# Rigging\n\nturnbuckle torque\n",
        "papers/keel.pdf": pdfs.made(pdfs.text_page("One."), pdfs.text_page("Keelson geometry.")),
        "site/keel.html": MANUAL.replace("ballast", "deadwood"),
        "log.ipynb": NOTEBOOK.replace(b"sextant", b"astrolabe"),
    }),
}  # fmt: skip
NAMES = ["anvil", *"bcdefghijklmnopqrstuvwxy", "zenith"]
# The query, the type, the citation, the place or else the section in the original, and the program
# that opens it. Without a program, it is shown in the pager.
FOUND = [
    ("bilge pump", "markdown", "lib/boat.md#L1-L3", "Boat", "vim +1"),
    ("splice painter", "rst", "lib/guide.rst#L1-L4", "Guide", "vim +1"),
    ("genoa", "org", "lib/todo.org#L1-L3", "Sails", "vim +1"),
    ("gudgeon", "asciidoc", "lib/manual.adoc#L1-L3", "Manual", "vim +1"),
    ("leeway", "code", "lib/tide.py#L1-L2", "drift", "vim +1"),
    ("antifouling", "table", "lib/prices.csv#L1-L2", "item, price", "vim +1"),
    ("fairlead", "table", "lib/rows.jsonl#L1-L2", "", "vim +1"),
    ("barnacles", "pdf", "lib/paper.pdf#page=2", "", "okular --page 2"),
    ("ballast bolts", "html", "lib/manual.html#L5-L7", "#keel", "xdg-open"),
    ("pintle", "docx", "lib/survey.docx#L1-L3", "Rudder", "xdg-open"),
    ("kedge mud", "pptx", "lib/talk.pptx#L1-L3", "slide 1", "xdg-open"),
    ("optode foil", "xlsx", "lib/stock.xlsx#L1-L3", "Spares!B7", "xdg-open"),
    ("harbourmaster", "opendocument", "lib/letter.odt#L1", "", "xdg-open"),
    ("tarpaulin", "opendocument", "lib/costs.ods#L1-L3", "Costs!AB4", "xdg-open"),
    ("freeboard", "opendocument", "lib/slides.odp#L1-L3", "slide 1", "xdg-open"),
    ("albatross", "epub", "lib/novel.epub#L1-L3", "OEBPS/text/one.xhtml", "xdg-open"),
    ("chandler", "note", "lib/memo.txt#L1", "", "vim +1"),
    ("tidal streams", "zotero", "lib/zotero.sqlite#L1-L24",
     "Hale, Marsh 2019: Mooring loads in tidal streams", ""),
    ("sextant", "notebook", "lib/log.ipynb#L1-L13", "cell 2 – cell 3, output", ""),
    ("spreader beam", "email", "lib/crane.eml#L1-L8", "part 1 – part 2", ""),
    ("paint the hull", "canvas", "lib/plan.canvas#L1", "", ""),
    ("Slocum", "reference", "lib/refs.bib#L1-L4", "Slocum: Sailing Alone", "vim +1"),
    ("Bermuda", "reference", "lib/refs.ris#L1-L3", "Bermuda triangle", "vim +1"),
    ("mooring invoice", "email", "lib/inbox.mbox#L5-L7", "message 2", ""),
    ("lithium thionyl", "conversation", "lib/conversations.json#L1-L20", "Buoy batteries", ""),
    ("locker cupboard", "conversation", "lib/2024-03-09.json#L1-L10", "", ""),
    ("Vermeers", "reference", "lib/refs.json#L1-L3", "Vermeers Hut", "vim +1"),
    ("pontoon", "email", "lib/1709971200.M1P22.host:2,S#L1-L5", "Berth", ""),
    ("windlass", "rtf", "lib/letter.rtf#L1", "", "xdg-open"),
    ("neap heights", "man", "lib/tide.1#L1-L3", "NAME", ""),
    ("slack ratio", "man", "lib/ebb.7.gz#L1-L3", "NAME", ""),
    ("sounding rod", "archive", "lib/changelog.gz#L1", "", ""),
    ("halyard", "subtitles", "lib/talk.vtt#L1", "00:00:01", ""),
    ("mizzen", "subtitles", "lib/film.srt#L1", "00:00:05", ""),
    ("Marmalade", "transcript", "lib/call.txt#L3-L4", "01.01.24", "vim +3"),
    ("Brest", "bookmarks", "lib/bookmarks.html#L10-L12", "Ports", "xdg-open"),
    ("größte", "html", "lib/saved.mhtml#L1-L3", "", "xdg-open"),
    ("shackles", "evernote", "lib/boat.enex#L8-L17", "Spares", ""),
    ("turnbuckle", "archive", "lib/export.zip#L1-L5",
     "Rigging.md:3", ""),
    ("keelson geometry", "archive", "lib/export.zip#L32-L34", "papers/keel.pdf, page 2", ""),
    ("deadwood bolts", "archive", "lib/export.zip#L42-L44", "site/keel.html#keel", ""),
    ("astrolabe", "archive", "lib/export.zip#L12-L24",
     "log.ipynb, cell 2 – log.ipynb, cell 3, output", ""),
]  # fmt: skip


NEEDS_OCR = {"image"}  # see tests/ingest/parsers/test_image.py


def test_no_format_is_missing() -> None:
    """Every parser reads one of the files, and every file and type is searched for."""
    parsers = Parsers(1800, plug_ins=())
    used = {parsers.detect(Source(name, data)) for name, data in FILES.items()}
    assert {parser.name for parser in parsers if parser not in used} == NEEDS_OCR
    assert {kind for _, kind, *_ in FOUND} == set(TYPES) - NEEDS_OCR
    assert {uri.split("/")[1].split("#")[0] for _, _, uri, *_ in FOUND} == set(FILES)


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
    for query, kind, uri, place, program in FOUND:
        (hit, *_) = run("search", query, "--json").json["hits"]
        cited = hit["citation"]
        assert (hit["type"], cited["uri"]) == (kind, uri)
        assert (cited.get("place") or cited["section"] or "") == place
        assert cited["file"] == str(lib / uri.split("/")[1].split("#")[0])
        printed = run("search", query, "-n", "1").out.split("\n")[1]
        assert (f"({place})" in printed) == ("place" in cited and not place.startswith("slide"))
        shown = run("open", "1")
        assert shown.status == 0
        if not program:
            assert shown.out
            continue
        opened += 1
        while len(calls()) < opened:
            wait_for(calls)
        assert calls()[-1] == [*program.split(), cited["file"]]


def test_a_page_opens_at_its_anchor(
    tmp_path: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "manual.html").write_text(MANUAL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", "vim --tab")
    run("init")
    run("ingest", "lib")
    (hit,) = run("search", "ballast bolts", "--json", "-n", "1").json["hits"]
    address = (lib / "manual.html").as_uri() + "#keel"
    assert hit["citation"]["link"] == address
    assert run("open", hit["citation"]["uri"]).err == "opened lib/manual.html#L5-L7 (#keel)\n"
    assert wait_for(calls) == [["vim", "--tab", address]]
    assert "(#keel)" in run("search", "ballast bolts").out
    shown = run("get", "lib/manual.html#L7")
    assert shown.err.startswith("exact: lib/manual.html#L7 (#keel)")


def test_passages_of_a_page_have_different_citations(
    tmp_path: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    words = [f"{name} " + pdfs.prose(number, 12) for number, name in enumerate(NAMES)]
    (lib / "paper.pdf").write_bytes(pdfs.made(pdfs.text_page(*words, size=8)))
    monkeypatch.chdir(tmp_path)
    run("init")
    run("ingest", "lib")
    chunks = run("get", "lib/paper.pdf", "--json").json
    assert "zenith" in chunks["text"]
    first = run("search", "anvil", "--json", "--text").json["hits"][0]
    last = run("search", "zenith", "--json", "--text").json["hits"][0]
    assert first["citation"]["uri"] == "lib/paper.pdf#page=1"
    assert last["citation"]["uri"] == f"lib/paper.pdf#page=1,passage={last['citation']['passage']}"
    assert last["citation"]["page"] == 1
    shown = run("get", last["citation"]["uri"], "--json").json
    assert (shown["state"], shown["text"]) == ("exact", last["text"])
    run("open", last["citation"]["uri"])
    assert wait_for(calls) == [["okular", "--page", "1", str(lib / "paper.pdf")]]
    missing = run("get", "lib/paper.pdf#page=1,passage=99")
    assert missing.status == 2
    assert "has no passage 99" in missing.err


def test_references_are_linked_to_their_files(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "lib"
    (lib / "papers").mkdir(parents=True)
    (lib / "papers" / "Hale 2019.pdf").write_bytes(pdfs.made(pdfs.text_page("Mooring loads.")))
    (lib / "refs.bib").write_text(
        "@article{hale,\n  file = {Full text:papers/Hale 2019.pdf:PDF}\n}\n"
    )
    monkeypatch.chdir(tmp_path)
    run("init")
    run("ingest", "lib")
    assert "linked from: lib/refs.bib" in run("get", "lib/papers/Hale%202019.pdf").err
    assert "links to: papers/hale 2019.pdf" in run("get", "lib/refs.bib").err
    linking = run("list", "--links-to", "lib/papers/Hale 2019.pdf").lines
    assert linking == ["lib/refs.bib"]
