"""No word of a PDF is lost: every word that PDFium reads on a page is in a passage."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from kb import KnowledgeBase
from kb.ingest.chunk import chunk
from kb.ingest.decode import Unsupported
from kb.ingest.parsers.pdf.parser import PdfParser
from kb.ports import Source
from tests.ingest.parsers.pdfs import FULL, HALF, HEIGHT, MARGIN, WIDTH, Draw, made, put, wrapped

_HYPHENS = "\x02\ufffe\u00ad-"
_WORD = re.compile(r"\w+")
_HEAD = re.compile(rf"(\w+)[{_HYPHENS}]")
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_CHINESE = "STSong-Light"


# --- expected and actual words --------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """The words of a text. `heads` come before a hyphen, so that a line may have ended there."""

    words: frozenset[str]
    heads: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Words:
        text = unicodedata.normalize("NFC", text.replace("ﬁ", "fi"))
        marked = re.sub(f"[{_HYPHENS}]", "-", _CJK.sub(r" \g<0> ", text))
        return cls(frozenset(_WORD.findall(marked)), frozenset(_HEAD.findall(marked)))

    def lost_in(self, passages: Words) -> set[str]:
        """The words that `passages` lack, even if words are joined at hyphens."""
        there = passages.words
        heads = "|".join(map(re.escape, self.heads)) or "(?!)"
        whole = {
            word
            for word in self.words - there
            for one in there
            if re.fullmatch(f"(?:{heads})+{re.escape(word)}", one)
            or (word in self.heads and re.fullmatch(f"(?:{heads})*{re.escape(word)}.+", one))
        }
        return set(self.words - there - whole)


def pdfium_pages(data: bytes) -> list[str]:
    with pypdfium2.PdfDocument(data) as document:
        return [page.get_textpage().get_text_range() for page in document]


def check_words(data: bytes) -> None:
    read = pdfium_pages(data)
    try:
        parsed = PdfParser().parse(Source("a.pdf", data))
    except Unsupported:
        assert not any(_WORD.search(page) for page in read)
        return
    passages = ["" for _ in read]
    for draft in chunk(parsed.blocks, 1800):
        (span,) = draft.spans
        assert span.page is not None
        passages[span.page - 1] += f"{draft.text}\n"
    assert Words.of("\n".join(read)).lost_in(Words.of("\n".join(passages))) == set()
    for number, (page, passage) in enumerate(zip(read, passages, strict=True)):
        elsewhere = Words.of("\n".join(read[:number] + read[number + 1 :])).words
        here = Words.of(page)
        own = Words(here.words - elsewhere, here.heads)
        assert own.lost_in(Words(Words.of(passage).words, here.heads)) == set()


# --- random pages ---------------------------------------------------------------------------------

LETTERS = st.text(alphabet="abcdefgXYZ", min_size=1, max_size=8)
NUMBERS = st.one_of(st.integers(0, 12).map(str), st.integers(0, 99999).map(str))
WORDS = st.one_of(
    LETTERS,
    NUMBERS,
    st.sampled_from(["Total", "Page", "of", "EUR", "co-op", "exam-", "ple", "1.204,50", "ﬁn", "é"]),
)
LINES = st.lists(WORDS, min_size=1, max_size=7).map(" ".join)


@st.composite
def templated(draw: Callable[..., Any]) -> list[Draw]:
    """Pages of one form: the same lines with other numbers, in the same positions."""
    labels = draw(st.lists(LETTERS, min_size=1, max_size=6))
    step = draw(st.sampled_from([0, 1, 1, 2, 17]))
    start = draw(st.integers(0, 3000))
    gap = draw(st.sampled_from(["", "          "]))

    def page(at: int) -> Draw:
        lines = [f"{label}{gap} {start + step * at * (n + 1)}" for n, label in enumerate(labels)]
        return lambda canvas: put(canvas, [each for line in lines for each in (line, "", "")])

    return [page(at) for at in range(draw(st.integers(1, 7)))]


@st.composite
def framed(draw: Callable[..., Any]) -> list[Draw]:
    """Text in one or two columns, between a header and a footer."""
    header, footer = draw(LINES), draw(LINES)
    first = draw(st.sampled_from([1, 9, 290]))
    texts = draw(st.lists(st.lists(WORDS, max_size=120), min_size=1, max_size=6))
    columns = draw(st.booleans())

    def page(at: int, words: Sequence[str]) -> Draw:
        def paint(canvas: Any) -> None:
            put(canvas, [header], y=HEIGHT - 30)
            put(canvas, [str(first + at)], x=WIDTH - MARGIN, y=HEIGHT - 30)
            half = len(words) // 2 if columns else len(words)
            width = HALF if columns else FULL
            put(canvas, wrapped(canvas, " ".join(words[:half]), width))
            put(canvas, wrapped(canvas, " ".join(words[half:]), width), x=WIDTH / 2 + 10)
            put(canvas, [f"{footer} {first + at}"], y=30)

        return paint

    return [page(at, words) for at, words in enumerate(texts)]


@st.composite
def tables(draw: Callable[..., Any]) -> list[Draw]:
    rows = draw(st.lists(st.lists(WORDS, min_size=1, max_size=5), min_size=1, max_size=12))
    pages = draw(st.integers(1, 4))

    def paint(canvas: Any) -> None:
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                put(canvas, [cell], x=MARGIN + 90 * column, y=700 - 14 * at)

    return [paint] * pages


PLACED = st.tuples(
    LINES, st.integers(-50, 700), st.integers(-50, 900), st.sampled_from([1, 6, 10, 30]),
    st.sampled_from([0, 0, 0, 90, 180, 45]),
)  # fmt: skip


@st.composite
def scattered(draw: Callable[..., Any]) -> list[Draw]:
    """Random text at random positions, in any direction, on pages of any size and rotation."""
    pages = draw(st.lists(st.lists(PLACED, max_size=12), min_size=1, max_size=5))
    size = draw(st.sampled_from([(WIDTH, HEIGHT), (20, 20), (3000, 100)]))
    turned = draw(st.sampled_from([0, 90, 270]))

    def page(placed: Sequence[tuple[str, int, int, int, int]]) -> Draw:
        def paint(canvas: Any) -> None:
            canvas.setPageSize(size)
            canvas.setPageRotation(turned)
            for text, x, y, height, angle in placed:
                canvas.saveState()
                canvas.translate(x, y)
                canvas.rotate(angle)
                put(canvas, [text], x=0, y=0, size=height)
                canvas.restoreState()

        return paint

    return [page(placed) for placed in pages]


@st.composite
def chinese(draw: Callable[..., Any]) -> list[Draw]:
    lines = st.lists(st.text(alphabet="天地玄黄宇宙洪荒12", min_size=1, max_size=30), max_size=9)
    pages = draw(st.lists(lines, min_size=1, max_size=4))

    def page(lines: Sequence[str]) -> Draw:
        return lambda canvas: put(canvas, lines, font=_CHINESE)

    return [page(lines) for lines in pages]


@pytest.fixture(scope="module", autouse=True)
def _chinese_font() -> None:
    pdfmetrics.registerFont(UnicodeCIDFont(_CHINESE))


@settings(max_examples=120, deadline=None)
@given(st.one_of(templated(), framed(), tables(), scattered(), chinese()))
def test_every_word_is_in_a_passage(pages: list[Draw]) -> None:
    check_words(made(*pages))


@settings(max_examples=30, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=9))
def test_one_word_a_page(words: list[str]) -> None:
    def page(word: str) -> Draw:
        return lambda canvas: put(canvas, [word])

    check_words(made(*map(page, words)))


def test_an_invoice_is_found_by_each_of_its_numbers(kb: KnowledgeBase, tmp_path: Any) -> None:
    def page(at: int) -> Draw:
        return lambda canvas: put(
            canvas,
            [f"Invoice {2101 + at}", "", "", f"Amount {at * 913 + 40}.17", "", "", "Total",
             f"{at * 913 + 65}.99"],
        )  # fmt: skip

    (tmp_path / "bills").mkdir()
    (tmp_path / "bills" / "2026.pdf").write_bytes(made(*map(page, range(5))))
    report = kb.ingest(tmp_path / "bills")
    assert report.warnings == ()
    for at in range(5):
        for number in (2101 + at, f"{at * 913 + 40}.17", f"{at * 913 + 65}.99"):
            hit, *_ = kb.search(f'"{number}"', mode="lexical")
            assert hit.citation.uri == f"bills/2026.pdf#page={at + 1}"
            passage = kb.get(hit.citation.uri)
            assert passage.state == "exact"
            assert str(number) in passage.text


# --- annotations, forms and metadata --------------------------------------------------------------

NOTE = b"<</Type/Annot/Rect[10 10 110 30]"


def annotated(*notes: bytes, info: bytes = b"", body: bytes = b"(body) Tj") -> bytes:
    """A page with annotations, whose appearance may be the object 6."""

    def stream(dictionary: bytes, content: bytes) -> bytes:
        return b"<<%s/Length %d>>stream\n%s\nendstream" % (dictionary, len(content), content)

    fonts = b"/Resources<</Font<</F 5 0 R>>>>"
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 100 20]" + fonts
    places = b" ".join(b"%d 0 R" % (8 + number) for number in range(len(notes)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[%s]>>>>" % places,
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]%s/Contents 4 0 R/Annots[%s]>>"
        % (fonts, places),
        stream(b"", b"BT /F 12 Tf 20 250 Td %s ET" % body),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        stream(form, b"BT /F 12 Tf 2 5 Td (words) Tj ET"),
        b"<<%s>>" % info,
        *notes,
    ]
    bodies = b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in enumerate(objects, 1))
    return b"%%PDF-1.7\n%strailer<</Root 1 0 R/Info 7 0 R>>\n%%%%EOF\n" % bodies


@pytest.mark.parametrize(
    "data",
    [
        annotated(NOTE + b"/Subtype/FreeText/AP<</N 6 0 R>>>>"),
        annotated(NOTE + b"/Subtype/Stamp/AP<</N 6 0 R>>>>", body=b""),
        annotated(NOTE + b"/Subtype/FreeText/RC(<body><p>some <b>words</b></p></body>)>>"),
        annotated(NOTE + b"/Subtype/Text/Contents(some words)>>"),
        annotated(NOTE + b"/Subtype/Link/Contents(some words)>>"),
        annotated(NOTE + b"/Subtype/Widget/FT/Tx/T(a)/V(some words)>>"),
        annotated(NOTE + b"/Subtype/Widget/FT/Tx/T(a)/TU(some words)>>"),
        annotated(NOTE + b"/Subtype/Widget/FT/Btn/Ff 65536/T(a)/AP<</N 6 0 R>>>>"),
        annotated(info=b"/Subject(some words)"),
        annotated(info=b"/Keywords(some, words)"),
        annotated(info=b"/Author(W. Words)"),
        annotated(info=b"/Title(%s words)" % (b"x" * 3000)),
    ],
)
def test_words_beside_the_text(data: bytes) -> None:
    parsed = PdfParser().parse(Source("a.pdf", data))
    texts = [draft.text for draft in chunk(parsed.blocks, 1800)]
    assert sum(len(re.findall("words", text, re.I)) for text in texts) == 1
    assert all(text in (parsed.text or "") for text in texts)


def test_redundant_and_meaningless_metadata() -> None:
    data = annotated(info=b"/Author(Body)/Subject(unspecified)")
    assert PdfParser().parse(Source("a.pdf", data)).text == "body"


def test_a_picture_with_metadata_is_still_a_picture() -> None:
    with pytest.raises(Unsupported, match="only images"):
        PdfParser().parse(Source("a.pdf", annotated(info=b"/Subject(words)", body=b"")))
