"""Converts a PDF into blocks.

A page is the unit of citation: no passage crosses pages. The blocks of a page are its paragraphs,
the text along its sides, comments and filled-in forms, and finally its furniture. Every word that
PDFium reads is in a block; a repeated header is only in the block of its first page.

Every block is one line of its page in `Parsed.text`, with blank lines between them as in chunks, so
that the text of a passage occurs verbatim in the text of its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from kb.ingest import dates
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parser_support import ocr
from kb.ingest.parsers.pdf.columns import split_columns
from kb.ingest.parsers.pdf.furniture import split_furniture
from kb.ingest.parsers.pdf.headings import Outline, large_title, metadata_title
from kb.ingest.parsers.pdf.lines import Line, group_lines, group_runs, one_line
from kb.ingest.parsers.pdf.pages import PAGE_CHARS, PageText, Pdf, Word
from kb.ingest.parsers.pdf.paragraphs import Paragraph, group_paragraphs, words_inside
from kb.ingest.parsers.pdf.scans import Scanner
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes, Block, Span

_HEADER = b"%PDF-"
_WORD = re.compile(r"\w+")
# Placeholders that programs fill in.
_UNSET = frozenset({"anonymous", "unknown", "unspecified", "untitled"})
_PROPERTIES = ("Subject", "Keywords", "Author", "CreationDate", "ModDate")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?(?:\d\d)?)?")
_FIRST_DATE = "1985"  # an earlier date comes from a wrong clock
_HEADER_WITHIN = 1024  # bytes searched for the header, as in other PDF readers
_MAX_NAMED = 10  # items listed in a warning


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a page, and the text along its sides, in comments and in forms."""

    lines: list[Line]
    aside: list[str]


@dataclass(frozen=True, slots=True)
class _Page:
    """The paragraphs of a page, and the text after them."""

    paragraphs: list[Paragraph]
    trailing: list[str]

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.paragraphs] + self.trailing


@dataclass(slots=True)
class _Omissions:
    """What is not read, or not as it should be: pages by number, and attached files by name."""

    pages: int
    unreadable: list[int] = field(default_factory=list)
    only_images: list[int] = field(default_factory=list)
    truncated: list[int] = field(default_factory=list)
    misread: list[int] = field(default_factory=list)
    without_letters: list[int] = field(default_factory=list)
    scanned: list[int] = field(default_factory=list)
    not_scanned: list[int] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)


def parse_pdf(source: Source) -> Parsed:
    if _HEADER not in source.data[:_HEADER_WITHIN]:
        raise Unreadable("damaged PDF: it has no PDF header")
    with Pdf(source.data) as pdf:
        pages = []
        omissions = _Omissions(pdf.page_count, pdf.unreadable_pages)
        scanner = Scanner()
        for number, read in enumerate(pdf.pages(), 1):
            page = read
            if read.only_images or read.unreadable:
                page = scanner.read(pdf, number, read)
            pages.append(_lines(page))
            if page.only_images:
                omissions.only_images.append(len(pages))
            if page.truncated:
                omissions.truncated.append(len(pages))
            if page.unreadable:
                omissions.misread.append(len(pages))
            elif page.lacks_letters:
                omissions.without_letters.append(len(pages))
            source.on_progress(len(pages), pdf.page_count)
        outline, title = pdf.outline(), pdf.metadata("Title")
        properties = {key: pdf.metadata(key) for key in _PROPERTIES}
        metadata = [properties[key] for key in ("Subject", "Keywords", "Author")]
        omissions.scanned += scanner.pages
        omissions.not_scanned += scanner.left_out
        omissions.attachments += pdf.attachments()
    if set(range(1, len(pages) + 1)) <= set(omissions.unreadable):
        raise Unreadable("damaged PDF: no page can be read")
    texts = _pages(pages)
    if not any(page.texts for page in texts):
        raise _no_text()
    texts[0].trailing.extend(_new_metadata([*metadata, title[TITLE_CHARS:]], texts[0]))
    return Parsed(
        type="pdf",
        blocks=_blocks(texts, Outline(outline)),
        title=metadata_title(title) or large_title(texts[0].paragraphs),
        attributes=_attributes(properties),
        warnings=tuple(_warnings(omissions)),
        text="\f".join("\n\n".join(page.texts) for page in texts),
    )


def _no_text() -> Unsupported:
    if ocr.is_available():
        return Unsupported("only images: no text in this PDF, and OCR finds none")
    return Unavailable(f"only images: to read its text, install {ocr.EXTRA}")


def _attributes(properties: dict[str, str]) -> Attributes:
    """The author, subject, keywords and dates in the metadata of a PDF."""
    values = {key: one_line(text) for key, text in properties.items()}
    metadata: dict[str, Any] = {
        key.lower(): value
        for key in ("Author", "Subject", "Keywords")
        if (value := values[key]) and value.casefold() not in _UNSET
    }
    created, changed = _date(values["CreationDate"]), _date(values["ModDate"])
    return Attributes(date=created, created_at=created, updated_at=changed, metadata=metadata)


def _date(text: str) -> str | None:
    """Convert the date `D:20240309081500+01'00'` to the store's format."""
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    offset = (zone or "Z").replace("'", ":").rstrip(":").replace("Z", "+00:00")
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    found = dates.parse(f"{year}-{month or '01'}-{day or '01'}T{clock}{offset}")
    return found if found and found >= _FIRST_DATE else None


def _new_metadata(values: Iterable[str], page: _Page) -> Iterator[str]:
    """Yield the values with words that the first page lacks."""
    known = set(_WORD.findall("\n".join(page.texts).casefold()))
    for value in map(one_line, values):
        words = set(_WORD.findall(value.casefold()))
        if words - known and value.casefold() not in _UNSET:
            known |= words
            yield value


def _lines(page: PageText) -> _Lines:
    upright: list[Word] = []
    aside: list[str] = []
    for is_rotated, group in groupby(page.words, key=lambda word: word.aside):
        if not is_rotated:
            upright += group
        else:
            aside.append(" ".join(word.text for word in group))
    texts = (one_line(text) for text in (*aside, *page.notes))
    return _Lines(group_lines(group_runs(upright)), [text for text in texts if text])


def _pages(pages: Sequence[_Lines]) -> list[_Page]:
    known: set[str] = set()
    for page in pages:
        for line in page.lines:
            for run in line.runs:
                known.update(words_inside(run.text))
    split = split_furniture([page.lines for page in pages])
    return [
        _Page(
            group_paragraphs(
                split_columns([run for line in parts.body for run in line.runs]), known
            ),
            page.aside + parts.furniture,
        )
        for page, parts in zip(pages, split, strict=True)
    ]


def _blocks(pages: Sequence[_Page], outline: Outline) -> list[Block]:
    blocks: list[Block] = []
    for number, page in enumerate(pages, 1):
        # Trailing text belongs to the last heading of the page, and is not a heading itself.
        headings = [part.text for part in page.paragraphs] + [""] * len(page.trailing)
        paths = outline.paths(number, headings)
        for index, (text, path) in enumerate(zip(page.texts, paths, strict=True)):
            blocks.append(Block(text, Span("page", page=number), path, boundary=index == 0))
    return blocks


def _warnings(omissions: _Omissions) -> Iterator[str]:
    if omissions.unreadable:
        yield f"page {_join_names(omissions.unreadable)}: cannot be read; the other pages can"
    if omissions.scanned:
        yield f"page {_join_names(omissions.scanned)}: read by OCR"
    if omissions.not_scanned:
        pages = _join_names(omissions.not_scanned)
        yield f"more than {ocr.MAX_PAGES} pages need OCR; not read: page {pages}"
    if omissions.only_images:
        count = len(omissions.only_images)
        yield (
            f"{count} of {omissions.pages} pages {'holds' if count == 1 else 'hold'} only images: "
            f"their text is not searchable without OCR (page {_join_names(omissions.only_images)})"
        )
    if omissions.truncated:
        pages = _join_names(omissions.truncated)
        yield f"page {pages}: only the first {PAGE_CHARS:,} characters are read"
    if omissions.misread:
        yield (
            f"page {_join_names(omissions.misread)}: a font does not map its glyphs to letters; "
            "its text cannot be searched without OCR"
        )
    if omissions.without_letters:
        yield (
            f"page {_join_names(omissions.without_letters)}: a font does not map some of its "
            "glyphs to letters; these letters are missing from words"
        )
    if omissions.attachments:
        yield f"attached files are not read: {_join_names(omissions.attachments)}"


def _join_names(items: Sequence[int | str]) -> str:
    more = f" and {len(items) - _MAX_NAMED} more" if len(items) > _MAX_NAMED else ""
    return ", ".join(map(str, items[:_MAX_NAMED])) + more
