"""PowerPoint presentations: slides in order, with notes, tables and descriptions."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.pptx import PptxParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.office import core, paragraph, pptx, shape

TITLE = shape(paragraph("Moor", "ing"), kind="title")


def parse(data: bytes) -> Parsed:
    return PptxParser().parse(Source("talk.pptx", data))


def test_slides_in_the_order_of_the_presentation() -> None:
    bullets = shape(paragraph("first bullet"), paragraph("second ", "bullet"), kind="body")
    number = shape(paragraph("7"), kind="sldNum")
    data = pptx(
        [TITLE + bullets + number, shape(paragraph("no title here"))],
        notes={1: shape(paragraph("say hello")) + shape(paragraph("1"), kind="sldNum")},
    )
    parsed = parse(data)
    assert parsed.text == (
        "# Slide 1: Mooring\n\nfirst bullet\nsecond bullet\n\n> say hello\n\n"
        "# Slide 2\n\nno title here"
    )
    assert (parsed.type, parsed.title) == ("pptx", "Mooring")
    assert [block.heading_path for block in parsed.blocks][-1] == ("Slide 2",)


def test_tables() -> None:
    rows = [["Part", "Count"], ["Rope", "12"]]
    cells = "".join(
        "<a:tr>" + "".join(f"<a:tc><a:txBody>{paragraph(cell)}</a:txBody></a:tc>" for cell in row)
        + "</a:tr>" for row in rows
    )  # fmt: skip
    frame = f"<p:graphicFrame><a:tbl>{cells}</a:tbl></p:graphicFrame>"
    assert parse(pptx([TITLE + frame])).text == ("# Slide 1: Mooring\n\nPart | Count\nRope | 12")


def test_what_is_not_on_a_slide() -> None:
    parts: dict[str, Any] = {
        "docProps/core.xml": core(title="Talk", creator="Ada", created="2026-01-31T08:00:00Z"),
        "ppt/comments/comment1.xml": "<c:cm xmlns:c='urn:c'><c:text>unsure</c:text></c:cm>",
    }
    parsed = parse(pptx([shape(paragraph("x"), description="a red buoy")], **parts))
    assert parsed.text is not None
    assert parsed.text.endswith("a red buoy\nunsure\nAda")
    assert (parsed.title, parsed.attributes.metadata) == ("Talk", {"author": "Ada"})
    assert parsed.attributes.date == "2026-01-31T08:00:00Z"


def test_files_that_are_none() -> None:
    with pytest.raises(Unreadable, match="not a PowerPoint presentation"):
        parse(zipped({"a.txt": "x"}))
    with pytest.raises(Unreadable, match="not a valid zip file"):
        parse(b"PK\x03\x04")
    with pytest.raises(Unsupported, match="without a password"):
        parse(b"\xd0\xcf\x11\xe0 old")
    with pytest.raises(Unreadable, match="defines XML entities"):
        parse(zipped({"ppt/presentation.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}))


def test_dates_headers_and_footers_are_kept_once() -> None:
    footer = shape(paragraph("Tidepool Ltd"), kind="ftr") + shape(paragraph("31 May"), kind="dt")
    data = pptx(
        [TITLE + footer, shape(paragraph("b")) + footer],
        notes={1: shape(paragraph("for the board"), kind="hdr") + shape(paragraph("hello"))},
    )
    text = parse(data).text or ""
    assert [text.count(word) for word in ("Tidepool Ltd", "31 May", "for the board")] == [1, 1, 1]
    assert text.index("hello") < text.index("Tidepool")


def test_a_slide_that_is_listed_twice_is_read_once() -> None:
    data = pptx([shape(paragraph("once")), shape(paragraph("other"))])
    files = {name: zipfile.ZipFile(io.BytesIO(data)).read(name) for name in
             zipfile.ZipFile(io.BytesIO(data)).namelist()}  # fmt: skip
    rels = files["ppt/_rels/presentation.xml.rels"].replace(b"slide1.xml", b"slide2.xml")
    assert parse(zipped(files | {"ppt/_rels/presentation.xml.rels": rels})).text == (
        "# Slide 1\n\nonce"
    )


def test_text_of_layouts_and_masters() -> None:
    slide = shape(paragraph("Mooring"))
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    box, placeholder = shape(paragraph("Confidential")), shape(paragraph("Click"), kind="body")
    data = pptx([slide, slide])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    page = next(name for name in parts if "slide1.xml" in name and "_rels" not in name)
    folder, _, name = page.rpartition("/")

    def related(kind: str, target: str) -> str:
        return (
            '<Relationships xmlns="urn:relationships"><Relationship Id="a" '
            f'Type="{relation}/{kind}" Target="{target}"/></Relationships>'
        )

    outer = '<p:s xmlns:p="urn:p" xmlns:a="urn:a">{}</p:s>'
    parts |= {
        f"{folder}/_rels/{name}.rels": related("slideLayout", "/ppt/l/one.xml"),
        "ppt/l/one.xml": outer.format(placeholder),
        "ppt/l/_rels/one.xml.rels": related("slideMaster", "/ppt/m/two.xml"),
        "ppt/m/two.xml": outer.format(box),
    }
    text = parse(zipped(parts)).text or ""
    assert text.count("Confidential") == 1
    assert "Click" not in text


def test_embedded_files() -> None:
    """The texts of workbooks are read; other files are named."""
    strings = "<sst><si><t>Harbour dues</t></si></sst>"
    parts: dict[str, Any] = {
        "ppt/embeddings/Sheet1.xlsx": zipped({"xl/sharedStrings.xml": strings}),
        "ppt/embeddings/oleObject1.bin": b"\xd0\xcf",
    }
    parsed = parse(pptx([TITLE], **parts))
    assert "Harbour dues" in (parsed.text or "")
    assert parsed.warnings == ("embedded files are not read: oleObject1.bin",)


def test_escaped_characters() -> None:
    """PowerPoint escapes line ends in a paragraph."""
    text = parse(pptx([shape(paragraph("first_x000B_second"))])).text or ""
    assert "first second" in text
