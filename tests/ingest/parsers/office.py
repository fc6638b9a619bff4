"""Office files for tests, with the parts that the programs write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tests.ingest.parsers.archives import zipped

_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
ODF = " ".join(
    f'xmlns:{name}="{_ODF}:{space}:1.0"'
    for name, space in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"),
        ("presentation", "presentation"), ("meta", "meta"), ("style", "style"),
        ("svg", "svg-compatible"),
    )
)  # fmt: skip


def core(**properties: str) -> str:
    """The properties of an office file of Microsoft."""
    items = "".join(f"<dc:{key}>{escape(text)}</dc:{key}>" for key, text in properties.items())
    return f'<c:coreProperties xmlns:c="urn:c" xmlns:dc="urn:dc">{items}</c:coreProperties>'


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    items = "".join(
        f'<Relationship Id="{key}" Type="{_R}/{kind}" Target="{target}"/>'
        for key, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="urn:relationships">{items}</Relationships>'


# --- presentations --------------------------------------------------------------------------------


def paragraph(*runs: str) -> str:
    return "<a:p>" + "".join(f"<a:r><a:t>{escape(run)}</a:t></a:r>" for run in runs) + "</a:p>"


def shape(*paragraphs: str, kind: str = "", description: str = "") -> str:
    place = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else ""
    body = "".join(paragraphs)
    about = f'<p:cNvPr id="2" name="x" descr="{escape(description)}"/>'
    return f"<p:sp><p:nvSpPr>{about}{place}</p:nvSpPr><p:txBody>{body}</p:txBody></p:sp>"


def pptx(slides: Sequence[str], *, notes: Mapping[int, str] | None = None, **parts: Any) -> bytes:
    """A presentation whose parts are in the reverse order of its slides."""
    last = len(slides)
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="rId{n}"/>' for n in range(1, last + 1))
    files: dict[str, str | bytes] = {
        "ppt/presentation.xml": f'<p:presentation {_P} xmlns:r="{_R}"><p:sldIdLst>{ids}'
        "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            {f"rId{n}": ("slide", f"slides/slide{last + 1 - n}.xml") for n in range(1, last + 1)}
        ),
    }
    for number, content in enumerate(slides, 1):
        name = f"slide{last + 1 - number}.xml"
        files[f"ppt/slides/{name}"] = f"<p:sld {_P} {_A}>{content}</p:sld>"
        if notes and number in notes:
            target = {"rId1": ("notesSlide", f"../notesSlides/{name}")}
            files[f"ppt/slides/_rels/{name}.rels"] = relations(target)
            files[f"ppt/notesSlides/{name}"] = f"<p:notes {_P} {_A}>{notes[number]}</p:notes>"
    return zipped(files | parts)


# --- workbooks ------------------------------------------------------------------------------------


def xlsx(
    sheets: Mapping[str, Sequence[str]],
    *,
    strings: Sequence[str] = (),
    styles: str = "",
    settings: str = "",
    **parts: Any,
) -> bytes:
    """A workbook with sheets whose rows are the XML of their cells."""
    names = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>'
        for n, name in enumerate(sheets, 1)
    )
    files: dict[str, str | bytes] = {
        "xl/workbook.xml": f'<workbook xmlns="{_S}" xmlns:r="{_R}">{settings}'
        f"<sheets>{names}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            {
                f"rId{n}": ("worksheet", f"/xl/worksheets/s{n}.xml")
                for n in range(1, len(sheets) + 1)
            }
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{_S}">'
        + "".join(f"<si>{each}</si>" for each in strings)
        + "</sst>",
        "xl/styles.xml": f'<styleSheet xmlns="{_S}">{styles}</styleSheet>',
    }
    for number, rows in enumerate(sheets.values(), 1):
        data = "".join(f"<row>{row}</row>" for row in rows)
        files[f"xl/worksheets/s{number}.xml"] = (
            f'<worksheet xmlns="{_S}"><sheetData>{data}</sheetData></worksheet>'
        )
    return zipped(files | parts)


# --- OpenDocument ---------------------------------------------------------------------------------


def opendocument(
    body: str, *, meta: str = "", styles: str = "", manifest: str = "", **parts: str
) -> bytes:
    files: dict[str, str | bytes] = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"<office:document-content {ODF}><office:body>{body}</office:body>"
        "</office:document-content>",
        "meta.xml": f'<office:document-meta {ODF} xmlns:dc="urn:dc"><office:meta>{meta}'
        "</office:meta></office:document-meta>",
        "styles.xml": f"<office:document-styles {ODF}>{styles}</office:document-styles>",
        "META-INF/manifest.xml": f"<manifest>{manifest}</manifest>",
    }
    return zipped(files | parts)
