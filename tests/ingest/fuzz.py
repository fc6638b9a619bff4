"""Damaged files of every format, each generated from its number alone, as `test_fuzz.py` runs them.

    python -m tests.ingest.fuzz --parser pdf --seed 1234                read one again
    python -m tests.ingest.fuzz --parser pdf --seed 1234 --save x.pdf   and keep it
    python -m tests.ingest.fuzz --parser pdf --from 0 --to 500          many, as the test does
    python -m tests.ingest.fuzz --through-workers --count 100000        of all formats, by turns,
                                                        in parser processes and under their limits

A run reports what it does in lines of JSON: which input comes next, what went wrong with it, and at
the end how many were read. So its caller knows which input it did not survive.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kb import KnowledgeBase
from kb.config import IngestConfig
from kb.ingest import parser_pool
from kb.ingest.chunk import chunk
from kb.ingest.parse import HEAD_BYTES, Parsers, Unreadable, Unsupported
from kb.ingest.parser_limits import Limits
from kb.ports import Source
from tests.ingest.documents import CODE_LINES, MARKDOWN_LINES
from tests.ingest.mutator import Mutator
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
    test_gzip,
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
MEMORY_BYTES = 2 << 30  # of address space
RESIDENT_BYTES = 1 << 30  # no input here may need more
INGESTED = 20  # one input in this many is also ingested
INGESTED_BYTES = 200_000  # longer inputs are not ingested, to save time
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


# --- undamaged files ------------------------------------------------------------------------------


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
    "gzip": lambda: [Seed("a.1.gz", test_gzip.PAGE)],
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
    "image": 500, "zotero": 500, "gzip": 500,
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
    "man": rb""".if n \{ .ie t .el \} .de .. .ig .ds .TS T{ T}@T{ .Xr .Nm
        .SH .SS .TP .IP .nf .fi .TH .Dd .It .Op .Bl -tag \fB \( \[ \*( \s \h' " \\" . '""",
    "subtitles": b"--> 00:00:01,000 01.000 <v <i> {\\an8} WEBVTT NOTE &amp; : , 99999",
    "transcript": b"Ada: Ben: : [ ] 12:00 31.12.23, - * _",
    "bookmarks": b"""<DL> </DL> <DT> <DD> <A HREF= </A>
        <H3> </H3> <TITLE> <!-- --> ADD_DATE= " ' >""",
    "mhtml": b"Content-Type: multipart/related; boundary= text/html charset=hex base64 -- <p> : ;",
    "evernote": _XML + b" <note> <title> <content> <tag> <created> <en-note> <resource> <data> ",
    "zotero": b"CREATE TABLE items VIEW SELECT ( ) 1 \x02\x02 NULL",
    "image": b"IHDR IDAT IEND PLTE \xff\xd8 \x89PNG",
    "gzip": b"\x1f\x8b\x08 .gz .1.gz .TH .SH \x00\x00 \xff\xff",
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


@cache
def seeds_of(parser: str) -> list[Seed]:
    return SEEDS[parser]()


def inputs(parser: str) -> list[bytes]:
    """The undamaged inputs of a format."""
    return [seed.data for seed in seeds_of(parser)]


@cache
def tokens_of(parser: str) -> list[bytes]:
    return [*TOKENS[parser].split(), *_ANYWHERE]


# --- inputs ---------------------------------------------------------------------------------------


def case(parser: str, seed: int) -> Case:
    """The input with this number, the same in every run."""
    chance = random.Random(f"{parser}-{seed}")
    mutator = Mutator(parser, chance, tokens_of(parser), inputs, sorted(SEEDS))
    chosen = chance.choice(seeds_of(parser))
    holds = chosen.data.startswith(b"PK") or parser == "notebook"
    way = mutator.inside if holds and chance.random() < 0.7 else mutator.mutated
    data = way(chosen.data)
    return Case(chosen.name, data, f"{chosen.name}: {', '.join(mutator.done)}")


# --- running --------------------------------------------------------------------------------------


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
        blocks = list(parsed.blocks)  # a parser may produce them lazily
        chunks = chunk(blocks, MAX_CHARS)
    except Unsupported:
        return "unsupported"
    except Unreadable as unreadable:
        return f"unreadable: {unreadable.reason}"
    if not chunks:
        return "unsupported"
    for made in chunks:
        made.text.encode()  # no lone surrogates, which a store could not keep
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
    read(parsers, *seeds_of(parser)[0])  # to load everything first
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
