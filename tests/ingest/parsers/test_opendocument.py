"""OpenDocument: texts by heading, sheets by row, slides with their numbers."""

from __future__ import annotations

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.opendocument import OpendocumentParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.office import ODF, opendocument


def parse(data: bytes, name: str = "boat.odt") -> Parsed:
    return OpendocumentParser().parse(Source(name, data))


def row(*cells: str) -> str:
    inside = "".join(f"<table:table-cell><text:p>{each}</text:p></table:table-cell>"
                     for each in cells)  # fmt: skip
    return f"<table:table-row>{inside}</table:table-row>"


def test_a_text() -> None:
    body = (
        "<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Winter storage</text:h>'
        "<text:p>Drain the <text:span>carburettor</text:span><text:s text:c='2'/>now."
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>Wear gloves.</text:p></text:note-body></text:note> Then<text:tab/>rest.</text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item>"
        "<text:p>inner</text:p></text:list-item></text:list></text:list-item></text:list>"
        '<text:list><text:list-item><text:h text:outline-level="2">Engine</text:h>'
        "</text:list-item></text:list>"
        f"<table:table><table:table-header-rows>{row('A', 'B')}</table:table-header-rows>"
        f"{row('1', '2')}</table:table>"
        "<text:p><draw:frame><draw:text-box><text:p>in a frame</text:p></draw:text-box>"
        "</draw:frame></text:p></office:text>"
    )
    parsed = parse(opendocument(body))
    assert parsed.text == (
        "# Winter storage\n\nDrain the carburettor now. Then rest.\n\n> Wear gloves.\n\n"
        "- one\n- inner\n\n## Engine\n\nA | B\n1 | 2\n\n> in a frame"
    )
    assert (parsed.type, parsed.title) == ("opendocument", "Winter storage")
    assert parsed.blocks[-1].heading_path == ("Winter storage", "Engine")  # type: ignore[index]


def test_a_spreadsheet() -> None:
    empty = (
        '<table:table-row table:number-rows-repeated="1048574">'
        '<table:table-cell table:number-columns-repeated="1024"/></table:table-row>'
    )
    value = '<table:table-row><table:table-cell office:value="12.5"/></table:table-row>'
    table = f'<table:table table:name="Costs">{row("Rope", "12")}{value}{empty}</table:table>'
    parsed = parse(opendocument(f"<office:spreadsheet>{table}</office:spreadsheet>"), "boat.ods")
    assert parsed.text == "# Costs\n\nRope | 12\n12.5"
    assert parsed.title == "boat"


def test_a_presentation() -> None:
    def frame(text: str, kind: str) -> str:
        inside = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
        return f'<draw:frame presentation:class="{kind}">{inside}</draw:frame>'

    notes = f"<presentation:notes>{frame('say hello', 'notes')}</presentation:notes>"
    first = frame("Anchors", "title") + frame("Drop them slowly", "outline") + frame("3", "footer")
    body = f"<draw:page>{first}{notes}</draw:page><draw:page>{frame('end', 'outline')}</draw:page>"
    parsed = parse(opendocument(f"<office:presentation>{body}</office:presentation>"), "a.odp")
    assert parsed.text == (
        "# Slide 1: Anchors\n\nDrop them slowly\n\nsay hello\n\n# Slide 2\n\nend\n\n3"
    )
    assert parsed.title == "Anchors"


def test_properties_and_headers() -> None:
    meta = (
        "<dc:title>Boat</dc:title><meta:initial-creator>Ada</meta:initial-creator>"
        "<meta:keyword>rope</meta:keyword><meta:keyword>sail</meta:keyword>"
        "<meta:creation-date>2026-01-31T08:00:00</meta:creation-date>"
    )
    header = "<style:header><text:p>Harbour office</text:p></style:header>"
    styles = f"<office:master-styles>{header}</office:master-styles>"
    parsed = parse(opendocument("<text:p>x</text:p>", meta=meta, styles=styles))
    assert parsed.text == "x\n\nHarbour office\nAda\nrope, sail"
    assert parsed.title == "Boat"
    assert parsed.attributes.metadata == {"author": "Ada", "keywords": "rope, sail"}
    assert parsed.attributes.date == "2026-01-31T08:00:00Z"


def test_deep_nesting() -> None:
    depth = 20_000
    body = "<text:section>" * depth + "<text:p>deep</text:p>" + "</text:section>" * depth
    assert parse(opendocument(body)).text == "deep"


@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [
        ("<text:p>x", "end", "</text:p>"),
        ("<text:list><text:list-item>", "<text:h>end</text:h>", "</text:list-item></text:list>"),
        ("<text:list><text:list-item>", "<text:p>end</text:p>", "</text:list-item></text:list>"),
    ],
)
def test_nesting_takes_linear_time(opening: str, inside: str, closing: str) -> None:
    """Otherwise it would take minutes."""
    body = opening * 18_000 + inside + closing * 18_000
    assert "end" in (parse(opendocument(body)).text or "")


def test_a_count_of_spaces_that_is_no_number() -> None:
    spaces = f"<text:p>a<text:s text:c='{'9' * 5000}'/>b</text:p>"
    assert parse(opendocument(spaces)).text == "a b"


def test_files_that_are_none() -> None:
    with pytest.raises(Unreadable, match=r"content\.xml is missing"):
        parse(zipped({"a.txt": "x"}))
    with pytest.raises(Unsupported, match="without a password"):
        parse(opendocument("", manifest="<manifest:encryption-data/>"))


def test_nested_bodies_are_read_once() -> None:
    """Each would otherwise be read as often as it is deep."""
    body = "<office:body>" * 300 + "<text:p>moor</text:p>" + "</office:body>" * 300
    assert parse(opendocument(f"<office:text>{body}</office:text>")).text == "moor"


FRAME = "<draw:frame><svg:title>w1x</svg:title><svg:desc>w2x</svg:desc></draw:frame>"
BOX = "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"


def table(cell: str, before: str = "") -> str:
    inside = f"<table:table-cell>{cell}</table:table-cell>"
    return f"<table:table>{before}<table:table-row>{inside}</table:table-row></table:table>"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.odt", table('<text:h text:outline-level="2">w1x</text:h><text:p>w2x</text:p>')),
        ("a.odt", table("<text:list><text:list-item><text:h>w1x</text:h></text:list-item>"
                        "</text:list><text:p>w2x</text:p>")),
        ("a.odt", table(f"<text:p>cell{FRAME}</text:p>")),
        ("a.odt", table("x", "<table:title>w1x</table:title><table:desc>w2x</table:desc>")),
        ("a.odt", f"<text:list><text:list-item><text:p>i{FRAME}</text:p></text:list-item>"
                  "</text:list>"),
        ("a.odt", "<text:p>t<office:annotation><dc:creator xmlns:dc='urn:dc'>w1x</dc:creator>"
                  "<text:p>w2x</text:p></office:annotation></text:p>"),
        ("a.ods", table("x", f"<table:shapes>{BOX.format('w1x w2x')}</table:shapes>")),
        ("a.ods", f"<table:content-validation><table:help-message><text:p>w1x</text:p>"
                  f"</table:help-message></table:content-validation>{table('<text:p>w2x</text:p>')}"),
        ("a.odp", "<draw:page><draw:g>" + BOX.format("w1x").replace(
            "frame>", "frame presentation:class='title'>", 1) + f"</draw:g>{BOX.format('w2x')}"
            "</draw:page>"),
        ("a.odp", "<draw:page>" + BOX.format("w1x w2x").replace(
            "frame>", "frame presentation:class='footer'>", 1) + "</draw:page>"),
        ("a.odp", "<presentation:footer-decl>w1x</presentation:footer-decl>"
                  "<presentation:header-decl>w2x</presentation:header-decl>"),
    ],
)  # fmt: skip
def test_no_text_is_dropped(name: str, body: str) -> None:
    text = parse(opendocument(body), name).text or ""
    assert text.count("w1x") == 1
    assert text.count("w2x") == 1


def test_headers_of_left_pages_and_embedded_objects() -> None:
    headers = "".join(
        f"<style:{kind}><text:{tag}>{kind}word</text:{tag}></style:{kind}>"
        for kind, tag in (("header-left", "p"), ("footer-left", "h"), ("footer-first", "p"))
    )
    page = f"<style:master-page>{headers}</style:master-page>"
    objects = {
        "Object 1/content.xml": f"<office:document-content {ODF}><office:body><office:chart>"
        "<text:p>sales</text:p></office:chart></office:body></office:document-content>",
        "Object 2/content.xml": "<math><mi>alpha</mi><annotation>size beta</annotation></math>",
    }
    styles = f"<office:master-styles>{page}</office:master-styles>"
    text = parse(opendocument("<text:p>x</text:p>", styles=styles, **objects)).text or ""
    for word in ("header-leftword", "footer-leftword", "footer-firstword", "sales", "alpha",
                 "beta"):  # fmt: skip
        assert word in text


def test_parts_of_words_are_not_repeated() -> None:
    text = parse(opendocument("<text:p>carbu<text:span>rettor</text:span></text:p>")).text
    assert text == "carburettor"


def test_embedded_files_that_are_not_read_are_named() -> None:
    body = "<office:text><text:p>See the file.</text:p></office:text>"
    words = "<office:text><text:p>inner words</text:p></office:text>"
    inner = (
        f"<office:document-content {ODF}><office:body>{words}</office:body>"
        "</office:document-content>"
    )
    parts = {"Object 1": "OLE", "Object 2/content.xml": inner, "ObjectReplacements/Object 1": "x"}
    parsed = parse(opendocument(body, **parts))
    assert "inner words" in (parsed.text or "")
    assert parsed.warnings == ("embedded files are not read: Object 1",)


def test_properties_that_the_user_has_named() -> None:
    meta = '<meta:user-defined meta:name="Ship">Seestern</meta:user-defined>'
    parsed = parse(opendocument("<office:text><text:p>a</text:p></office:text>", meta=meta))
    assert "Seestern" in (parsed.text or "")
