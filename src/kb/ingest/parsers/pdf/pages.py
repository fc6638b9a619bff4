"""Reads a PDF with PDFium: the words of its pages and their boxes, comments, outline and title.

The only module that calls PDFium. Pages are opened one at a time, so that a book needs no more
memory than its text. PDFium is not thread-safe: every call holds one lock, which is released
between pages so that a long file does not block others.
"""

from __future__ import annotations

import ctypes
import html
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any, NamedTuple

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.pdf.legibility import CONTROLS, adjacent_letters, is_unreadable

OUTLINE_DEPTH = 4

_PDFIUM = threading.Lock()
PAGE_CHARS = 1_000_000  # of one page; the rest is omitted
# After this many unreadable pages in a row, the page count is probably wrong, and the rest is
# skipped.
_MAX_UNREADABLE_PAGES = 1_000
_MAX_OUTLINE_ITEMS = 10_000
_MAX_NOTES = 10_000  # on a page
_MAX_ATTACHMENTS = 1_000
_NOTE_BYTES = 1_000_000
_TEXT_FIELDS = frozenset({4, 5, 6})  # types of form fields with text: combo box, list box, text
# Kinds of annotations that may have text in their appearance alone, by their numbers in PDFium:
# free text, stamp, form field.
_DRAWN_NOTES = frozenset({3, 13, 20})
_TAG = re.compile(r"<[^<>]*>")
_TITLE_BYTES = 4_096
_MAX_PIXELS = 6_000  # of the longer side of a page
_MAX_COORDINATE = 1e6  # a larger one is invalid
# PDFium writes one of these, and no space, where a hyphen ends a line.
HYPHEN_MARKS = "\x02\ufffe"
_TOKEN = re.compile(rf"[^\s{HYPHEN_MARKS}]*[{HYPHEN_MARKS}]|[^\s{HYPHEN_MARKS}]+")
_UNSPACED = re.compile(r"[^ \r\n]+")  # other spaces may be numbers of glyphs
_QUARTER = math.pi / 2
# In TeX fonts without a character map, these codes are those of the T1 encoding.
_T1_CODES = "\x10\x11\x15\x16\x1b\x1c\x1d\x1e\x1f"
_T1 = str.maketrans(_T1_CODES, "“”–—ﬀﬁﬂﬃﬄ")


class Word(NamedTuple):
    """A word and its box, with y growing downwards. `aside` words are not in the lines of the page:
    they run in another direction, such as a stamp along its side, or have no position."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    aside: bool = False


class PageText(NamedTuple):
    """The words of a page in file order, and `notes`: its comments and form fields.

    `only_images` means that the page has content but no text, `truncated` that it has more text
    than is read, `unreadable` that some of its text is not what a reader sees, and `lacks_letters`
    that words lack letters.
    """

    words: list[Word]
    notes: list[str]
    only_images: bool = False
    truncated: bool = False
    unreadable: bool = False
    lacks_letters: bool = False


class OutlineItem(NamedTuple):
    """A bookmark; `level` and `page` count from 1."""

    level: int
    title: str
    page: int


class Pdf:
    """An open PDF. Raises `Unreadable` if it cannot be opened, `Unsupported` if it is encrypted."""

    def __init__(self, data: bytes) -> None:
        with _PDFIUM:
            self._document = _open(data)
            self.page_count = len(self._document)
        self.unreadable_pages: list[int] = []

    def __enter__(self) -> Pdf:
        return self

    def __exit__(self, *_: object) -> None:
        with _PDFIUM:
            self._document.close()

    def pages(self) -> Iterator[PageText]:
        """Yield the text of every page. Pages in `unreadable_pages` are empty."""
        in_a_row = 0
        for index in range(self.page_count):
            page = self._page(index)
            in_a_row = 0 if page is not None else in_a_row + 1
            if page is None:
                self.unreadable_pages.append(index + 1)
            if in_a_row == _MAX_UNREADABLE_PAGES:
                self.unreadable_pages += range(index + 2, self.page_count + 1)
                return
            yield page or PageText([], [])

    def _page(self, index: int) -> PageText | None:
        import pypdfium2
        import pypdfium2.raw as raw

        with _PDFIUM:
            try:
                page = self._document[index]
            except pypdfium2.PdfiumError:
                return None
            try:
                text, has_appearances = _page_text(page)
                if has_appearances and raw.FPDFPage_Flatten(page.raw, 0) == raw.FLATTEN_SUCCESS:
                    page.close()
                    page = self._document[index]
                    text.notes.append(_new_words(page, text))
                return text
            except pypdfium2.PdfiumError:
                return None
            finally:
                page.close()

    def render(self, index: int, scale: float) -> Any:
        """Render a page as an array of pixels; None if that fails."""
        import pypdfium2

        with _PDFIUM:
            try:
                page = self._document[index]
            except pypdfium2.PdfiumError:
                return None
            try:
                longest = max(page.get_size())
                fitting = min(scale, _MAX_PIXELS / longest) if longest > 0 else scale
                return page.render(scale=fitting, rev_byteorder=False).to_numpy()[:, :, :3].copy()
            except (pypdfium2.PdfiumError, ValueError, MemoryError):
                return None
            finally:
                page.close()

    def metadata(self, key: str) -> str:
        """The entry of the document's metadata, such as `Title`."""
        import pypdfium2.raw as raw

        with _PDFIUM:
            arguments = self._document.raw, key.encode()
            size = min(raw.FPDF_GetMetaText(*arguments, None, 0), _NOTE_BYTES)
            buffer = ctypes.create_string_buffer(size + 2)
            raw.FPDF_GetMetaText(*arguments, buffer, size)
            return _utf16(buffer.raw)

    def attachments(self) -> list[str]:
        """The names of the attached files."""
        with _PDFIUM:
            count = min(self._document.count_attachments(), _MAX_ATTACHMENTS)
            return [self._document.get_attachment(index).get_name() for index in range(count)]

    def outline(self) -> list[OutlineItem]:
        """The bookmarks that lead to a page, in order."""
        with _PDFIUM:
            return list(_bookmarks(self._document.raw))


def _open(data: bytes) -> Any:
    import pypdfium2
    import pypdfium2.raw as raw

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        code = raw.FPDF_GetLastError()
        if code == raw.FPDF_ERR_PASSWORD:
            raise Unsupported("encrypted: save a copy without a password") from error
        if code == raw.FPDF_ERR_SECURITY:
            raise Unsupported("encrypted: with an unsupported method") from error
        raise Unreadable("damaged PDF: it cannot be opened") from error
    if document.get_formtype() == raw.FORMTYPE_ACRO_FORM:
        with suppress(pypdfium2.PdfiumError):  # the text is readable without forms
            document.init_forms()
    return document


# --- words ----------------------------------------------------------------------------------------


def _page_text(page: Any) -> tuple[PageText, bool]:
    """Return the text of a page, and whether annotations have more text in their appearance."""
    import pypdfium2.raw as raw

    text_page = page.get_textpage()
    try:
        count = text_page.count_chars()
        chars = _chars(text_page.raw, count)
        words = _to_words(_boxes(text_page.raw, chars))
        unmapped = _unmapped_words(text_page.raw, chars)
        lacks_letters = _lacks_letters(text_page.raw, chars)
    finally:
        text_page.close()
    notes, has_appearances = _notes(page)
    is_empty = not words and not notes and not has_appearances
    only_images = is_empty and raw.FPDFPage_CountObjects(page.raw) > 0
    text = PageText(
        words,
        notes,
        only_images,
        truncated=count > PAGE_CHARS,
        unreadable=is_unreadable(chars, unmapped),
        lacks_letters=lacks_letters,
    )
    return text, has_appearances


def _new_words(page: Any, before: PageText) -> str:
    """The words that a page gains when its annotations are flattened into it."""
    known = {word.text for word in before.words}.union(*(note.split() for note in before.notes))
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_range(count=min(text_page.count_chars(), PAGE_CHARS))
    finally:
        text_page.close()
    words = (word for word in text.split() if any(map(str.isalnum, word)))
    return " ".join(word for word in words if word not in known)


class _Box(NamedTuple):
    """A word as PDFium returns it, with y growing upwards. `quarters` is its rotation in quarter
    turns, or None if it has no position."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    quarters: int | None


def _chars(handle: Any, count: int) -> str:
    import pypdfium2.raw as raw

    codes = map(raw.FPDFText_GetUnicode, repeat(handle), range(min(count, PAGE_CHARS)))
    return "".join(map(chr, codes))


def _unmapped_words(handle: Any, chars: str) -> list[str]:
    """The words that begin in a font without a map to Unicode, with spaces for mapped characters:
    reading the state of every character would take much of the time."""
    import pypdfium2.raw as raw

    has_no_map = raw.FPDFText_HasUnicodeMapError
    words = []
    for token in _UNSPACED.finditer(chars):
        if has_no_map(handle, token.start()) == 1:
            states = map(has_no_map, repeat(handle), range(*token.span()))
            pairs = zip(token[0], states, strict=True)
            words.append("".join([char if state == 1 else " " for char, state in pairs]))
    return words


def _lacks_letters(handle: Any, chars: str) -> bool:
    """Whether a word lacks a letter: a control character in the font of the letters beside it is
    the number of a glyph. In other fonts, such numbers are symbols of formulas."""
    import pypdfium2.raw as raw

    def font(index: int) -> int | None:
        text_object = raw.FPDFText_GetTextObject(handle, index)
        font = raw.FPDFTextObj_GetFont(text_object) if text_object else None
        return ctypes.cast(font, ctypes.c_void_p).value if font else None

    return any(
        raw.FPDFText_HasUnicodeMapError(handle, index) == 1 and font(index) == font(letter)
        for match in CONTROLS.finditer(chars)
        if match[0] not in _T1_CODES
        for index in (match.start(),)
        for letter in adjacent_letters(chars, index)
    )


def _boxes(handle: Any, chars: str) -> Iterator[_Box]:
    """Yield the words, with boxes computed from their first and last characters: reading the box of
    every character would take most of the time."""
    import pypdfium2.raw as raw

    loose_box, angle_of = raw.FPDFText_GetLooseCharBox, raw.FPDFText_GetCharAngle
    one, other = raw.FS_RECTF(), raw.FS_RECTF()
    to_one, to_other = ctypes.byref(one), ctypes.byref(other)
    for token in _TOKEN.finditer(chars.translate(_T1)):
        first, last = token.start(), token.end() - 1
        original = chars[first : last + 1]
        if token[0] != original and not any(map(str.isalnum, original)):
            continue  # only unmapped codes
        if not (loose_box(handle, first, to_one) and loose_box(handle, last, to_other)):
            yield _Box(token[0], 0.0, 0.0, 0.0, 0.0, None)
            continue
        quarters = round(angle_of(handle, first) / _QUARTER) % 4
        box = _Box(token[0], *_around(_sides(one), _sides(other), quarters % 2 == 0), quarters)
        if (
            -_MAX_COORDINATE
            < box.left
            <= box.right
            < _MAX_COORDINATE
            > box.top
            >= box.bottom
            > -_MAX_COORDINATE
        ):
            yield box
        else:
            yield _Box(token[0], 0.0, 0.0, 0.0, 0.0, None)


_Sides = tuple[float, float, float, float]  # left, bottom, right, top


def _sides(box: Any) -> _Sides:
    return box.left, box.bottom, box.right, box.top


def _around(one: _Sides, other: _Sides, upright: bool) -> _Sides:
    """The box of a word, from those of its ends. An upright word has the height of its taller end,
    since the other may be a footnote mark."""
    left, right = min(one[0], other[0]), max(one[2], other[2])
    if upright:
        tall = one if one[3] - one[1] >= other[3] - other[1] else other
        return left, tall[1], right, tall[3]
    return left, min(one[1], other[1]), right, max(one[3], other[3])


def _to_words(boxes: Iterator[_Box]) -> list[Word]:
    """Rotate the page so that most of its text is upright."""
    page_boxes = list(boxes)
    votes: Counter[int] = Counter()
    for box in page_boxes:
        if box.quarters is not None:
            votes[box.quarters] += len(box.text)
    page = max(votes, key=votes.__getitem__, default=0)
    return [_rotate(page, box) for box in page_boxes]


def _rotate(quarters: int, box: _Box) -> Word:
    text, left, bottom, right, top, own = box
    aside = own != quarters
    if quarters == 1:
        return Word(text, -top, -bottom, -right, -left, aside)
    if quarters == 2:
        return Word(text, -right, -left, bottom, top, aside)
    if quarters == 3:
        return Word(text, bottom, top, left, right, aside)
    return Word(text, left, right, -top, -bottom, aside)


# --- comments and forms ---------------------------------------------------------------------------


def _notes(page: Any) -> tuple[list[str], bool]:
    """Return the comments on a page and the values of its form fields, and whether annotations have
    text only in their appearance."""
    import pypdfium2.raw as raw

    notes: list[str] = []
    has_appearances = False
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _MAX_NOTES)):
        note = raw.FPDFPage_GetAnnot(page.raw, index)
        if not note:
            continue
        try:
            texts = [text for text in _note_texts(page, note) if text]
            notes += texts
            is_visible = raw.FPDFAnnot_GetSubtype(note) in _DRAWN_NOTES
            if not texts and is_visible and raw.FPDFAnnot_HasKey(note, b"AP"):
                has_appearances = True
        finally:
            raw.FPDFPage_CloseAnnot(note)
    return notes, has_appearances


def _note_texts(page: Any, note: Any) -> Iterator[str]:
    import pypdfium2.raw as raw

    kind = raw.FPDFAnnot_GetSubtype(note)
    if kind == raw.FPDF_ANNOT_POPUP:
        return
    if kind == raw.FPDF_ANNOT_WIDGET:
        yield _string(raw.FPDFAnnot_GetStringValue, note, b"TU")  # the tooltip
        if not page.formenv:
            yield _string(raw.FPDFAnnot_GetStringValue, note, b"V")
        elif raw.FPDFAnnot_GetFormFieldType(page.formenv, note) in _TEXT_FIELDS:
            yield _string(raw.FPDFAnnot_GetFormFieldValue, page.formenv, note)
    elif text := _string(raw.FPDFAnnot_GetStringValue, note, b"Contents"):
        yield text
    else:
        rich = _string(raw.FPDFAnnot_GetStringValue, note, b"RC")
        yield html.unescape(_TAG.sub(" ", rich))


def _string(function: Any, *arguments: Any) -> str:
    """Call a PDFium function that writes text to a buffer. A first call returns the size."""
    import pypdfium2.raw as raw

    size = min(function(*arguments, None, 0), _NOTE_BYTES)
    buffer = ctypes.create_string_buffer(size + 2)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return _utf16(buffer.raw)


# --- outline --------------------------------------------------------------------------------------


def _bookmarks(document: Any) -> Iterator[OutlineItem]:
    """Yield the bookmarks depth first, each once, since outlines of damaged files may be cyclic."""
    import pypdfium2.raw as raw

    seen: set[int] = set()
    stack = [(raw.FPDFBookmark_GetFirstChild(document, None), 1)]
    while stack and len(seen) < _MAX_OUTLINE_ITEMS:
        mark, level = stack.pop()
        address = ctypes.cast(mark, ctypes.c_void_p).value
        if address is None or address in seen:
            continue
        seen.add(address)
        stack.append((raw.FPDFBookmark_GetNextSibling(document, mark), level))
        if level < OUTLINE_DEPTH:
            stack.append((raw.FPDFBookmark_GetFirstChild(document, mark), level + 1))
        index = _page_of(document, mark)
        if index >= 0 and (title := _mark_title(mark)):
            yield OutlineItem(level, title, index + 1)


def _page_of(document: Any, mark: Any) -> int:
    """The index of a bookmark's page; -1 if it has none."""
    import pypdfium2.raw as raw

    target = raw.FPDFBookmark_GetDest(document, mark)
    if not target and (action := raw.FPDFBookmark_GetAction(mark)):
        target = raw.FPDFAction_GetDest(document, action)
    return int(raw.FPDFDest_GetDestPageIndex(document, target)) if target else -1


def _mark_title(mark: Any) -> str:
    import pypdfium2.raw as raw

    buffer = ctypes.create_string_buffer(_TITLE_BYTES)
    size = raw.FPDFBookmark_GetTitle(mark, buffer, _TITLE_BYTES)
    return _utf16(buffer.raw[:size])


def _utf16(data: bytes) -> str:
    """Decode text from PDFium, which ends with a zero and is empty if the buffer was too small."""
    return data.decode("utf-16-le", "ignore").partition("\0")[0].strip()
