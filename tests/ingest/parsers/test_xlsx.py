"""Excel workbooks: the rows of each sheet, with the values that it shows."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.xlsx import XlsxParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.office import core, relations, xlsx

STYLES = (
    '<numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="&quot;dd&quot;0.0"/></numFmts>'
    '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    "</cellXfs>"
)


def parse(data: bytes) -> Parsed:
    return XlsxParser().parse(Source("stock.xlsx", data))


def cell(value: str, **attributes: object) -> str:
    more = "".join(f' {key}="{text}"' for key, text in attributes.items())
    return f"<c{more}><v>{value}</v></c>"


def test_sheets_and_rows() -> None:
    strings = [
        "<t>Part</t>", "<r><t>Optode </t></r><r><t>head</t></r>",
        "<t>東</t><rPh><t>ヒガシ</t></rPh>",
    ]  # fmt: skip
    sheets = {
        "Spares": [
            cell("0", t="s") + "<c t='inlineStr'><is><t>Full</t></is></c>", "",
            cell("1", t="s") + cell("4") + cell("1", t="b"),
        ],
        "Zweites Blatt": [cell("2", t="s") + cell("=sum", t="str") + cell("99", t="s")],
    }  # fmt: skip
    parsed = parse(xlsx(sheets, strings=strings))
    assert parsed.text == (
        "# Spares\n\nPart | Full\nOptode head | 4 | TRUE\n\n# Zweites Blatt\n\n東 | =sum"
    )
    assert (parsed.type, parsed.title) == ("xlsx", "stock")


@pytest.mark.parametrize(
    ("value", "style", "shown"),
    [
        ("46053", 1, "2026-01-31"),
        ("46053.5625", 2, "2026-01-31 13:30"),
        ("0.25", 1, "06:00"),
        ("46053", 0, "46053"),
        ("46053", 3, "46053"),
        ("46053", 99, "46053"),
        ("99999999", 1, "99999999"),
        ("-1", 1, "-1"),
        ("nonsense", 1, "nonsense"),
    ],
)
def test_dates(value: str, style: int, shown: str) -> None:
    assert parse(xlsx({"S": [cell(value, s=style)]}, styles=STYLES)).text == f"# S\n\n{shown}"


def test_dates_of_old_macs() -> None:
    data = xlsx({"S": [cell("44591", s=1)]}, styles=STYLES, settings='<workbookPr date1904="1"/>')
    assert parse(data).text == "# S\n\n2026-01-31"


def test_a_long_sheet_has_many_passages() -> None:
    parsed = parse(xlsx({"S": [cell(str(number)) for number in range(1, 121)]}))
    spans = [(block.span.start, block.span.end) for block in parsed.blocks]
    assert spans == [(1, 1), (3, 52), (54, 103), (105, 124)]
    assert {block.heading_path for block in parsed.blocks} == {("S",)}


def test_a_passage_of_several_rows_names_its_sheet_once() -> None:
    parsed = parse(xlsx({"Ropes": [cell(str(number)) for number in range(1, 121)]}))
    places = [draft.spans[0].place for draft in chunk(parsed.blocks, 1800)]
    assert places == ["Ropes!A1 – A101"]


def test_what_is_in_no_cell() -> None:
    parts = {
        "docProps/core.xml": core(title="Stock", description="of the quay"),
        "xl/comments1.xml": "<c><text><r><t>foil is fragile</t></r></text></c>",
    }
    parsed = parse(xlsx({"S": [cell("1")]}, **parts))
    assert parsed.text == "# S\n\n1\n\nfoil is fragile\nof the quay"
    assert parsed.title == "Stock"


def test_comments_are_cited_by_their_cells() -> None:
    comment = '<comment ref="B7"><text><r><t>foil is </t></r><r><t>fragile</t></r></text></comment>'
    thread = '<threadedComment ref="C2"><text>who said so?</text></threadedComment>'
    parts = {
        "xl/worksheets/_rels/s1.xml.rels": relations(
            {"rId1": ("comments", "../comments1.xml"), "rId2": ("threadedComment", "../t1.xml")}
        ),
        "xl/comments1.xml": f"<comments><commentList>{comment}</commentList></comments>",
        "xl/t1.xml": f"<ThreadedComments>{thread}</ThreadedComments>",
        "docProps/core.xml": core(description="of the quay"),
    }
    parsed = parse(xlsx({"Foils": [cell("1")], "Masts": [cell("2")]}, **parts))
    places = {block.text: (block.span.place, block.heading_path) for block in parsed.blocks}
    assert places["foil is fragile"] == ("Foils!B7", ("Foils",))
    assert places["who said so?"] == ("Foils!C2", ("Foils",))
    assert places["of the quay"] == (None, ())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("3849.2543049999999", "3849.254305"),
        ("5.9538107100000001E-2", "0.0595381071"),
        ("-1.0000000000000001E-30", "-1E-30"),
        ("1954.8428529", "1954.8428529"),
        ("12345678901234567890", "12345678901234567890"),
        ("1.0000000000000001E999", "1.0000000000000001E999"),
    ],
)
def test_numbers_have_the_digits_that_were_typed(value: str, shown: str) -> None:
    assert parse(xlsx({"S": [cell(value)]})).text == f"# S\n\n{shown}"


def test_names_of_parts_with_backslashes() -> None:
    with zipfile.ZipFile(io.BytesIO(xlsx({"S": [cell("1")]}))) as archive:
        parts = {name.replace("/", "\\"): archive.read(name) for name in archive.namelist()}
    assert parse(zipped(parts)).text == "# S\n\n1"


def test_files_that_are_none() -> None:
    with pytest.raises(Unreadable, match="not an Excel workbook"):
        parse(zipped({"a.txt": "x"}))
    with pytest.raises(Unsupported, match="without a password"):
        parse(b"\xd0\xcf\x11\xe0 old")


def test_no_text_is_dropped() -> None:
    """Hints, headers and names are outside the cells; programs other than Excel write formulas
    without values."""
    row = cell(" 0 ", t="s") + '<c><f>HYPERLINK("http://a.example","label")</f></c>'
    row += "<c t='str'><f>IF(A1,B1)</f><v></v></c>"
    more = (
        '<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;12harbor &amp;P</oddHeader>'
        "</headerFooter>"
        '<hyperlinks><hyperlink ref="A1" tooltip="hint" display="shown"/></hyperlinks>'
        '<dataValidations><dataValidation promptTitle="asks" prompt="choose" error="wrong">'
        '<formula1>"oak,pine"</formula1></dataValidation><dataValidation>'
        "<formula1>$Q$7:$Q$8</formula1></dataValidation></dataValidations>"
    )
    settings = (
        "<definedNames><definedName name='discount'>0.93</definedName>"
        "<definedName name='_xlnm.Print_Area'>Sheet9</definedName></definedNames>"
        '<sheets><sheet name="orphan" sheetId="7"/></sheets>'
    )
    data = xlsx({"S": [row]}, strings=["<t>spaced</t>"], settings=settings)
    sheet = zipfile.ZipFile(io.BytesIO(data)).read("xl/worksheets/s1.xml").decode()
    files = {"xl/worksheets/s1.xml": sheet.replace("</worksheet>", f"{more}</worksheet>")}
    text = parse(xlsx({"S": [row]}, strings=["<t>spaced</t>"], settings=settings, **files)).text
    assert text is not None
    for word in ("spaced", 'HYPERLINK("http://a.example","label")', "harbor", "hint", "shown",
                 "asks", "choose", "wrong", "oak,pine", "discount", "0.93", "orphan"):  # fmt: skip
        assert word in text
    for word in ("Arial", "IF(", "$Q", "Sheet9", "&"):
        assert word not in text


def test_nesting_and_repetition_take_linear_time() -> None:
    """Otherwise these would take minutes."""
    rows = "<row><c t='inlineStr'>" * 20_000 + "<is><t>deep</t></is>" + "</c></row>" * 20_000
    assert "7" in (parse(xlsx({"S": [rows, cell("7")]})).text or "")
    spoken = "<rPh>" * 20_000 + "<t>x</t>" + "</rPh>" * 20_000
    assert parse(xlsx({"S": [cell("0", t="s")]}, strings=[f"<t>y</t>{spoken}"])).text == "# S\n\ny"
    long = "word " * 20_000
    many = cell("0", t="s") * 20_000
    text = parse(xlsx({"S": [many]}, strings=[f"<t>{long}</t>"])).text or ""
    assert len(text) < 3_000_000


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ("0.4267", "0.00%", "42.67%"), ("0.425", "0%", "43%"), ("-0.5", "#,##0.0 %", "-50.0%"),
        ("1234", "00000", "01234"), ("-7", "000", "-007"), ("1.25", "[h]:mm", "30:00"),
        ("0.5", "[mm]:ss", "720:00"), ("1234567.891", "#,##0.00", "1234567.891"),
        ("many", "0%", "many"), ("1e400", "0%", "1e400"), ("NaN", "000", "NaN"),
        ("0.1", '0%;[Red]-0%;"-"', "10%"),
    ],
)  # fmt: skip
def test_numbers_as_the_sheet_shows_them(value: str, code: str, shown: str) -> None:
    styles = (
        f"<numFmts><numFmt numFmtId='164' formatCode='{code}'/></numFmts>"
        "<cellXfs><xf numFmtId='0'/><xf numFmtId='164'/></cellXfs>"
    )
    assert (parse(xlsx({"S": [cell(value, s=1)]}, styles=styles)).text or "").endswith(f"\n{shown}")


def test_built_in_percentages() -> None:
    styles = "<cellXfs><xf numFmtId='9'/><xf numFmtId='10'/></cellXfs>"
    rows = {"S": [cell("0.25", s=0) + cell("0.25", s=1)]}
    assert (parse(xlsx(rows, styles=styles)).text or "").endswith("25% | 25.00%")


@pytest.mark.parametrize("target", ["SharedStrings.xml", "ss.xml"])
def test_shared_strings_under_another_name(target: str) -> None:
    data = xlsx({"S": [cell("0", t="s")]}, strings=["<t>Optode</t>"])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    relations = "xl/_rels/workbook.xml.rels"
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    parts[relations] = parts[relations].replace(
        b"</Relationships>",
        f'<Relationship Id="rId9" Type="{kind}" Target="{target}"/></Relationships>'.encode(),
    )
    parts[f"xl/{target.lower()}"] = parts.pop("xl/sharedStrings.xml")
    assert "Optode" in (parse(zipped(parts)).text or "")


def test_a_long_text_of_several_cells_is_whole_in_each() -> None:
    long = "The mooring line must be inspected. " * 40 + "ENDMARK"
    rows = [cell(str(number)) + cell("0", t="s") for number in range(3)]
    parsed = parse(xlsx({"S": rows}, strings=[f"<t>{long}</t>"]))
    assert (parsed.text or "").count("ENDMARK") == 3
    assert not parsed.warnings
    many = parse(xlsx({"S": [cell("0", t="s")] * 1_000}, strings=[f"<t>{long}</t>"]))
    assert many.warnings == ("654 cells with a long text that others have are shortened",)
    assert "…" in (many.text or "")


def test_embedded_files() -> None:
    """The texts of workbooks are read; other files are named."""
    strings = "<sst><si><t>Harbour dues</t></si></sst>"
    parts: dict[str, Any] = {
        "xl/embeddings/Sheet1.xlsx": zipped({"xl/sharedStrings.xml": strings}),
        "xl/embeddings/Letter.docx": b"PK",
    }
    parsed = parse(xlsx({"A": [cell("1")]}, **parts))
    assert "Harbour dues" in (parsed.text or "")
    assert parsed.warnings == ("embedded files are not read: Letter.docx",)


def test_escaped_characters() -> None:
    """Excel escapes characters that XML does not allow, and texts that look like such an escape."""
    strings = [
        "<t>first_x000D_\nsecond</t>",
        "<t>caf_x00E9_ _x005F_x000D_ _xD83D_ my_xylophone</t>",
    ]
    inline = "<c t='inlineStr'><is><t>in_x0009_line</t></is></c>"
    row = cell("0", t="s") + cell("1", t="s") + cell("a_x0041_b", t="str") + inline
    comments = "<comments><t>note_x000D_\nbelow</t></comments>"
    parts: dict[str, Any] = {"xl/comments1.xml": comments}
    text = parse(xlsx({"A": [row]}, strings=strings, **parts)).text or ""
    assert "first second | café _x000D_ my_xylophone | aAb | in line" in text
    assert "note below" in text
