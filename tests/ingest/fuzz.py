"""Damaged files of every format, each made from its number alone: what `test_fuzz.py` runs.

    python -m tests.ingest.fuzz --parser pdf --seed 1234                read one again
    python -m tests.ingest.fuzz --parser pdf --seed 1234 --save x.pdf   and keep it
    python -m tests.ingest.fuzz --parser pdf --from 0 --to 500          many, as the test does
    python -m tests.ingest.fuzz --through-workers --count 100000        of all formats, by turns,
                                                        in parser processes and under their limits

A run says what it does in lines of JSON: which input comes next, what went wrong with it, and at
the end how many were read. So whoever started it knows which input it did not survive.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import random
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from xml.etree import ElementTree

from kb import KnowledgeBase
from kb.config import IngestConfig
from kb.ingest import parser_pool
from kb.ingest.chunk import chunk
from kb.ingest.parse import HEAD_BYTES, Parsers, Unreadable, Unsupported
from kb.ingest.parser_limits import Limits
from kb.ports import Source
from tests.ingest.documents import CODE_LINES, MARKDOWN_LINES
from tests.ingest.parsers import (
    office,
    pdfs,
    test_archive,
    test_asciidoc,
    test_bibliography,
    test_bookmarks,
    test_code,
    test_conversations,
    test_docx,
    test_email,
    test_epub,
    test_evernote,
    test_html,
    test_image,
    test_man,
    test_mhtml,
    test_notebook,
    test_org,
    test_pptx,
    test_rst,
    test_rtf,
    test_slack,
    test_subtitles,
    test_table,
    test_transcript,
    test_zotero,
)
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.mutations import MAX_CHARS, check_parsed

WATCHDOG_S = 120
MEMORY_BYTES = 2 << 30  # of addresses
RESIDENT_BYTES = 1 << 30  # what no input here may need
INGESTED = 20  # one input in so many goes through the whole of ingest
INGESTED_BYTES = 200_000  # longer ones only take time there
LIBRARY = Path(__file__).parents[2] / "examples" / "library"
COMMAND = "python -m tests.ingest.fuzz --parser {parser} --seed {seed}"


class Seed(NamedTuple):
    name: str
    data: bytes


class Case(NamedTuple):
    """An input, and its origin."""

    name: str
    data: bytes
    mutation: str


# --- what is damaged ------------------------------------------------------------------------------


def _library(*suffixes: str) -> list[Seed]:
    paths = sorted(path for path in LIBRARY.rglob("*") if path.suffix in suffixes)
    return [Seed(path.name, path.read_bytes()) for path in paths]


def _pdfs() -> list[Seed]:
    """Uncompressed PDFs, so that mutations hit their text, and a compressed one."""

    def two_columns(canvas: Any) -> None:
        for column in range(2):
            lines = pdfs.wrapped(canvas, pdfs.prose(column, 80), pdfs.HALF)
            pdfs.put(canvas, lines, x=pdfs.MARGIN + column * (pdfs.HALF + pdfs.GUTTER))

    def plain(draw: pdfs.Draw) -> pdfs.Draw:
        return lambda canvas: (canvas.setPageCompression(0), draw(canvas))

    def turned(canvas: Any) -> None:
        canvas.rotate(90)
        pdfs.put(canvas, ["a stamp along the side"], x=100, y=-50)

    outline = [("Start", 1, 0), ("Methods", 2, 0), ("Data", 2, 1)]
    text = pdfs.text_page("Title of it", "", "words and hyphen-", "ated words", "", "- item")
    every = [two_columns, text, turned]
    return [
        Seed("a.pdf", pdfs.made(*map(plain, every), title="Said", outline=outline)),
        Seed("b.pdf", pdfs.made(plain(two_columns))),
        Seed("c.pdf", pdfs.made(*every, outline=outline)),
        Seed("d.pdf", pdfs.made(plain(text), password="x", owner_only=True)),
    ]


def _mails() -> list[Seed]:
    rich = test_email.message()
    rich.add_alternative("<p>Hello, <b>HTML</b></p><ul><li>one", subtype="html")
    rich.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="größe.pdf")
    nested = test_email.message()
    nested.add_attachment(test_email.message("inner"))
    coded = test_email.HEAD + b"Content-Type: text/plain; charset=utf-8\n"
    return [
        Seed("a.eml", rich.as_bytes()),
        Seed("b.eml", nested.as_bytes()),
        Seed("c.eml", coded + b"Content-Transfer-Encoding: base64\n\nZ3LDtsOfZQ==\n"),
        Seed("d.eml", coded + "Subject: =?utf-8?q?x=C3=9F?=\n\ngröße\n\n> quoted\n".encode()),
    ]


def _tables() -> list[Seed]:
    lines = "\n".join(json.dumps({"n": n, "t": "x\ny"}) for n in range(9))
    semicolons = "sep=;\na;b;c\n" + "".join(f'{n};"x {n}";y\n' for n in range(40))
    return [
        Seed("a.csv", test_table.TYPICAL.encode()),
        Seed("b.csv", semicolons.encode()),
        Seed("c.tsv", b"a\tb\n1,2\t3\n" * 9),
        Seed("d.jsonl", lines.encode()),
    ]


def _codes() -> list[Seed]:
    made = [Seed(name, text.encode()) for name, text in test_code.FILES.items()]
    return made + _library(".py", ".go", ".c")


_ROWS = ["<c t='s'><v>0</v></c><c><v>4</v></c>", "<c t='inlineStr'><is><t>Full</t></is></c>"]
_ODT = "<office:text><text:h>Moor</text:h><text:p>a <text:s/>buoy</text:p></office:text>"
_ODS = ("<office:spreadsheet><table:table table:name='S'><table:table-row><table:table-cell>"
        "<text:p>a</text:p></table:table-cell></table:table-row></table:table>"
        "</office:spreadsheet>")  # fmt: skip
_CANVAS = {"nodes": [{"id": "a", "type": "text", "text": "# Mulch", "x": 0, "y": 0, "width": 9,
                      "height": 9}], "edges": []}  # fmt: skip
SEEDS: dict[str, Callable[[], list[Seed]]] = {
    "pdf": _pdfs,
    "html": lambda: [
        Seed("a.html", test_html.PAGE.encode()),
        Seed("b.htm", test_html.PAGE.encode("utf-16")),
        Seed("c.html", b'<meta charset="latin1"><p>gr\xf6\xdfe<table><tr><td>a<td>b</table>'),
    ],
    "docx": lambda: [Seed("a.docx", test_docx.typical())],
    "epub": lambda: [Seed("a.epub", zipped(test_epub.parts()))],
    "pptx": lambda: [Seed("a.pptx", office.pptx([test_pptx.TITLE, test_pptx.TITLE]))],
    "xlsx": lambda: [Seed("a.xlsx", office.xlsx({"Spares": _ROWS}, strings=["<t>Part</t>"]))],
    "opendocument": lambda: [
        Seed("a.odt", office.opendocument(_ODT)),
        Seed("a.ods", office.opendocument(_ODS)),
    ],
    "canvas": lambda: [Seed("a.canvas", json.dumps(_CANVAS).encode())],
    "bibliography": lambda: [
        Seed("a.bib", test_bibliography.BIB.encode()),
        Seed("a.ris", test_bibliography.RIS.encode()),
        Seed("a.json", test_bibliography.CSL.encode()),
    ],
    "rtf": lambda: [Seed("a.rtf", test_rtf.TYPICAL)],
    "man": lambda: [Seed("a.1", test_man.MAN), Seed("b.1", test_man.MDOC)],
    "subtitles": lambda: [
        Seed("a.srt", test_subtitles.SRT.encode()),
        Seed("a.vtt", test_subtitles.VTT.encode()),
    ],
    "transcript": lambda: [
        Seed("a.txt", test_transcript.TALK.encode()),
        Seed("b.txt", test_transcript.WHATSAPP.encode()),
    ],
    "bookmarks": lambda: [Seed("a.html", test_bookmarks.PAGE)],
    "mhtml": lambda: [Seed("a.mhtml", test_mhtml.saved())],
    "image": lambda: [Seed("a.png", test_image.BLANK)],
    "zotero": lambda: [Seed("zotero.sqlite", test_zotero.database())],
    "evernote": lambda: [Seed("a.enex", test_evernote.EXPORT)],
    "archive": lambda: [Seed("a.zip", test_archive.TYPICAL)],
    "conversations": lambda: (
        [
            Seed("conversations.json", json.dumps([each]).encode())
            for each in (test_conversations.CHATGPT, test_conversations.CLAUDE)
        ]
        + [Seed("2024-03-09.json", json.dumps(test_slack.DAY).encode())]
    ),
    "notebook": lambda: [Seed("a.ipynb", test_notebook.TYPICAL)],
    "rst": lambda: [Seed("a.rst", test_rst.TYPICAL.encode())],
    "asciidoc": lambda: [Seed("a.adoc", test_asciidoc.TYPICAL.encode())],
    "org": lambda: [Seed("a.org", test_org.TYPICAL.encode())],
    "table": _tables,
    "email": _mails,
    "markdown": lambda: [
        *_library(".md"),
        Seed("a.md", "\n".join(("---\ntags: [a]\nttl: 9d\n---", *MARKDOWN_LINES)).encode()),
    ],
    "code": lambda: [*_codes(), Seed("a.js", "\n".join(CODE_LINES).encode())],
    "text": lambda: [*_library(".txt"), Seed("README", "text\n\nmore 中文 é\r\n".encode())],
}
# How many inputs each parser gets: all together take minutes, not hours.
COUNTS = {
    "pdf": 1500, "html": 2000, "docx": 1500, "epub": 1500, "notebook": 1500, "rst": 2000,
    "asciidoc": 2000, "org": 2000, "table": 2000, "email": 2000, "markdown": 1500, "code": 1500,
    "text": 2000, "pptx": 1000, "xlsx": 1000, "opendocument": 1000, "canvas": 1000,
    "bibliography": 1500, "conversations": 1000, "rtf": 1500, "man": 1500, "subtitles": 1000,
    "transcript": 1000, "bookmarks": 1000, "mhtml": 1000, "evernote": 1000, "archive": 1000,
    "image": 500, "zotero": 500,
}  # fmt: skip
_XML = b"""<![CDATA[ ]]> <!-- --> <?xml </ /> &amp; &#0; &#x110000; &x; xmlns= <!DOCTYPE <!ENTITY
    <w:p> </w:p> <w:tbl> <w:tr> <w:tc> <w:t> <w:br/> <w:txbxContent> <w:numPr> w:val="-1" """
_HTML = b"""<div> </div> <table> <tr> <td <ul> <li> <ol start=-9> <pre> <!-- --> <script> <style>
    <h1> <a href= <p <br> <dl> <dt> <dd> <main> <nav> <svg> <template> <math> <select> <base
    colspan=99999999 rowspan=99999999 <meta charset=utf-7> <meta charset=hex> charset=idna
    charset=rot13 charset=punycode &nbsp &#0; <blockquote> <frameset> <![CDATA[ <body> </body>"""
_MARKUP = b"""--- ``` ~~~ ::: :: .. +++ === **** ---- |=== | +--+--+ #+BEGIN_SRC #+END_SRC * **
    :END: :PROPERTIES: #+TITLE: #+TODO: [[ ]] _` `_ .. |x| >>> .. code:: :a: <<< ++++ //// ifdef::[]
    [source] = == \\ [1/2] :lang: include:: .. csv-table:: <div> <!-- [^1]: [a]: > - 1."""
_JSON = b"""{ } [ ] , : " \\ \\ud800 \\u0000 null NaN 1e999 -0 "nodes" "text" "mapping" "parent"
    "children" "parts" "sender" "x" "y" true"""
TOKENS: dict[str, bytes] = {
    "pdf": b"""obj endobj stream endstream xref trailer startxref << >> /Kids /Count /Parent /Length
        /Type/Page /Filter/FlateDecode /DecodeParms /ObjStm /XRef BT ET Tj TJ Tf Tm Td T* ( ) < > [
        ] 1e99 -1 4294967296 /Outlines /First /Next /Dest R null /Encrypt %%EOF 0.00000001
        /ToUnicode /MediaBox /Rotate/Contents cm q Q Do""",
    "html": _HTML,
    "docx": _XML,
    "pptx": _XML + b" <a:p> <a:t> <p:sp> r:id= ",
    "xlsx": _XML + b" <row> <c t= <v> s= 99999 1e308 46053 ",
    "opendocument": _XML + b" <text:p> <text:h> <table:table-row table:number-columns-repeated= ",
    "canvas": _JSON,
    "bibliography": b"""@article{ } { " , = # @string @comment \\ {\\"o} TY  - ER  - AU  - %""",
    "conversations": _JSON,
    "rtf": rb"""{ } {\* \par \u \u-10179? \uc0 \' \'e9 \bin99 \info \title \f1 \fcharset128
        \ansicpg932 \cell \row \pict \fonttbl \footnote \ansicpg0""",
    "man": rb""".SH .SS .TP .IP .nf .fi .TH .Dd .It .Op .Bl -tag \fB \( \[ \*( \s \h' " \\" . '""",
    "subtitles": b"--> 00:00:01,000 01.000 <v <i> {\\an8} WEBVTT NOTE &amp; : , 99999",
    "transcript": b"Ada: Ben: : [ ] 12:00 31.12.23, - * _",
    "bookmarks": b"""<DL> </DL> <DT> <DD> <A HREF= </A>
        <H3> </H3> <TITLE> <!-- --> ADD_DATE= " ' >""",
    "mhtml": b"Content-Type: multipart/related; boundary= text/html charset=hex base64 -- <p> : ;",
    "evernote": _XML + b" <note> <title> <content> <tag> <created> <en-note> <resource> <data> ",
    "zotero": b"CREATE TABLE items VIEW SELECT ( ) 1 \x02\x02 NULL",
    "image": b"IHDR IDAT IEND PLTE \xff\xd8 \x89PNG",
    "archive": b"PK .zip .md ../ \\ __MACOSX/ # --- \x00\x00",
    "epub": _XML + _HTML + b" ../ %00 # idref= properties=nav <navPoint> <itemref href= ",
    "notebook": b"""{ } [ ] , : " \\ \\ud800 \\u0000 null NaN 1e999 -0 "cells" "source" "outputs"
        "data" "text/plain" "markdown" "code" ``` # data:image/png;base64,""",
    "rst": _MARKUP,
    "asciidoc": _MARKUP,
    "org": _MARKUP,
    "table": b"""" "" , ; | sep=" sep=, sep=' ',' '"' \\ {} [] null NaN = """,
    "email": b"""Content-Type: multipart/mixed;boundary= text/html charset=hex charset=idna
        charset=utf-16 Content-Transfer-Encoding: base64 quoted-printable uuencode begin end
        =?utf-8? ?= =?x?b?? -- ; " , < > ( ) Date: From: Subject: filename*0*= filename*=utf-8''%ff
        message/rfc822 message/partial message/external-body""",
    "markdown": _MARKUP + b" ttl: tags: - & * !!python/object: {a: [ ? [x](y) ![ ](<> $$ ",
    "code": b"""{ } ( ) [ ] " ' ''' \"\"\" /* */ // # #if #endif \\ def class fn impl func => -> ; :
        template< <T> @ ` ${ </ /> #! <<EOF""",
    "text": b"--- ... ttl: tags: a: {b: [ & * \f \v \x1c \xc2\x85 \xe2\x80\xa8 \xef\xbb\xbf ",
}
_ANYWHERE = (b"\0", b"\xff", b"\xff\xfe", b"\xfe\xff\0", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t",
             b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"e\xcc\x81", b"\xe2\x80\xae",
             b" " * 40)  # fmt: skip
_NUMBERS = (b"0", b"-1", b"1", b"255", b"65536", b"2147483648", b"4294967295", b"9" * 20,
            b"9" * 5000, b"1e308", b"0.1", b"nan", b"")  # fmt: skip


@cache
def seeds_of(parser: str) -> list[Seed]:
    return SEEDS[parser]()


@cache
def tokens_of(parser: str) -> list[bytes]:
    return [*TOKENS[parser].split(), *_ANYWHERE]


# --- damage ---------------------------------------------------------------------------------------


class Mutator:
    """Random mutations. Each method takes bytes and returns mutated ones."""

    def __init__(self, parser: str, chance: random.Random) -> None:
        self._parser = parser
        self._chance = chance
        self.done: list[str] = []

    def mutated(self, data: bytes) -> bytes:
        ways = (
            self.flip, self.delete, self.insert, self.duplicate, self.truncate, self.splice,
            self.tokens, self.tokens, self.repeat, self.number, self.shuffle,
        )  # fmt: skip
        for _ in range(self._chance.choice((1, 1, 1, 2, 3, 5))):
            way = self._chance.choice(ways)
            self.done.append(way.__name__)
            data = way(data)
        return data

    def _at(self, data: bytes) -> int:
        return self._chance.randint(0, len(data))

    def _range(self, data: bytes) -> tuple[int, int]:
        at = self._at(data)
        return at, at + self._chance.choice((1, 4, 40, 400, max(1, len(data) // 2)))

    def flip(self, data: bytes) -> bytes:
        broken = bytearray(data)
        for _ in range(self._chance.randint(1, 16) if data else 0):
            broken[self._chance.randrange(len(broken))] ^= 1 << self._chance.randrange(8)
        return bytes(broken)

    def delete(self, data: bytes) -> bytes:
        start, end = self._range(data)
        return data[:start] + data[end:]

    def insert(self, data: bytes) -> bytes:
        at = self._at(data)
        return data[:at] + self._chance.randbytes(self._chance.choice((1, 4, 64))) + data[at:]

    def duplicate(self, data: bytes) -> bytes:
        start, end = self._range(data)
        at = self._at(data)
        return data[:at] + data[start:end] + data[at:]

    def truncate(self, data: bytes) -> bytes:
        return data[: self._at(data)]

    def splice(self, data: bytes) -> bytes:
        """The beginning of this input and the end of another one, sometimes of another format."""
        own = self._chance.random() < 0.8
        parser = self._parser if own else self._chance.choice(sorted(SEEDS))
        other = self._chance.choice(seeds_of(parser)).data
        return data[: self._at(data)] + other[self._at(other) :]

    def tokens(self, data: bytes) -> bytes:
        for _ in range(self._chance.randint(1, 12)):
            at = self._at(data)
            token = self._chance.choice(tokens_of(self._parser))
            data = data[:at] + token + self._chance.choice((b"", b" ", b"\n")) + data[at:]
        return data

    def repeat(self, data: bytes) -> bytes:
        """Repeat a part: usually a few thousand times, sometimes up to a megabyte."""
        start, end = self._range(data)
        picked = [self._chance.choice(tokens_of(self._parser)) for _ in range(3)]
        unit = self._chance.choice(
            (data[start:end], picked[0], b"".join(picked), picked[0] + b"\n")
        )
        size = self._chance.choice((*(1_000, 10_000, 10_000, 50_000) * 4, 1_000_000))
        return data[:start] + unit * (size // (len(unit) or 1)) + data[start:]

    def number(self, data: bytes) -> bytes:
        """Change one number, or all numbers from some position on."""
        places = [at for at, byte in enumerate(data) if byte in b"0123456789"]
        if not places:
            return data
        start = end = self._chance.choice(places)
        while data[end : end + 1].isdigit():
            end += 1
        return data[:start] + self._chance.choice(_NUMBERS) + data[end:]

    def shuffle(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        self._chance.shuffle(lines)
        return b"\n".join(lines)

    # --- inside of what holds something --------------------------------------------------------

    def inside(self, data: bytes) -> bytes:
        """Damage a part of a zip file, or a value of JSON; the rest stays valid."""
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                parts: dict[str, str | bytes] = {
                    name: archive.read(name) for name in archive.namelist()
                }
            name = self._chance.choice(list(parts))
            self.done.append(f"in {name}")
            whole = parts[name]
            assert isinstance(whole, bytes)
            by_element = self._chance.random() < 0.5
            return zipped(parts | {name: (self._in_xml if by_element else self.mutated)(whole)})
        if self._parser == "notebook":
            tree = json.loads(data)
            self._in_json(tree)
            return json.dumps(tree).encode()
        return self.mutated(data)

    def _in_xml(self, data: bytes) -> bytes:
        """Remove, repeat and move elements, and change their values."""
        try:
            root = ElementTree.fromstring(data)
        except ElementTree.ParseError:
            return self.mutated(data)
        self.done.append("elements")
        for _ in range(self._chance.randint(1, 12)):
            every = list(root.iter())
            one, other = self._chance.choice(every), self._chance.choice(every)
            match self._chance.randrange(6):
                case 0 if len(one):
                    one.remove(self._chance.choice(list(one)))
                case 1 if len(every) < 5000:
                    one.append(deepcopy(other))
                case 2 if one.attrib:
                    key = self._chance.choice(list(one.attrib))
                    values = [number.decode() for number in _NUMBERS] + list(other.attrib.values())
                    one.attrib[key] = self._chance.choice(values)
                case 3:
                    one.text = self._chance.choice(("", "x" * 3000, "\n\t", "é中\u2028", "#|`"))
                case 4:
                    one.tag = other.tag
                case _:
                    ElementTree.SubElement(one, other.tag, dict(other.attrib)).text = "deep"
        # As deep as it gets: as text, since the library that writes it is recursive.
        tag = str(self._chance.choice(list(root.iter())).tag).rpartition("}")[2].encode()
        depth = self._chance.choice((0, 1, 10, 3000))
        deep = b"<%b>" % tag * depth + b"x" + b"</%b>" % tag * depth
        return ElementTree.tostring(root).replace(b"deep", deep)

    def _in_json(self, tree: Any) -> None:
        for _ in range(self._chance.randint(1, 4)):
            node = tree
            while True:
                keys: Sequence[Any] = list(node) if isinstance(node, dict) else range(len(node))
                key = self._chance.choice(keys)
                if not isinstance(node[key], dict | list) or not node[key]:
                    break
                if self._chance.random() < 0.15:
                    break
                node = node[key]
            text = node[key] if isinstance(node[key], str) else "text"
            damaged = self.mutated(text.encode("utf-8", "replace")).decode("utf-8", "replace")
            others: tuple[Any, ...] = (None, True, -1, 1e308, "", [], {}, [[]], [{"source": [1]}],
                                       [None, "x"], {"name": []}, "\ud800", "#" * 3000)  # fmt: skip
            node[key] = damaged if self._chance.random() < 0.6 else self._chance.choice(others)


def case(parser: str, seed: int) -> Case:
    """The input with this number, the same in every run."""
    chance = random.Random(f"{parser}-{seed}")
    mutator = Mutator(parser, chance)
    chosen = chance.choice(seeds_of(parser))
    holds = chosen.data.startswith(b"PK") or parser == "notebook"
    way = mutator.inside if holds and chance.random() < 0.7 else mutator.mutated
    data = way(chosen.data)
    return Case(chosen.name, data, f"{chosen.name}: {', '.join(mutator.done)}")


# --- what is done with it -------------------------------------------------------------------------


def read(parsers: Parsers, name: str, data: bytes) -> str:
    """Detect, parse and chunk an input, and return the outcome. Raises errors that must not
    occur."""
    if not data or data.isspace():
        return "unsupported"
    try:
        parser = parsers.detect(Source(name, data[:HEAD_BYTES]))
        if parser is None:
            return "unsupported"
        parsed = parser.parse(Source(name, data))
        blocks = list(parsed.blocks)  # a parser may make them on the way
        chunks = chunk(blocks, MAX_CHARS)
    except Unsupported:
        return "unsupported"
    except Unreadable as unreadable:
        return f"unreadable: {unreadable.reason}"
    if not chunks:
        return "unsupported"
    for made in chunks:
        made.text.encode()  # no halves of characters: a store could not keep them
    (parsed.title or "").encode()
    json.dumps(dict(parsed.attributes.metadata), ensure_ascii=False).encode()
    if parsed.type != "pdf" and (parsed.text is not None or b"---" not in data[:8]):
        check_parsed(replace(parsed, blocks=blocks), data)
    return "read"


def ingest(folder: Path, outcomes: dict[int, str]) -> list[str]:
    """Ingest the numbered files in `folder`, and return what is wrong in the report."""
    with KnowledgeBase(folder / "kb.sqlite") as kb:
        report = kb.ingest(folder / "files")
        wrong = [f"doctor: {one}" for one in kb.doctor().findings if one.state == "error"]
    failed = {note.path.split("/")[1]: f"unreadable: {note.reason}" for note in report.failed}
    added = {path.split("/")[1] for path in report.added}
    expired = {
        note.path.split("/")[1] for note in report.skipped if note.reason.startswith("expired")
    }
    for seed, outcome in outcomes.items():
        got = failed.get(str(seed), "read" if str(seed) in added else "unsupported")
        if got != outcome and not (outcome == "read" and str(seed) in expired):
            wrong.append(f"seed {seed}: {outcome!r} alone, {got!r} in ingest")
    return wrong


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _peak_bytes() -> int:
    """The peak memory of this process. `ru_maxrss` also counts its parent's, which may be a large
    test process."""
    import resource  # not everywhere

    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(parser: str, start: int, stop: int) -> None:
    """Read all inputs from `start` to `stop`, and ingest some of them afterwards."""
    import resource  # not everywhere

    parsers = Parsers(MAX_CHARS, plug_ins=())
    read(parsers, *seeds_of(parser)[0])  # so that all that is needed is loaded
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    counted: Counter[str] = Counter()
    outcomes: dict[int, str] = {}
    slowest = (0.0, start)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(start, stop):
            say(seed=seed)
            made = case(parser, seed)
            started = time.perf_counter()
            try:
                outcome = read(parsers, made.name, made.data)
                if _peak_bytes() > RESIDENT_BYTES:
                    raise MemoryError(f"more than {RESIDENT_BYTES >> 20} MiB")
            except Exception:  # noqa: BLE001 (this is what is looked for)
                counted["failed"] += 1
                say(failed=seed, mutation=made.mutation, why=traceback.format_exc())
                continue
            slowest = max(slowest, (time.perf_counter() - started, seed))
            counted[outcome.partition(":")[0]] += 1
            if seed % INGESTED == 0 and len(made.data) < INGESTED_BYTES:
                outcomes[seed] = outcome
                path = folder / "files" / str(seed) / made.name
                path.parent.mkdir(parents=True)
                path.write_bytes(made.data)
        say(seed="the ingest of " + ", ".join(map(str, outcomes)))
        for wrong in ingest(folder, outcomes) if outcomes else ():
            say(failed="ingest", mutation="", why=wrong)
    say(done=counted, slowest_ms=round(slowest[0] * 1000), slowest_seed=slowest[1])


# --- through parser processes ---------------------------------------------------------------------


def outcome_of(place: str, made: Case, limits: Limits) -> str:
    """The outcome of an input in a parser process: one word, or why it is unreadable."""
    try:
        with parser_pool.start(place, Source(made.name, made.data), MAX_CHARS, limits) as parsing:
            chunks = sum(1 for _ in parsing.document().chunks)
        return "read" if chunks else "unsupported"
    except Unsupported:
        return "unsupported"
    except Unreadable as unreadable:
        return unreadable.reason


def kind_of(outcome: str) -> str:
    for kind, words in (("crash", "crashed"), ("memory", "of memory"), ("time", " s to parse"),
                        ("output", "contains more"), ("invalid", "invalid result")):  # fmt: skip
        if words in outcome:
            return kind
    return outcome if outcome in ("read", "unsupported") else "unreadable"


def run_through_workers(names: Sequence[str], start: int, count: int) -> bool:
    """Parse inputs of these parsers in turn, in as many parser processes as there are processors.
    Prints the inputs that exceeded a limit or crashed a parser and, at the end, the number of each
    outcome. Returns whether every input had a valid outcome."""
    from concurrent.futures import ThreadPoolExecutor
    from os import cpu_count

    limits = Limits.from_config(IngestConfig())
    parsers = Parsers(MAX_CHARS, plug_ins=())
    counted: Counter[str] = Counter()
    slowest: list[tuple[float, str]] = []
    began = time.perf_counter()

    def one(number: int) -> None:
        name, seed = names[number % len(names)], start + number // len(names)
        made = case(name, seed)
        parser = parsers.detect(Source(made.name, made.data[:HEAD_BYTES]))
        if parser is None or not made.data.strip():
            counted["unsupported"] += 1
            return
        started = time.perf_counter()
        outcome = outcome_of(parsers.location(parser), made, limits)
        slowest.append((round(time.perf_counter() - started, 2), f"{name} {seed}"))
        counted[kind := kind_of(outcome)] += 1
        if kind not in ("read", "unreadable", "unsupported"):
            say(kind=kind, parser=name, seed=seed, mutation=made.mutation, why=outcome)

    with ThreadPoolExecutor(min(4, cpu_count() or 1)) as threads:
        for done, _ in enumerate(threads.map(one, range(count)), 1):
            slowest[:] = sorted(slowest)[-5:] if done % 100 == 0 else slowest
            if done % 1000 == 0:
                say(done=done, per_s=round(done / (time.perf_counter() - began), 1))
    parser_pool.close()
    say(done=counted, slowest_s=sorted(slowest)[-5:], s=round(time.perf_counter() - began))
    return sum(counted.values()) == count and not counted["invalid"]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.ingest.fuzz")
    arguments.add_argument("--parser", choices=sorted(SEEDS))
    arguments.add_argument("--through-workers", action="store_true")
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--seed", type=int)
    arguments.add_argument("--save", type=Path)
    arguments.add_argument("--from", type=int, default=0, dest="start")
    arguments.add_argument("--to", type=int, default=100, dest="stop")
    said = arguments.parse_args()
    if said.through_workers:
        names = [said.parser] if said.parser else sorted(SEEDS)
        sys.exit(not run_through_workers(names, said.start, said.count))
    if said.parser is None:
        arguments.error("--parser is needed, or --through-workers")
    if said.seed is None:
        run(said.parser, said.start, said.stop)
        return
    made = case(said.parser, said.seed)
    sys.stdout.write(f"{made.mutation}; {len(made.data):,} bytes: {made.data[:200]!r}\n")
    if said.save:
        said.save.write_bytes(made.data)
    run(said.parser, said.seed, said.seed + 1)


if __name__ == "__main__":
    main()
