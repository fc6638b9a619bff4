"""Excel workbooks: the rows of each sheet, with the values that it shows."""

from __future__ import annotations

import io
import zipfile

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.xlsx import XlsxParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.office import core, xlsx

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


def test_what_is_in_no_cell() -> None:
    parts = {
        "docProps/core.xml": core(title="Stock", description="of the quay"),
        "xl/comments1.xml": "<c><text><r><t>foil is fragile</t></r></text></c>",
    }
    parsed = parse(xlsx({"S": [cell("1")]}, **parts))
    assert parsed.text == "# S\n\n1\n\nfoil is fragile\nof the quay"
    assert parsed.title == "Stock"


def test_files_that_are_none() -> None:
    with pytest.raises(Unreadable, match="not an Excel workbook"):
        parse(zipped({"a.txt": "x"}))
    with pytest.raises(Unsupported, match="without a password"):
        parse(b"\xd0\xcf\x11\xe0 old")


def test_no_text_is_dropped() -> None:
    """Hints, headers and names are outside of the cells; programs other than Excel write formulas
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
