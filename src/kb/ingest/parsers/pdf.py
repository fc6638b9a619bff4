"""PDF, by page and paragraph.

    pdf_pages       PDFium: words with their places, outline, metadata
    pdf_lines       words -> runs -> lines
    pdf_furniture   without running headers, footers and page numbers
    pdf_columns     runs -> columns in reading order
    pdf_paragraphs  lines -> paragraphs, hyphens undone
    pdf_headings    title, and heading paths from the outline

A page is a citation's unit: no passage crosses pages. Every block is one line of its page's text in
`Parsed.text`, and blocks are parted by a blank line, as the chunker parts them; so a passage stands
word for word in its page's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kb.ingest import names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.pdf_columns import columns_of
from kb.ingest.parsers.pdf_furniture import without_furniture
from kb.ingest.parsers.pdf_headings import Outline, large_title, said_title
from kb.ingest.parsers.pdf_lines import Line, clean, lines_of, runs_of
from kb.ingest.parsers.pdf_pages import Pdf, Word
from kb.ingest.parsers.pdf_paragraphs import Paragraph, paragraphs_of, words_inside
from kb.ports import Parsed, Source
from kb.types import Block, Span

_MARK = b"%PDF-"
_MARK_WITHIN = 1024  # bytes; readers have always been this lenient
_NAMED_PAGES = 10  # in a warning


@dataclass(frozen=True, slots=True)
class _Page:
    """A page's upright text as lines, and what runs along its sides."""

    lines: list[Line]
    aside: list[str]


class PdfParser:
    name = "pdf"
    version = "2"

    def accepts(self, source: Source) -> bool:
        """By suffix; under another name by its first bytes. Not by a mark further in: a text about
        PDF is none."""
        return names.suffix_of(source.name) == ".pdf" or source.data.lstrip().startswith(_MARK)

    def parse(self, source: Source) -> Parsed:
        if _MARK not in source.data[:_MARK_WITHIN]:
            raise Unreadable("damaged PDF: it does not begin like one")
        with Pdf(source.data) as pdf:
            pages = []
            for words in pdf.pages():
                pages.append(_page(words))
                source.tell(len(pages), pdf.page_count)
            lost, outline, metadata = pdf.lost_pages, pdf.outline(), pdf.title()
        if len(lost) >= len(pages):
            raise Unreadable("damaged PDF: no page can be read")
        texts = _paragraphs(pages)
        if not any(texts):
            raise Unsupported("only images: no text in this PDF (it needs OCR)")
        return Parsed(
            type="pdf",
            blocks=_blocks(texts, Outline(outline)),
            title=said_title(metadata) or large_title(texts[0]),
            warnings=_warnings(lost),
            text="\f".join("\n\n".join(part.text for part in parts) for parts in texts),
        )


def _page(words: Iterable[Word]) -> _Page:
    upright: list[Word] = []
    aside: list[str] = []
    for turned, group in groupby(words, key=lambda word: word.turned):
        if not turned:
            upright += group
        elif text := clean(" ".join(word.text for word in group)):
            aside.append(text)
    return _Page(lines_of(runs_of(upright)), aside)


def _paragraphs(pages: Sequence[_Page]) -> list[list[Paragraph]]:
    known: set[str] = set()
    for page in pages:
        for line in page.lines:
            for run in line.runs:
                known.update(words_inside(run.text))
    bodies = without_furniture([page.lines for page in pages])
    return [
        paragraphs_of(columns_of([run for line in body for run in line.runs]), known)
        + [Paragraph(text, 0.0) for text in page.aside]
        for page, body in zip(pages, bodies, strict=True)
    ]


def _blocks(pages: Sequence[Sequence[Paragraph]], outline: Outline) -> list[Block]:
    blocks: list[Block] = []
    for number, parts in enumerate(pages, 1):
        texts = [part.text for part in parts]
        for index, (text, path) in enumerate(zip(texts, outline.paths(number, texts), strict=True)):
            blocks.append(Block(text, Span("page", page=number), path, boundary=index == 0))
    return blocks


def _warnings(lost: Sequence[int]) -> tuple[str, ...]:
    if not lost:
        return ()
    named = ", ".join(map(str, lost[:_NAMED_PAGES]))
    more = f" and {len(lost) - _NAMED_PAGES} more" if len(lost) > _NAMED_PAGES else ""
    return (f"page {named}{more}: cannot be read; the rest is",)
