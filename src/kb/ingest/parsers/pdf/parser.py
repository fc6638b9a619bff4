"""PDF, by page and paragraph.

    pdf_pages       PDFium: words with their places, comments, forms, outline, metadata
    pdf_lines       words -> runs -> lines
    pdf_furniture   running headers, footers and page numbers
    pdf_columns     runs -> columns in reading order
    pdf_paragraphs  lines -> paragraphs, hyphens undone
    pdf_headings    title, and heading paths from the outline

A page is a citation's unit: no passage crosses pages. A page's blocks are its paragraphs, what runs
along its sides, comments and filled-in forms, and last its furniture: every word that PDFium reads
is in a block, but for a header that repeats, which is in the block of the first page that has it.

Every block is one line of its page's text in
`Parsed.text`, and blocks are parted by a blank line, as the chunker parts them; so a passage stands
word for word in its page's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parsers.pdf.columns import columns_of
from kb.ingest.parsers.pdf.furniture import split_furniture
from kb.ingest.parsers.pdf.headings import Outline, large_title, said_title
from kb.ingest.parsers.pdf.lines import Line, lines_of, one_line, runs_of
from kb.ingest.parsers.pdf.pages import PAGE_CHARS, PageText, Pdf, Word
from kb.ingest.parsers.pdf.paragraphs import Paragraph, paragraphs_of, words_inside
from kb.ports import Parsed, Source
from kb.types import Block, Span

_MARK = b"%PDF-"
_MARK_WITHIN = 1024  # bytes; readers have always been this lenient
_NAMED = 10  # in a warning


@dataclass(frozen=True, slots=True)
class _Lines:
    """A page's upright text as lines, and what runs along its sides or was written upon it."""

    lines: list[Line]
    aside: list[str]


@dataclass(frozen=True, slots=True)
class _Page:
    """A page's paragraphs, and what stands behind them in its text."""

    paragraphs: list[Paragraph]
    behind: list[str]

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.paragraphs] + self.behind


@dataclass(slots=True)
class _Gaps:
    """What is not read: pages, by number, and enclosed files, by name."""

    pages: int
    lost: list[int] = field(default_factory=list)
    only_images: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)


class PdfParser(FormatParser):
    name = "pdf"
    version = "3"
    priority = 2
    signatures = frozenset({"pdf"})

    def accepts(self, source: Source) -> bool:
        """By suffix; under another name by its first bytes. Not by a mark further in: a text about
        PDF is none."""
        return file_names.suffix_of(source.name) == ".pdf" or source.data.lstrip().startswith(_MARK)

    def parse(self, source: Source) -> Parsed:
        if _MARK not in source.data[:_MARK_WITHIN]:
            raise Unreadable("damaged PDF: it has no PDF header")
        with Pdf(source.data) as pdf:
            pages = []
            gaps = _Gaps(pdf.page_count, pdf.lost_pages)
            for page in pdf.pages():
                pages.append(_lines(page))
                if page.only_images:
                    gaps.only_images.append(len(pages))
                if page.cut:
                    gaps.cut.append(len(pages))
                source.on_progress(len(pages), pdf.page_count)
            outline, metadata = pdf.outline(), pdf.title()
            gaps.attachments += pdf.attachments()
        if set(range(1, len(pages) + 1)) <= set(gaps.lost):
            raise Unreadable("damaged PDF: no page can be read")
        texts = _pages(pages)
        if not any(page.texts for page in texts):
            raise Unsupported("only images: no text in this PDF; run OCR on it first")
        return Parsed(
            type="pdf",
            blocks=_blocks(texts, Outline(outline)),
            title=said_title(metadata) or large_title(texts[0].paragraphs),
            warnings=tuple(_warnings(gaps)),
            text="\f".join("\n\n".join(page.texts) for page in texts),
        )


def _lines(page: PageText) -> _Lines:
    upright: list[Word] = []
    aside: list[str] = []
    for is_aside, group in groupby(page.words, key=lambda word: word.aside):
        if not is_aside:
            upright += group
        else:
            aside.append(" ".join(word.text for word in group))
    texts = (one_line(text) for text in (*aside, *page.notes))
    return _Lines(lines_of(runs_of(upright)), [text for text in texts if text])


def _pages(pages: Sequence[_Lines]) -> list[_Page]:
    known: set[str] = set()
    for page in pages:
        for line in page.lines:
            for run in line.runs:
                known.update(words_inside(run.text))
    split = split_furniture([page.lines for page in pages])
    return [
        _Page(
            paragraphs_of(columns_of([run for line in parts.body for run in line.runs]), known),
            page.aside + parts.furniture,
        )
        for page, parts in zip(pages, split, strict=True)
    ]


def _blocks(pages: Sequence[_Page], outline: Outline) -> list[Block]:
    blocks: list[Block] = []
    for number, page in enumerate(pages, 1):
        # What stands behind the text is under the page's last heading, and is none itself.
        headings = [part.text for part in page.paragraphs] + [""] * len(page.behind)
        paths = outline.paths(number, headings)
        for index, (text, path) in enumerate(zip(page.texts, paths, strict=True)):
            blocks.append(Block(text, Span("page", page=number), path, boundary=index == 0))
    return blocks


def _warnings(gaps: _Gaps) -> Iterator[str]:
    if gaps.lost:
        yield f"page {_named(gaps.lost)}: cannot be read; the rest is"
    if gaps.only_images:
        count = len(gaps.only_images)
        yield (
            f"{count} of {gaps.pages} pages {'holds' if count == 1 else 'hold'} only images: "
            f"their text is not searchable without OCR (page {_named(gaps.only_images)})"
        )
    if gaps.cut:
        yield f"page {_named(gaps.cut)}: only the first {PAGE_CHARS:,} characters are read"
    if gaps.attachments:
        yield f"attached files are not read: {_named(gaps.attachments)}"


def _named(items: Sequence[int | str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(map(str, items[:_NAMED])) + more
