"""No text is dropped: every word of a file is in a passage, in the title, or in a known attribute.

PDFs are in `parsers/test_pdf_words.py`.
"""

from __future__ import annotations

import html
import json
import re
from email.message import EmailMessage
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unsupported, decode
from kb.ingest.parse import Parsers
from kb.metadata import TITLE_CHARS
from kb.ports import Source
from tests.ingest.documents import CODE_LINES, MARKDOWN_LINES, documents
from tests.ingest.parsers import office
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.test_docx import W, cell, docx, item, p, run
from tests.ingest.parsers.test_epub import PACKAGE, parts
from tests.ingest.parsers.test_notebook import code, markdown, notebook, stream

_WORD = re.compile(r"\w+")
PARSERS = Parsers(1800, plug_ins=())


def words_of(text: str) -> set[str]:
    return set(_WORD.findall(text))


def words_found(name: str, data: bytes, max_chars: int = 1800) -> set[str]:
    source = Source(name, data)
    parser = PARSERS.detect(source)
    assert parser is not None
    parsed = parser.parse(source)
    texts = [draft.text for draft in chunk(parsed.blocks, max_chars)]
    said = parsed.attributes
    titles = [(title or "")[:TITLE_CHARS] for title in (parsed.title, said.title)]
    known = [*titles, said.lang, said.kind, said.date, *said.tags]
    return words_of("\n".join([*texts, *(text or "" for text in known)]))


# --- line-based formats ---------------------------------------------------------------------------

FRONT_LINES = (
    "---", "---", "title: Winter", "tags: [boat, shed]", "kind: gossip", "owner: Zacharias",
    "ports:", "  - Genoa", "  - {Lisbon: 7}", "date: soon", "x: |", "  several", "  lines",
    "a: &b c", "...", "ttl: 99x", "title: again",
)  # fmt: skip
OTHER_LINES = (
    ".. note:: directive", "   :option: value", "   content", ".. comment", ".. [1] footnote",
    ".. |sub| replace:: text", "====", "Title", "----", "::", "   literal", ":Date: 2026-01-01",
    "+---+---+", "| a | b |", "=== ===", "* Headline :tag:", "** TODO [#A] deeper [1/2]",
    ":PROPERTIES:",
    ":ID: 4711", ":END:", "#+TITLE: org title", "#+begin_src python", "x = 1", "#+end_src",
    "# comment", "CLOCK: [2026-01-01]", "= Document", ":attribute: of asciidoc", "// comment",
    "////", "[NOTE]", "====", "include::other[]", "|===", "|cell |cell2", "|===", "a,b,c",
    '"quoted, cell",2', '"open', "cell", 'end",x', ";;", "ragged",
    '{"key": "value", "deep": [1, {"x": "y"}]}',
    "10:00:01 ERROR in log", "\\section{Tex}", "00:00:01,000 --> 00:00:02,000",
)  # fmt: skip
EXTENSIONS = (
    ".md", ".txt", ".log", ".tex", ".rst", ".adoc", ".org", ".csv", ".tsv", ".jsonl", ".py",
    ".js", ".c", ".json", ".yaml", ".toml", ".sh", ".sql", ".xml",
)  # fmt: skip
LINES = (*FRONT_LINES, *OTHER_LINES, *MARKDOWN_LINES, *CODE_LINES)


@pytest.mark.parametrize("suffix", EXTENSIONS)
@settings(max_examples=40)
@given(text=documents(LINES), max_chars=st.sampled_from([40, 1800]))
def test_files_that_are_read_by_lines(suffix: str, text: str, max_chars: int) -> None:
    try:
        found = words_found(f"a{suffix}", text.encode(), max_chars)
    except Unsupported:
        return
    # The keys of front matter that are known to kb, and the values it can make sense of.
    known = {"title", "tags", "kind", "date", "ttl"}
    assert words_of(decode(text.encode())) - known <= found


def test_lines_that_are_too_long_for_a_passage() -> None:
    words = [f"w{number}" for number in range(30_000)]
    for name in ("a.md", "a.txt", "a.py", "a.csv", "a.rst"):
        assert set(words) <= words_found(name, " ".join(words).encode())


TITLE = " ".join(f"title{number}" for number in range(1000))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", f"---\ntitle: {TITLE}\n---\ntext"),
        ("a.md", f"# {TITLE}\n\ntext"),
        ("a.txt", f"---\ntitle: {TITLE}\n---\ntext"),
        ("a.org", f"#+title: {TITLE}\ntext"),
        ("a.org", f"* {TITLE}\ntext"),
        ("a.rst", f"{TITLE}\n{'=' * len(TITLE)}\n\ntext"),
        ("a.adoc", f"= {TITLE}\n\ntext"),
        ("a.html", f"<title>{TITLE}</title><p>text"),
        ("a.html", f"<h1>{TITLE}</h1><p>text"),
        ("a.eml", f"Subject: {TITLE}\n\ntext"),
        ("a.epub", zipped(parts() | {"OEBPS/book.opf": PACKAGE.replace("The book", TITLE)})),
        ("a.docx", docx(p("text"), docProps__core=f"<core><title>{TITLE}</title></core>")),
        ("a.docx", docx(p(TITLE, "Titel"))),
        ("a.pptx", office.pptx([office.shape(office.paragraph(TITLE), kind="title")])),
        ("a.odt", office.opendocument(f"<text:h>{TITLE}</text:h>")),
        ("a.ipynb", json.dumps({"cells": [markdown("text")], "metadata": {"title": TITLE}})),
    ],
)  # fmt: skip
def test_titles_that_are_too_long_to_be_stored_with_every_passage(
    name: str, data: str | bytes
) -> None:
    found = words_found(name, data if isinstance(data, bytes) else data.encode())
    assert words_of(TITLE) <= found


# --- formats with markup --------------------------------------------------------------------------


class Vocabulary:
    """Creates words that occur nowhere else."""

    def __init__(self) -> None:
        self._numbers = count()
        self.words: set[str] = set()

    def __call__(self) -> str:
        word = f"w{next(self._numbers)}x"
        self.words.add(word)
        return word


TAGS = (
    "p", "div", "span", "b", "h1", "h2", "ul", "ol", "li", "dl", "dt", "dd", "table", "tr", "td",
    "th", "caption", "pre", "code", "blockquote", "section", "article", "main", "aside", "header",
    "footer", "nav", "form", "label", "button", "select", "option", "textarea", "details",
    "summary", "figure", "figcaption", "noscript", "object", "video", "audio", "dialog", "svg",
    "text", "ruby", "rt", "rp", "a", "abbr", "address", "fieldset", "legend", "menu", "iframe",
    "custom-tag", "center", "font", "marquee", "map", "canvas", "del", "ins", "math", "mi",
)  # fmt: skip
ATTRIBUTES = (
    "", " hidden", " style='display:none'", " class='sidebar'", " class='hidden toc'", " id=footer",
    " role=navigation", " role=alert", " class=sr-only", " title='{}'", " alt='{}'",
)  # fmt: skip
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none(),
    lambda inner: st.tuples(
        st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES), st.lists(inner, max_size=4)
    ),
    max_leaves=12,
)


def markup(tree: Any, word: Vocabulary) -> str:
    if tree is None:
        return f" {word()} "
    tag, attributes, inner = tree
    if tag == "iframe":
        return f"<iframe srcdoc='{html.escape(f'<p>{word()}')}'></iframe>"
    if tag == "textarea":
        return f"<textarea>{word()}</textarea>"
    said = attributes.format(word()) if "{}" in attributes else attributes
    return f"<{tag}{said}> {word()} {''.join(markup(one, word) for one in inner)}</{tag}>"


@settings(max_examples=200)
@given(st.lists(TREES, max_size=6))
def test_web_pages(trees: list[Any]) -> None:
    word = Vocabulary()
    body = "".join(markup(tree, word) for tree in trees)
    head = f"<title>{word()} | {word()}</title><meta name=description content='{word()}'>"
    page = f"<html><head>{head}</head><body><p>{word()}</p>{body}</body></html>"
    assert word.words & shown(page) <= words_found("a.html", page.encode())


def shown(page: str) -> set[str]:
    """The words that remain when a page is parsed: a cell outside a table is not an element, and
    has no attributes."""
    tree = LexborHTMLParser(page)
    return words_of(tree.html or "")


@settings(max_examples=50)
@given(st.lists(TREES, max_size=4))
def test_books(trees: list[Any]) -> None:
    word = Vocabulary()
    chapter = "".join(markup(tree, word) for tree in trees)
    package = PACKAGE.replace(
        "</manifest>",
        "<item id='n' href='n.xhtml' media-type='application/xhtml+xml'/></manifest>",
    )
    about = f"<dc:description>{word()}</dc:description><dc:subject>{word()}</dc:subject></metadata>"
    one = f"<html><body>{chapter}</body></html>"
    files = parts() | {
        "OEBPS/book.opf": package.replace("</metadata>", about),
        "OEBPS/text/one.xhtml": one,
        "OEBPS/n.xhtml": f"<html><body><aside>{word()}</aside></body></html>",
    }
    other = word.words - words_of(one)
    assert other | (word.words & shown(one)) <= words_found("a.epub", zipped(files))


def test_word_documents() -> None:
    word = Vocabulary()

    def box() -> str:
        return f"<w:r><w:pict><w:txbxContent>{p(word())}</w:txbxContent></w:pict></w:r>"

    def reference(kind: str) -> str:
        return f'<w:r><w:{kind}Reference w:id="2"/></w:r>'

    def notes(kind: str) -> str:
        inside = "".join(
            f'<w:{kind} w:id="{number}">{p(word())}</w:{kind}>' for number in (2, 3)
        )  # nothing refers to the second one
        return f"<w:{kind}s {W}>{inside}</w:{kind}s>"

    body = [
        *(p(word(), style) for style in ("Titel", "berschrift1", "H2", "TOC1", "Code", "Q", "")),
        item(word(), 0),
        f"<w:p>{run(word())}{box()}{reference('footnote')}{reference('endnote')}</w:p>",
        f"<w:p>{run(word())}{reference('comment')}</w:p>",
        f"<w:tbl><w:tr>{cell(word())}<w:tc><w:p>{box()}</w:p></w:tc></w:tr></w:tbl>",
        f"<w:tbl><w:tr>{cell(word())}</w:tr></w:tbl>",
        f"<w:p><w:ins>{run(word())}</w:ins>{run(' ')}<w:moveTo>{run(word())}</w:moveTo></w:p>",
        f"<w:p><w:hyperlink>{run(word())}</w:hyperlink><w:r><w:tab/></w:r><w:fldSimple>{run(word())}</w:fldSimple></w:p>",
        f"<w:sdt><w:sdtContent>{p(word())}</w:sdtContent></w:sdt>",
        f'<w:p><m:oMath xmlns:m="x"><m:r><m:t>{word()}</m:t></m:r></m:oMath></w:p>',
        f"<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>{word()}</w:t></w:r></w:p>",
        p(" ".join(word() for _ in range(200)), "berschrift1"),
    ]
    core = "".join(
        f"<{name}>{word()}</{name}>"
        for name in ("title", "subject", "creator", "keywords", "description", "category")
    )
    data = docx(
        *body,
        word__footnotes=notes("footnote"),
        word__endnotes=notes("endnote"),
        word__comments=notes("comment"),
        word__header1=f"<w:hdr {W}>{p(word())}</w:hdr>",
        word__footer12=f"<w:ftr {W}>{p(word())}<w:p>{box()}</w:p></w:ftr>",
        word__diagrams__data1=f'<d xmlns:a="x"><a:p><a:t>{word()}</a:t></a:p></d>',
        word__charts__chart1=f'<c xmlns:c="x"><c:pt><c:v>{word()}</c:v></c:pt></c>',
        docProps__core=f"<core>{core}</core>",
    )
    assert word.words <= words_found("a.docx", data)


def test_word_documents_with_words_in_attributes() -> None:
    word = Vocabulary()

    def element(name: str, *attributes: str, inside: str = "") -> str:
        said = "".join(f' {attribute}="{word()}"' for attribute in attributes)
        return f"<{name}{said}>{inside}</{name}>"

    watermark = element("v:shape", "alt", inside=element("v:textpath", "string"))
    table = element("w:tblCaption", "w:val") + element("w:tblDescription", "w:val")
    field = element("w:textInput", inside=element("w:default", "w:val"))
    choices = element("w:ddList", inside=element("w:listEntry", "w:val"))
    control = element("w:alias", "w:val") + element("w:listItem", "w:displayText", "w:value")
    diagram = f"<dgm:t><a:p><a:r><a:t>{word()}</a:t></a:r></a:p></dgm:t>"
    namespaces = f'{W} xmlns:v="v" xmlns:wp="p" xmlns:dgm="d" xmlns:a="a"'
    data = docx(
        element("w:p", inside=element("wp:docPr", "descr", "title")),
        element("w:p", inside=watermark),
        f"<w:tbl><w:tblPr>{table}</w:tblPr><w:tr>{cell(word())}{cell(word())}</w:tr></w:tbl>",
        element("w:p", inside=element("w:helpText", "w:val") + field + choices),
        f"<w:sdt><w:sdtPr>{control}</w:sdtPr><w:sdtContent>{p(word())}</w:sdtContent></w:sdt>",
        element("w:p", inside=element("w:hyperlink", "w:tooltip", inside=run(word()))),
        namespace=namespaces,
        word__header1=f"<w:hdr {namespaces}>{watermark}</w:hdr>",
        word__diagrams__data1=f"<dgm:pt {namespaces}>{diagram}</dgm:pt>",
        word__charts__chartEx1=f"<chart><pt><v>{word()}</v></pt></chart>",
        docProps__custom=f"<properties><lpwstr>{word()}</lpwstr></properties>",
        docProps__app=f"<properties><Company>{word()}</Company></properties>",
    )
    assert word.words <= words_found("a.docx", data)


def test_notebooks() -> None:
    word = Vocabulary()

    def data(**forms: Any) -> dict[str, Any]:
        said = {
            name.replace("__", "/").replace("_xml", "+xml").replace("_json", "+json"): value
            for name, value in forms.items()
        }
        return {"output_type": "display_data", "data": said}

    file = notebook(
        markdown(f"# {word()}\n", f"{word()} <!-- {word()} -->\n", f"[x]: http://{word()}"),
        code(
            word(),
            stream("".join(f"{word()}\n" for _ in range(3000))),
            data(text__plain=word()),
            data(text__plain="<Markdown object>", text__markdown=word()),
            data(text__plain="<HTML object>", text__html=f"<p>{word()}</p>"),
            data(text__latex=word()),
            data(text__csv=f"a,{word()}"),
            data(text__plain="<SVG object>", image__svg_xml=f"<svg><text>{word()}</text></svg>"),
            data(text__plain="<JSON object>", application__json=[{word(): word()}]),
            data(application__vnd_plotly_v1_json={"title": word()}),
            {"output_type": "pyout", "html": f"<b>{word()}</b>"},
            {"output_type": "error", "ename": word(), "evalue": word(), "traceback": [word()]},
        ),
        {"cell_type": "raw", "source": word()},
        {"cell_type": "heading", "level": 2, "source": word()},
        markdown(" ".join(word() for _ in range(200_000))),
    )
    assert word.words <= words_found("a.ipynb", file)


def test_mails() -> None:
    word = Vocabulary()

    def mail() -> EmailMessage:
        message = EmailMessage()
        for field in ("Subject", "Reply-To", "Keywords", "Comments", "Organization"):
            message[field] = word()
        for field in ("From", "To", "Cc", "Bcc"):
            message[field] = f"{word()} <{word()}@x.test>"
        message.set_content(f"{word()}\n\n> {word()}\n-- \n{word()}")
        message.add_alternative(f"<p>{word()}</p><p hidden>{word()}", subtype="html")
        message.add_attachment(word(), subtype="markdown", filename=f"{word()}.md")
        message.add_attachment(word(), disposition="inline", filename=f"{word()}.txt")
        message.add_attachment(b"x", maintype="image", subtype="png", filename=f"{word()}.png")
        return message

    outer = mail()
    outer.add_attachment(mail())
    assert word.words <= words_found("a.eml", outer.as_bytes())


# --- office files of other programs ---------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["odt", "ods", "odp"])
def test_opendocument(suffix: str) -> None:
    cell = "<table:table-cell><text:p>celltext</text:p></table:table-cell>"
    body = (
        "<text:h>head</text:h><text:p>plain <text:span>span</text:span> tail<office:annotation>"
        "<text:p>comment</text:p></office:annotation> after</text:p><text:list><text:list-item>"
        f"<text:p>item</text:p></text:list-item></text:list><table:table><table:table-row>{cell}"
        "</table:table-row></table:table><draw:frame><draw:text-box><text:p>framed</text:p>"
        "</draw:text-box><draw:desc>picture</draw:desc></draw:frame>"
    )
    wanted = words_of("head plain span tail comment after item celltext framed picture")
    assert wanted <= words_found(f"a.{suffix}", office.opendocument(body))


def test_pptx() -> None:
    slide = office.shape(office.paragraph("title"), kind="title") + office.shape(
        office.paragraph("bul", "let"), description="picture"
    )
    notes = {1: office.shape(office.paragraph("spoken"))}
    parts: dict[str, Any] = {"ppt/diagrams/data1.xml": "<d xmlns:a='urn:a'><a:t>diagram</a:t></d>"}
    wanted = words_of("title bullet picture spoken diagram")
    assert wanted <= words_found("a.pptx", office.pptx([slide], notes=notes, **parts))


def test_xlsx() -> None:
    rows = ["<c t='s'><v>0</v></c><c t='str'><v>formula</v></c>", "<c><v>42</v></c>"]
    parts = {"xl/comments1.xml": "<c><t>remark</t></c>"}
    data = office.xlsx({"Sheet": rows}, strings=["<t>shared</t>"], **parts)
    assert words_of("Sheet shared formula 42 remark") <= words_found("a.xlsx", data)


def test_canvas() -> None:
    nodes = [
        {"type": "text", "text": "card"}, {"type": "file", "file": "note.md", "subpath": "#part"},
        {"type": "link", "url": "https://example.org"}, {"type": "group", "label": "group"},
    ]  # fmt: skip
    data = json.dumps({"nodes": nodes, "edges": [{"label": "edge"}]}).encode()
    wanted = words_of("card note part https://example.org group edge")
    assert wanted <= words_found("a.canvas", data)


@given(st.lists(st.sampled_from((
    "@article{key,", "title = {Words}", 'author = "Names"', "}", "@comment{aside}", "between", "",
    "TY  - JOUR", "TI  - risen", "ER  -",
))))  # fmt: skip
def test_references(lines: list[str]) -> None:
    text = "\n".join(lines)
    for name in ("a.bib", "a.ris"):
        assert words_of(text) <= words_found(name, text.encode())


@given(st.lists(st.sampled_from((
    '{"id": "key", "type": "book", "title": "Words"}', "[", "]", ",", "{", '"loose"', "",
))))  # fmt: skip
def test_csl_json(lines: list[str]) -> None:
    text = "\n".join(['[{"type": "book", "author": []},', *lines])
    assert words_of(text) <= words_found("a.json", text.encode())


@given(st.lists(st.sampled_from((
    "{", "}", "\\b bold\\b0 ", "text", "\\par ", "cell\\cell ", "\\row ", "caf\\'e9 ",
    "{\\footnote note}", "{\\header head}", "\\line next", "\\u233?t\\u233? ",
))))  # fmt: skip
def test_rtf(tokens: list[str]) -> None:
    found = words_found("a.rtf", ("{\\rtf1 first " + " ".join(tokens) + "}").encode())
    shown = {"text": "text", "\\b bold\\b0 ": "bold", "cell\\cell ": "cell", "caf\\'e9 ": "café",
             "{\\footnote note}": "note", "{\\header head}": "head", "\\line next": "next",
             "\\u233?t\\u233? ": "été"}  # fmt: skip
    assert {"first"} | {shown[token] for token in tokens if token in shown} <= found


@given(st.lists(st.sampled_from((
    ".SH SECTION", ".SS Sub section", "plain words", ".B bold", ".BR alternating (7)", ".TP",
    ".IP item 4", ".nf", "code  line", ".fi", "", ".RS", ".Op Fl option Ar argument", ".sp 2",
    "a \\\\fBfont\\\\fR", ".unknown macro", '.TH PAGE 1 "some date"',
))))  # fmt: skip
def test_man(lines: list[str]) -> None:
    text = "\n".join([".TH NAME 1", *lines])
    requests = {"TH", "SH", "SS", "B", "BR", "TP", "IP", "nf", "fi", "RS", "Op", "Fl", "Ar", "sp",
                "unknown", "fBfont", "fR"}  # fmt: skip
    macros = requests | {"2", "4"}  # and measures
    assert words_of(text) - macros <= words_found("a.1", text.encode())


@given(st.lists(st.sampled_from((
    "00:00:01,000 --> 00:00:02,000", "00:01:09.000 --> 00:02:00.000 line", "said", "", "7",
    "<v Ada>voice</v>", "NOTE remark", "WEBVTT", "and <i>more</i>",
))))  # fmt: skip
def test_subtitles(lines: list[str]) -> None:
    text = "\n".join(["00:00:00,000 --> 00:00:01,000", "first", "", *lines])
    wanted = words_of("\n".join(line for line in lines if "-->" not in line)) - set("v i 7".split())
    assert {"first"} | wanted <= words_found("a.srt", text.encode())


@given(st.lists(st.sampled_from((
    "<DL><p>", "</DL><p>", "<DT><H3>folder</H3>", '<DT><A HREF="https://address">link</A>',
    "<DD>description", "loose", '<A HREF="half', "<!-- hidden -->", "<H1>heading</H1>",
))))  # fmt: skip
def test_bookmarks(tokens: list[str]) -> None:
    data = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n" + "\n".join(tokens)
    wanted: set[str] = set()
    for token in tokens:
        if token.startswith('<A HREF="half'):
            break  # hides what follows
        wanted |= words_of(re.sub("<!--.*-->|</?[A-Za-z0-9]+>|<A HREF=", "", token))
    assert wanted - {"DT", "A"} <= words_found("a.html", data.encode())


def test_other_exports() -> None:
    note = (
        b"<en-export><note><title>head</title><tag>label</tag><content><![CDATA[<en-note>"
        b"<p>body</p><td>cell</td></en-note>]]></content><resource><resource-attributes>"
        b"<file-name>attached</file-name></resource-attributes></resource></note></en-export>"
    )
    assert words_of("head label body cell attached") <= words_found("a.enex", note)
    mail = (
        b"Subject: saved\nContent-Type: multipart/related; boundary=x\n\n--x\n"
        b"Content-Type: text/html\n\n<title>page</title><p>words</p><footer>foot</footer>\n--x--"
    )
    assert words_of("saved page words foot") <= words_found("a.mhtml", mail)
    day = [{"type": "message", "ts": "1709971200.1", "user": "U1", "username": "sender",
            "text": "said <https://example.org|link> <@U2|mention>",
            "attachments": [{"title": "shared", "fields": [{"title": "key"}]}]}]  # fmt: skip
    wanted = words_of("sender said example link mention shared key")
    assert wanted <= words_found("2024-03-09.json", json.dumps(day).encode())
    parts = {"folder/a.md": "---\ntitle: front\ntags: [tagged]\n---\n# Top\n\nbody",
             "b.csv": "column\ncell"}  # fmt: skip
    wanted = words_of("folder front tagged Top body column cell")
    assert wanted <= words_found("a.zip", zipped(parts))
