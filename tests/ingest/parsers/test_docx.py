from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from typing import Any

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parse import Parsers
from kb.ingest.parsers.docx.parser import DocxParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.mutations import check_parsed, check_survives, mutations

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STRICT = 'xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"'
STYLES = f"""<w:styles {W}>
  <w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
  <w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
  <w:style w:styleId="H2"><w:name w:val="heading 2"/><w:basedOn w:val="berschrift1"/></w:style>
  <w:style w:styleId="Mine"><w:name w:val="My heading"/><w:basedOn w:val="H2"/></w:style>
  <w:style w:styleId="Out"><w:name w:val="Out"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
  <w:style w:styleId="Bullet"><w:name w:val="List Bullet"/>
    <w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
  <w:style w:styleId="Code"><w:name w:val="Source Code"/></w:style>
  <w:style w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>
  <w:style w:styleId="Q"><w:name w:val="Quote"/></w:style>
  <w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
</w:styles>"""
NUMBERING = f"""<w:numbering {W}>
  <w:abstractNum w:abstractNumId="5"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>
  </w:abstractNum>
  <w:abstractNum w:abstractNumId="6"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl>
    <w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/></w:lvl></w:abstractNum>
  <w:num w:numId="1"><w:abstractNumId w:val="5"/></w:num>
  <w:num w:numId="2"><w:abstractNumId w:val="6"/></w:num>
</w:numbering>"""
CORE = """<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t">
  <dc:title>Said</dc:title><dc:creator>A. Writer</dc:creator>
  <dcterms:created>2026-03-01T09:30:00Z</dcterms:created>
  <dcterms:modified>2026-03-02T09:30:00Z</dcterms:modified></cp:coreProperties>"""
NOTES = f"""<w:footnotes {W}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>
  <w:footnote w:id="2"><w:p><w:r><w:t>By A.</w:t></w:r></w:p></w:footnote></w:footnotes>"""


def p(text: str, style: str = "", extra: str = "") -> str:
    said = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{said}{extra}</w:pPr>{run(text)}</w:p>"


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def item(text: str, level: int, number: int = 2) -> str:
    return p(text, "", f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def cell(text: str) -> str:
    return f"<w:tc>{p(text)}</w:tc>"


def document(*body: str, namespace: str = W) -> str:
    return f"<w:document {namespace}><w:body>{''.join(body)}</w:body></w:document>"


def docx(*body: str, namespace: str = W, **parts: str | bytes) -> bytes:
    every: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": document(*body, namespace=namespace),
        "word/styles.xml": STYLES,
        "word/numbering.xml": NUMBERING,
    }
    return zipped(every | {_part_name(name): text for name, text in parts.items()})


def _part_name(name: str) -> str:
    return name if "." in name else name.replace("__", "/") + ".xml"


TYPICAL = (
    p("The title", "Titel"),
    p("Contents", "TOC1"),
    p("First", "berschrift1"),
    f"<w:p>{run('Wo')}{run('rds')}<w:r><w:tab/></w:r><w:del><w:r><w:delText>gone</w:delText></w:r>"
    f'</w:del><w:ins>{run("kept")}</w:ins><w:r><w:footnoteReference w:id="2"/></w:r></w:p>',
    p("Second", "H2"),
    p("bullet", "Bullet"),
    item("one", 0),
    item("sub", 1),
    item("two", 0),
    p("def f():", "Code"),
    p("    return 1", "Code"),
    p("Said so.", "Q"),
    f"<w:tbl><w:tr>{cell('a')}{cell('b')}</w:tr><w:tr>{cell('c')}{cell('d')}</w:tr></w:tbl>",
    p("Third", "Mine"),
    p("Fourth", "Out"),
    f"<w:sdt><w:sdtContent>{p('inside')}</w:sdtContent></w:sdt>",
)
TEXT = """\
# The title

# First

Words kept[^2]

[^2]: By A.

## Second

- bullet
1. one
  1. sub
2. two

```
def f():
    return 1
```

> Said so.

a | b
c | d

## Third

### Fourth

inside

Contents
A. Writer"""

parser = DocxParser()


def parse(data: bytes) -> Parsed:
    return parser.parse(Source("some-file.docx", data))


def text_of(*body: str) -> str:
    return check_parsed(parse(docx(*body)), b"")


def typical() -> bytes:
    return docx(*TYPICAL, docProps__core=CORE, word__footnotes=NOTES)


def test_a_typical_document() -> None:
    parsed = parse(typical())
    assert check_parsed(parsed, b"") == TEXT
    assert (parsed.type, parsed.title) == ("docx", "The title")
    assert parsed.attributes.date == "2026-03-01T09:30:00Z"
    assert parsed.attributes.updated_at == "2026-03-02T09:30:00Z"
    assert parsed.attributes.metadata == {"author": "A. Writer"}
    paths = [block.heading_path for block in parsed.blocks if block.boundary]
    assert paths[1:] == [
        ("First",), ("First", "Second"), ("First", "Third"), ("First", "Third", "Fourth"),
    ]  # fmt: skip
    assert [block.text[:3] for block in parsed.blocks if block.atomic] == ["```", "a |"]


def test_titles() -> None:
    assert parse(docx(p("x"), docProps__core=CORE)).title == "Said"
    assert parse(docx(p("Head", "berschrift1"))).title == "Head"
    assert parse(docx(p("x"))).title == "some file"


def test_the_strict_namespace() -> None:
    assert parse(docx(p("x", "H2"), namespace=STRICT)).text == "## x"


def test_a_text_box_is_read_once() -> None:
    box = f"<w:txbxContent>{p('boxed')}</w:txbxContent>"
    both = f"<AlternateContent><Choice>{box}</Choice><Fallback>{box}</Fallback></AlternateContent>"
    assert text_of(f"<w:p>{run('before')}<w:r>{both}</w:r></w:p>", p("after")) == (
        "before\n\nboxed\n\nafter"
    )


def test_a_text_box_in_a_table_is_read() -> None:
    box = f"<w:p><w:r><w:txbxContent>{p('boxed')}</w:txbxContent></w:r></w:p>"
    table = f"<w:tbl><w:tr>{cell('a')}<w:tc>{p('b')}{box}</w:tc></w:tr></w:tbl>"
    assert text_of(table, p("after")) == "a |  b\n\nboxed\n\nafter".replace("  ", " ")


def test_comments_are_notes() -> None:
    comments = (
        f'<w:comments {W}><w:comment w:id="1" w:author="Miriam">{p("Why")}{p("so?")}</w:comment>'
        f'<w:comment w:id="2">{p("Nowhere")}</w:comment></w:comments>'
    )
    body = f'<w:p>{run("Chain wears")}<w:r><w:commentReference w:id="1"/></w:r></w:p>'
    parsed = parse(docx(body, p("after"), word__comments=comments))
    assert check_parsed(parsed, b"") == (
        "Chain wears[^c1]\n\n[^c1]: Miriam: Why so?\n\nafter\n\nNowhere"
    )


def test_other_parts_follow_the_text() -> None:
    diagram = '<d xmlns:a="x"><a:p><a:r><a:t>Anchor</a:t></a:r></a:p></d>'
    chart = '<c xmlns:c="x"><c:pt><c:v>Lisbon</c:v></c:pt><c:pt><c:v>77</c:v></c:pt></c>'
    parsed = parse(
        docx(
            p("The text"),
            word__header1=f"<w:hdr {W}>{p('Tidepool')}</w:hdr>",
            word__header2=f"<w:hdr {W}>{p('Tidepool')}</w:hdr>",
            word__footer1=f"<w:ftr {W}>{p('Page')}{p('the text')}</w:ftr>",
            word__diagrams__data1=diagram,
            word__charts__chart1=chart,
        )
    )
    assert check_parsed(parsed, b"") == "The text\n\nLisbon\n77\nAnchor\nPage\nTidepool"


def test_formulas_and_hidden_text_are_text() -> None:
    formula = '<m:oMath xmlns:m="x"><m:r><m:t>E=mc</m:t></m:r></m:oMath>'
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
    assert text_of(f"<w:p>{formula}{hidden}</w:p>") == "E=mchidden"


def test_a_frame_is_not_a_table() -> None:
    table = f"<w:tbl><w:tr><w:tc>{p('one')}{p('two')}</w:tc></w:tr></w:tbl>"
    assert text_of(table) == "one\n\ntwo"


def test_a_style_based_on_itself() -> None:
    assert text_of(p("x", "Loop")) == "x"


def test_missing_parts() -> None:
    data = zipped({"word/document.xml": document(p("x", "H2"))})
    assert parse(data).text == "x"
    with pytest.raises(Unreadable, match=r"word/document\.xml is missing"):
        parse(zipped({"xl/workbook.xml": "<x/>"}))


def test_another_name_for_the_document() -> None:
    relations = (
        '<Relationships><Relationship Type="http://x/officeDocument" Target="/w/d.xml"/>'
        "</Relationships>"
    )
    assert parse(zipped({"_rels/.rels": relations, "w/d.xml": document(p("x"))})).text == "x"


def test_nothing_is_too_deep() -> None:
    deep = "<w:sdt>" * 10_000 + p("deep") + "</w:sdt>" * 10_000
    assert text_of(deep) == "deep"
    assert text_of(f"<w:p>{'<w:smartTag>' * 5000}{run('x')}{'</w:smartTag>' * 5000}</w:p>") == "x"
    tables = "<w:tbl><w:tr><w:tc>" * 300 + p("deep") + "</w:tc></w:tr></w:tbl>" * 300
    assert text_of(tables) == "deep"


def test_a_bomb_is_refused() -> None:
    data = docx(p("x"), word__footnotes=b"<a>" + b" " * 50_000_000 + b"</a>")
    assert len(data) < 100_000
    with pytest.raises(Unreadable, match="too large when unpacked"):
        parse(data)


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_bomb_that_lies_about_its_size_is_refused(size: int) -> None:
    data = bytearray(docx(p("x"), word__footnotes=b"<a>" + b" " * 50_000_000 + b"</a>"))
    at = data.index(b"word/footnotes.xml", data.index(b"PK\1\2"))  # in the index at the end
    data[at - 46 + 24 : at - 46 + 28] = size.to_bytes(4, "little")
    with pytest.raises(Unreadable, match=r"word/footnotes\.xml"):
        parse(bytes(data))


def test_other_ways_of_packing_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("word/document.xml", document(p("x")))
    with pytest.raises(Unreadable, match="uses a compression"):
        parse(stream.getvalue())


def test_entities_are_refused() -> None:
    evil = f'<!DOCTYPE x [<!ENTITY a "aaaa">]><w:document {W}>&a;</w:document>'
    with pytest.raises(Unreadable, match="entities"):
        parse(zipped({"word/document.xml": evil}))
    with pytest.raises(Unreadable, match="entities"):
        parse(zipped({"word/document.xml": evil.encode("utf-16")}))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"text", typical()[:300], typical()[:-40]])
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="zip"):
        parse(data)


def test_broken_xml_is_refused() -> None:
    with pytest.raises(Unreadable, match="not valid XML"):
        parse(zipped({"word/document.xml": "<w:document>"}))


def test_an_encrypted_file_is_named() -> None:
    with pytest.raises(Unsupported, match=r"^encrypted: "):
        parse(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.docx", typical(), "docx"),
        ("a.md", typical(), "docx"),
        ("a.docx", zipped({"a": "x"}), "docx"),
        ("a.md", zipped({"a": "x"}), None),
        ("a.txt", zipped({"a": "x"}), None),
        ("a.py", zipped({"a": "x"}), None),
        ("a.xlsx", zipped({"xl/workbook.xml": "x"}), "xlsx"),
    ],
)
def test_detected(name: str, data: bytes, expected: str | None) -> None:
    for seen in (data, data[:8192]):
        found = Parsers(1800, []).detect(Source(name, seen))
        assert (found.name if found else None) == expected


def test_damage() -> None:
    check_survives(parser, "a.docx", typical())


def test_damage_inside() -> None:
    for broken in mutations(document(*TYPICAL).encode()):
        data = zipped({"word/document.xml": broken, "word/styles.xml": STYLES})
        with suppress(Unreadable):
            check_parsed(parse(data), b"")


def test_embedded_files_of_other_formats() -> None:
    kinds = ("html", "txt", "mht", "docx")
    relations = "".join(
        f'<Relationship Id="r{kind}" Type="x/aFChunk" Target="/word/afchunk.{kind}"/>'
        for kind in kinds
    )
    placed = [f'<w:altChunk w:id="r{kind}"/>' for kind in kinds]
    data = zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": document(p("first"), *placed[:2], p("last"), *placed[3:]),
            "word/_rels/document.xml.rels": f"<Relationships>{relations}</Relationships>",
            "word/afchunk.html": "<h1>Page</h1><p>in HTML</p>",
            "word/afchunk.txt": "in text",
            "word/afchunk.mht": "MIME-Version: 1.0\nContent-Type: text/html\n\n<p>in a mail</p>",
            "word/afchunk.docx": b"PK",
        }
    )
    parsed = parse(data)
    text = check_parsed(parsed, b"")
    assert text == "first\n\n# Page\n\nin HTML\n\nin text\n\nlast\n\nin a mail"
    assert parsed.warnings == ("word/afchunk.docx is not read: its format is not supported here",)


def test_a_note_that_is_cited_often_is_written_once() -> None:
    cited = f"<w:p>{run('x')}" + '<w:r><w:footnoteReference w:id="2"/></w:r>' * 1000 + "</w:p>"
    text = check_parsed(parse(docx(cited, cited, word__footnotes=NOTES)), b"")
    assert text.count("By A.") == 1


def test_parts_are_found_by_their_relations() -> None:
    """Some programs number the parts of a document."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    relations = (
        f'<Relationships><Relationship Type="{kind}" Target="footnotes2.xml"/></Relationships>'
    )
    cited = f'<w:p>{run("x")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    parts = {"word/_rels/document.xml.rels": relations, "word/footnotes2.xml": NOTES}
    data = zipped(
        {"[Content_Types].xml": "<Types/>", "word/document.xml": document(cited), **parts}
    )
    assert "By A." in check_parsed(parse(data), b"")


def test_words_in_the_numbers_of_lists() -> None:
    numbering = NUMBERING.replace(
        '<w:numFmt w:val="decimal"/>', '<w:numFmt w:val="decimal"/><w:lvlText w:val="Section %1."/>'
    ).replace('<w:numFmt w:val="bullet"/>', '<w:numFmt w:val="bullet"/><w:lvlText w:val="o"/>')
    parsed = DocxParser().parse(Source("a.docx", docx(item("Fees", 0), word__numbering=numbering)))
    assert "Section" in (parsed.text or "")
    assert "\no\n" not in f"{parsed.text}\n"


def test_the_texts_of_embedded_workbooks() -> None:
    strings = "<sst><si><t>Budget</t></si><si><r><t>Har</t></r><r><t>bour</t></r></si></sst>"
    book = zipped({"xl/sharedStrings.xml": strings})
    parts: dict[str, Any] = {"word/embeddings/Sheet1.xlsx": book}
    parsed = DocxParser().parse(Source("a.docx", docx(p("See the table."), **parts)))
    assert {"Budget", "Harbour"} <= set((parsed.text or "").split())
    parts["word/embeddings/Sheet1.xlsx"] = b"damaged"
    parsed = DocxParser().parse(Source("a.docx", docx(p("See the table."), **parts)))
    assert "See the table." in (parsed.text or "")
    assert parsed.warnings == ("word/embeddings/Sheet1.xlsx: the embedded workbook cannot be read",)


def test_alternatives_for_other_programs() -> None:
    """Text that only the alternative has is kept; text that it repeats is written once."""
    choice = f'<mc:Choice Requires="new"><w:p>{run("the same")}</w:p></mc:Choice>'
    fallback = f"<mc:Fallback><w:p>{run('the ')}{run('sa')}{run('me')}</w:p></mc:Fallback>"
    other = f"<mc:Fallback><w:p>{run('only ')}{run('here')}</w:p></mc:Fallback>"
    wrap = '<mc:AlternateContent xmlns:mc="urn:mc">{}</mc:AlternateContent>'
    body = [wrap.format(choice + fallback), wrap.format(choice + other)]
    parsed = DocxParser().parse(Source("a.docx", docx(*body)))
    assert parsed.text == "the same\n\nthe same\n\nonly here"


def test_embedded_files_that_are_not_read_are_named() -> None:
    parts: dict[str, Any] = {f"word/embeddings/ole{n}.bin": b"\xd0\xcf" for n in range(6)}
    parts["word/embeddings/Inner.docx"] = docx(p("lost words"))
    parsed = DocxParser().parse(Source("a.docx", docx(p("See the file."), **parts)))
    assert parsed.warnings == (
        "embedded files are not read: Inner.docx, ole0.bin, ole1.bin, ole2.bin, ole3.bin, "
        "and 2 more",
    )


def test_nested_tables_take_linear_time() -> None:
    depth = 20_000
    body = "<w:tbl><w:tr><w:tc>" * depth + p("inside") + "</w:tc></w:tr></w:tbl>" * depth
    assert text_of(body) == "inside"  # quadratic time would be many minutes
