"""How fast files of each format are read, and the time and memory of long ones.

python -m bench.formats STORE PATH ingests in a separate process and prints its time and memory.
"""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.corpus import Prose, write_markdown
from bench.timing import seconds, table
from kb import KnowledgeBase
from kb.ingest.chunk import chunk
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ports import Source

BUILD = Path("build/bench")
FILES = 100
FILE_CHARS = 10_000
PDF_PAGES = 200
LONG_TEXT_BYTES = 50_000_000
LONG_PDF_PAGES = 2_000
MANY_FILES = 20_000
MAX_CHARS = 1800

Sections = Sequence[tuple[str, str]]  # headings with the text below them


# --- the same text in every format ----------------------------------------------------------------


def _sections(prose: Prose) -> Sections:
    return [
        (" ".join(prose.words(4)).capitalize(), prose.passage(700))
        for _ in range(FILE_CHARS // 750)
    ]


def _markdown(sections: Sections) -> bytes:
    return "\n".join(f"## {heading}\n\n{text}\n" for heading, text in sections).encode()


def _html(sections: Sections) -> bytes:
    menu = "".join(f"<li><a href='/{n}'>Page {n}</a></li>" for n in range(20))
    body = "".join(f"<h2>{heading}</h2><p>{text}</p>" for heading, text in sections)
    page = f"<html><head><title>T</title></head><body><nav><ul>{menu}</ul></nav><main>{body}"
    return f"<!doctype html>{page}</main><footer>nobody</footer></body></html>".encode()


def _docx(sections: Sections) -> bytes:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    styles = (
        f'<w:styles {space}><w:style w:styleId="H"><w:name w:val="heading 2"/></w:style></w:styles>'
    )
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="H"/></w:pPr><w:r><w:t>{escape(heading)}</w:t></w:r></w:p>'
        + "<w:p>" + "".join(f"<w:r><w:t>{word} </w:t></w:r>" for word in _runs(text)) + "</w:p>"
        for heading, text in sections
    )  # fmt: skip
    return _zip(
        {
            "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": styles,
        }
    )


def _runs(text: str) -> list[str]:
    """Runs of five words: Word splits a paragraph into many runs."""
    words = text.split()
    return [" ".join(words[at : at + 5]) for at in range(0, len(words), 5)]


def _epub(sections: Sections) -> bytes:
    names = [f"c{number}.xhtml" for number in range(len(sections))]
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in names
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    chapters = {
        name: f"<html><body><h1>{heading}</h1><p>{text}</p></body></html>"
        for name, (heading, text) in zip(names, sections, strict=True)
    }
    container = "<container><rootfiles><rootfile full-path='b.opf'/></rootfiles></container>"
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    about = {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
    return _zip(about | {"b.opf": package} | chapters)


def _zip(parts: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            how = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, text, how)
    return stream.getvalue()


def _notebook(sections: Sections) -> bytes:
    cells: list[dict[str, Any]] = []
    for number, (heading, text) in enumerate(sections):
        cells.append({"cell_type": "markdown", "source": [f"## {heading}\n", "\n", text]})
        printed = {"output_type": "stream", "name": "stdout", "text": [f"{number}\n"]}
        cells.append({"cell_type": "code", "source": [f"print({number})"], "outputs": [printed]})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1).encode()


def _rst(sections: Sections) -> bytes:
    return "\n".join(
        f"{heading}\n{'=' * len(heading)}\n\n{text}\n" for heading, text in sections
    ).encode()


def _csv(sections: Sections) -> bytes:
    stream = io.StringIO()
    rows = csv.writer(stream)
    rows.writerow(("number", "heading", "sentence"))
    for number, (heading, text) in enumerate(sections):
        rows.writerows((number, heading, sentence) for sentence in text.split(". "))
    return stream.getvalue().encode()


FORMATS: dict[str, tuple[str, Callable[[Sections], bytes]]] = {
    "Markdown (to compare)": (".md", _markdown),
    "reStructuredText": (".rst", _rst),
    "HTML": (".html", _html),
    "Word": (".docx", _docx),
    "EPUB": (".epub", _epub),
    "notebook": (".ipynb", _notebook),
    "CSV": (".csv", _csv),
}


def write_pdf(path: Path, pages: int) -> Path:
    """A paper with two columns, a running header and page numbers; written once."""
    if path.exists():
        return path
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen.canvas import Canvas

    prose, (width, height) = Prose(seed=7), A4
    unfinished = path.with_suffix(".part")
    canvas = Canvas(str(unfinished), pagesize=A4, invariant=1)
    column = (width - 2 * 60 - 20) / 2
    for number in range(1, pages + 1):
        canvas.setFont("Times-Roman", 10)
        canvas.drawString(60, height - 40, "A paper about many things")
        canvas.drawCentredString(width / 2, 30, str(number))
        for side in range(2):
            lines = list(_wrap(canvas, prose.passage(2300), column))
            for line, text in enumerate(lines[:55]):
                canvas.drawString(60 + side * (column + 20), height - 70 - 12 * line, text)
        canvas.showPage()
    canvas.save()
    unfinished.rename(path)
    return path


def _wrap(canvas: Any, text: str, width: float) -> Iterable[str]:
    line: list[str] = []
    filled = 0.0
    for word in text.split():
        needed = canvas.stringWidth(word + " ", "Times-Roman", 10)
        if line and filled + needed > width:
            yield " ".join(line)
            line, filled = [], 0.0
        line.append(word)
        filled += needed
    yield " ".join(line)


# --- each format ----------------------------------------------------------------------------------


def formats() -> str:
    prose, parsers = Prose(seed=6), Parsers(MAX_CHARS, plug_ins=())
    texts = [_sections(prose) for _ in range(FILES)]
    rows: list[tuple[object, ...]] = []
    reference = 0.0
    for label, (suffix, write) in FORMATS.items():
        files = [write(sections) for sections in texts]
        parsing = _parse_time(parsers, suffix, files)
        reference = reference or parsing
        folder = _fresh(BUILD / f"format{suffix}")
        for number, data in enumerate(files):
            (folder / f"{number}{suffix}").write_bytes(data)
        elapsed_s = _ingest_time(folder)
        rows.append((label, *_rates(FILES, parsing, elapsed_s, reference, sum(map(len, files)))))
    folder = _fresh(BUILD / "format.pdf")
    paper = write_pdf(BUILD / f"two-columns-{PDF_PAGES}.pdf", PDF_PAGES)
    shutil.copy(paper, folder)
    data = paper.read_bytes()
    parsing, elapsed_s = _parse_time(parsers, ".pdf", [data]), _ingest_time(folder)
    rows.append(("PDF, pages", *_rates(PDF_PAGES, parsing, elapsed_s, reference, len(data))))
    title = f"{FILES} files of {FILE_CHARS // 1000},000 characters in each format, "
    title += f"and a PDF of {PDF_PAGES} pages in two columns"
    header = (
        "format", "parse and chunk: ms each", "x Markdown", "each/s", "whole ingest: each/s", "MB/s"
    )  # fmt: skip
    return table(title, header, rows)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _parse_time(parsers: Parsers, suffix: str, files: Sequence[bytes]) -> float:
    def all_of_them() -> None:
        for data in files:
            parser = parsers.detect(Source(f"x{suffix}", data[:HEAD_BYTES]))
            assert parser is not None
            assert chunk(parser.parse(Source(f"x{suffix}", data)).blocks, MAX_CHARS)

    all_of_them()  # loads what is needed
    return min(seconds(all_of_them) for _ in range(3))


def _ingest_time(folder: Path) -> float:
    store = _no_store(BUILD / "formats.sqlite")
    with KnowledgeBase(store) as kb:
        _whole(kb, _warm_up())
        return seconds(lambda: _whole(kb, folder))


def _warm_up() -> Path:
    """Load everything that an ingest needs."""
    folder = _fresh(BUILD / "warm-up")
    (folder / "a.txt").write_text(Prose(seed=9).passage(), encoding="utf-8")
    return folder


def _whole(kb: KnowledgeBase, folder: Path) -> None:
    report = kb.ingest(folder)
    wrong = [*report.failed, *report.skipped]
    assert not wrong, wrong


def _no_store(path: Path) -> Path:
    for left in path.parent.glob(path.name + "*"):
        left.unlink()
    return path


def _rates(
    count: int, parsing: float, ingesting: float, reference: float, size: int
) -> tuple[object, ...]:
    each = 1000 * parsing / count
    compared = each / (1000 * reference / FILES)
    return (
        f"{each:.2f}", f"{compared:.1f}", f"{count / parsing:,.0f}", f"{count / ingesting:,.0f}",
        f"{size / 1e6 / ingesting:.1f}",
    )  # fmt: skip


# --- long files -----------------------------------------------------------------------------------


def long() -> str:
    """Long files, each in a separate process to measure its memory."""
    BUILD.mkdir(parents=True, exist_ok=True)
    store = BUILD / "long.sqlite"
    rows: list[tuple[object, ...]] = []
    empty = _fresh(BUILD / "empty")
    cases: tuple[tuple[str, Path, bool], ...] = (
        ("an empty folder (to compare)", empty, True),
        ("a text file of 50 MB", _long_text(), True),
        (f"a PDF of {LONG_PDF_PAGES:,} pages", _long_pdf(), True),
        (f"{MANY_FILES:,} Markdown files of 1,000 characters", _many_files(), True),
        ("the same again, nothing changed", _many_files(), False),
    )
    for label, folder, anew in cases:
        if anew:
            _no_store(store)
        command = [sys.executable, "-m", "bench.formats", str(store), str(folder)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(ended.stdout)
        rows.append(
            (label, f"{result['seconds']:.1f}", f"{result['cpu_seconds']:.1f}",
             f"{result['peak_mb']:,.0f}", f"{result['chunks']:,}",
             f"{store.stat().st_size / 1e6:,.0f}")
        )  # fmt: skip
    header = ("ingest of", "s", "of it CPU", "peak memory, MB", "chunks in the store", "store, MB")
    return table("Long inputs, each in a process of its own", header, rows)


def _long_text() -> Path:
    folder = BUILD / "long-text"
    path = folder / "long.txt"
    if not path.exists():
        prose = Prose(seed=8)
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            while out.tell() < LONG_TEXT_BYTES:
                out.write(prose.passage() + "\n\n")
    return folder


def _long_pdf() -> Path:
    folder = BUILD / "long-pdf"
    folder.mkdir(parents=True, exist_ok=True)
    write_pdf(folder / "book.pdf", LONG_PDF_PAGES)
    return folder


def _many_files() -> Path:
    folder = BUILD / "many"
    if not folder.exists():
        unfinished = _fresh(BUILD / "many.part")
        write_markdown(unfinished, files=MANY_FILES, characters=1000)
        unfinished.rename(folder)
    return folder


def peak_mb() -> float:
    """Peak memory of this process; `getrusage` would include the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        result = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in result:
            return int(result["VmHWM"].split()[0]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / (1024 * 1024)


def main() -> None:
    store, folder = map(os.path.abspath, sys.argv[1:])
    with KnowledgeBase(store) as kb:
        before = time.process_time()
        elapsed_s = seconds(lambda: _whole(kb, Path(folder)))
        used = time.process_time() - before
        chunks = kb.status()["chunks"]
    result = {"seconds": elapsed_s, "cpu_seconds": used}
    print(json.dumps(result | {"peak_mb": peak_mb(), "chunks": chunks}))


if __name__ == "__main__":
    main()
