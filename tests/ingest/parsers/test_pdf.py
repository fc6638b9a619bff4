from __future__ import annotations

import io
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.pdf.parser import PdfParser
from kb.ports import Parsed, Source
from kb.types import Block, Span
from tests.ingest.parsers.pdfs import (
    FULL,
    GUTTER,
    HALF,
    HEIGHT,
    MARGIN,
    Draw,
    made,
    prose,
    put,
    text_page,
    wrapped,
)

parser = PdfParser()


def parse(data: bytes, name: str = "paper.pdf") -> Parsed:
    return parser.parse(Source(name, data))


def blocks_of(data: bytes) -> list[Block]:
    return list(parse(data).blocks)


def texts_of(data: bytes) -> list[str]:
    return [block.text for block in blocks_of(data)]


def check(parsed: Parsed) -> None:
    """Check that the blocks are the text of their pages, in order, and that only the first block of
    a page is a boundary."""
    assert parsed.text is not None
    pages: list[list[str]] = [[] for _ in parsed.text.split("\f")]
    for block in parsed.blocks:
        assert block.text == block.text.strip() != ""
        assert "\n" not in block.text
        assert block.span.page is not None
        assert block.span == Span("page", page=block.span.page)
        assert block.boundary == (not pages[block.span.page - 1])
        pages[block.span.page - 1].append(block.text)
    assert parsed.text == "\f".join("\n\n".join(page) for page in pages)


# --- paragraphs -----------------------------------------------------------------------------------


def one_column(*paragraphs: str) -> Draw:
    def draw(canvas: Any) -> None:
        y = HEIGHT - MARGIN
        for text in paragraphs:
            y = put(canvas, [*wrapped(canvas, text, FULL), ""], y=y)

    return draw


def test_paragraphs_by_gap() -> None:
    parsed = parse(made(one_column(prose(1), prose(2)), one_column(prose(3))))
    assert parsed.type == "pdf"
    assert [block.text for block in parsed.blocks] == [prose(1), prose(2), prose(3)]
    assert [block.span.page for block in parsed.blocks] == [1, 1, 2]
    assert parsed.text == f"{prose(1)}\n\n{prose(2)}\f{prose(3)}"
    check(parsed)


def test_paragraphs_by_indent() -> None:
    def draw(canvas: Any) -> None:
        y = HEIGHT - MARGIN
        for seed in (1, 2, 3):
            first, *rest = wrapped(canvas, prose(seed), FULL - 15)
            y = put(canvas, [first], x=MARGIN + 15, y=y)
            y = put(canvas, rest, y=y)

    assert texts_of(made(draw)) == [prose(1), prose(2), prose(3)]


def test_paragraphs_by_a_short_last_line() -> None:
    def draw(canvas: Any) -> None:
        lines = [line for seed in (1, 2, 3) for line in wrapped(canvas, prose(seed), FULL)]
        put(canvas, lines)

    assert texts_of(made(draw)) == [prose(1), prose(2), prose(3)]


def test_list_items_hang() -> None:
    lines = [
        "The items:",
        "• the first of them, which",
        "  goes on",
        "• the second",
        "[3] third one",
    ]
    assert texts_of(made(text_page(*lines))) == [
        "The items:",
        "• the first of them, which goes on",
        "• the second",
        "[3] third one",
    ]


def test_contents_keep_their_lines() -> None:
    lines = ["1 Introduction" + " ." * 80 + " 3", "1.1 History" + " ." * 80 + " 4"]
    assert texts_of(made(text_page(*lines))) == ["1 Introduction … 3", "1.1 History … 4"]


# --- hyphens and signs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["it is a know-", "ledge base"], "it is a knowledge base"),
        (["the Trace-", "Monkey engine"], "the Trace-Monkey engine"),
        (["a state-of-", "the-art thing"], "a state-of-the-art thing"),
        (["the years 2009-", "2010 were"], "the years 2009-2010 were"),
        (["both one- and two-", "or three-sided"], "both one- and two- or three-sided"),
        (["a dash -", "so it stays"], "a dash - so it stays"),
        (["it is a know\xad", "ledge base"], "it is a knowledge base"),
    ],
)
def test_words_broken_at_line_ends(lines: list[str], text: str) -> None:
    assert texts_of(made(text_page(*lines))) == [text]


def test_a_compound_is_known_from_the_rest() -> None:
    said = "some self-made thing and the data was driven by all of it"
    lines = [said, "it is data-", "driven and self-", "made, but under-", "stood"]
    text = f"{said} it is data-driven and self-made, but understood"
    assert texts_of(made(text_page(*lines))) == [text]


def test_characters_are_normalized() -> None:
    from kb.ingest.parsers.pdf.lines import clean

    assert clean("ﬁrst ﬂow\x00 a\xadb\ufeff") == "first flow ab"
    assert clean("na¨ıve G¨odel caf´e ´x yˆi") == "naïve Gödel café ´x yˆi"
    assert clean("N ¨ urnberg f ¨ ur, x ˆ y") == "Nürnberg für, x ˆ y"
    assert clean("e\u0301") == "é"
    assert clean("com\x02 pile") == "com-pile"
    assert clean("know\xad") == "know-"
    assert clean("\ud835\udc65 \ud835") == "𝑥"


def test_other_scripts() -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont

    for font in ("STSong-Light", "HeiseiMin-W3"):
        pdfmetrics.registerFont(UnicodeCIDFont(font))

    def draw(canvas: Any) -> None:
        put(canvas, ["Größe, naïveté, Łódź œuvre"[:15], ""])
        put(canvas, ["知识库是本地的，", "可以搜索文件。"], y=600, font="STSong-Light")
        put(canvas, ["日本語の文章です。"], y=400, font="HeiseiMin-W3")

    texts = texts_of(made(draw))
    assert texts == ["Größe, naïveté,", "知识库是本地的，可以搜索文件。", "日本語の文章です。"]


# --- columns --------------------------------------------------------------------------------------


def two_columns(*, by_row: bool) -> Draw:
    """A title, two columns, a wide caption, and two columns again; the right sides are written
    after the left ones, or line by line with them."""

    def sides(canvas: Any, y: float, left: str, right: str) -> None:
        one, other = wrapped(canvas, left, HALF), wrapped(canvas, right, HALF)
        beyond = MARGIN + HALF + GUTTER
        if by_row:
            for index in range(max(len(one), len(other))):
                put(canvas, one[index : index + 1], y=y - 12 * index)
                put(canvas, other[index : index + 1], x=beyond, y=y - 12 * index)
        else:
            put(canvas, one, y=y)
            put(canvas, other, x=beyond, y=y)

    def draw(canvas: Any) -> None:
        put(canvas, ["A title that is wider than just the one column, by far"], size=18)
        sides(canvas, 700, prose(1, 120), prose(2, 120))
        put(canvas, wrapped(canvas, prose(3, 36), FULL), y=450)
        sides(canvas, 350, prose(4, 120), prose(5, 120))

    return draw


@pytest.mark.parametrize("by_row", [False, True])
def test_two_columns(by_row: bool) -> None:
    title, *texts = texts_of(made(two_columns(by_row=by_row)))
    assert title.startswith("A title")
    assert texts == [prose(1, 120), prose(2, 120), prose(3, 36), prose(4, 120), prose(5, 120)]


def test_a_paragraph_continues_in_the_next_column() -> None:
    def draw(canvas: Any) -> None:
        text = "one " + "and so on it goes " * 60 + "end."
        lines = wrapped(canvas, text, HALF)
        half = len(lines) // 2
        y = put(canvas, lines[:half])
        put(canvas, ["1 A footnote in small print."], y=y - 20, size=7)
        put(canvas, lines[half:], x=MARGIN + HALF + GUTTER)

    text, note = texts_of(made(draw))
    assert text == "one " + "and so on it goes " * 60 + "end."
    assert note == "1 A footnote in small print."


def test_a_table_is_read_by_row() -> None:
    def draw(canvas: Any) -> None:
        put(canvas, wrapped(canvas, prose(1, 120), FULL))
        for row in range(8):
            put(canvas, [f"name {row}"], y=500 - 14 * row)
            put(canvas, [f"value {row}"], x=MARGIN + 300, y=500 - 14 * row)

    text = " ".join(texts_of(made(draw)))
    assert text.endswith(" ".join(f"name {row} value {row}" for row in range(8)))


def test_a_rotated_page() -> None:
    def draw(canvas: Any) -> None:
        canvas.rotate(90)
        put(canvas, wrapped(canvas, prose(1), FULL), x=100, y=-100)
        canvas.rotate(-90)
        put(canvas, ["a stamp"])

    assert texts_of(made(draw)) == [prose(1), "a stamp"]


# --- headers, footers, page numbers ---------------------------------------------------------------


def book_page(number: int, pages: int) -> Draw:
    def draw(canvas: Any) -> None:
        put(canvas, ["The Running Header" if number % 2 else "An Author"], y=HEIGHT - 30)
        put(canvas, wrapped(canvas, prose(number), FULL))
        put(canvas, [f"Chapter {number // 20 + 1} | {number} of {pages}"], y=40)
        put(canvas, [str(number)], x=300, y=25)

    return draw


def test_headers_and_footers_follow_the_text() -> None:
    parsed = parse(made(*(book_page(number, 6) for number in range(1, 7))))
    assert parsed.text is not None
    pages = parsed.text.split("\f")
    assert pages[0] == f"{prose(1)}\n\nThe Running Header\n\nChapter 1 | 1 of 6\n\n1"
    assert pages[1] == f"{prose(2)}\n\nAn Author\n\nChapter 1 | 2 of 6\n\n2"
    assert pages[2] == f"{prose(3)}\n\nChapter 1 | 3 of 6\n\n3"  # its header is on an earlier page
    check(parsed)


@pytest.mark.parametrize("number", ["7", "- 7 -", "Page 7 of 9", "vii"])
def test_page_numbers_follow_the_text(number: str) -> None:
    def draw(canvas: Any) -> None:
        put(canvas, [number], y=HEIGHT - 30)
        put(canvas, [prose(1, 12)])

    assert texts_of(made(draw)) == [prose(1, 12), number]


def invoice(number: int, amount: int) -> Draw:
    return text_page(
        f"Invoice {number}", "", "", f"Amount {amount} EUR", "", "", f"Total {amount * 2} EUR"
    )


def test_rows_of_a_form_are_text() -> None:
    amounts = (1204, 77, 5310, 88, 4711)
    parsed = parse(made(*(invoice(8103 + 17 * at, one) for at, one in enumerate(amounts))))
    assert parsed.text is not None
    assert parsed.text.split("\f") == [
        f"Invoice {8103 + 17 * at}\n\nAmount {one} EUR\n\nTotal {one * 2} EUR"
        for at, one in enumerate(amounts)
    ]


def test_a_number_that_counts_stays_with_its_name() -> None:
    def page(at: int) -> Draw:
        def draw(canvas: Any) -> None:
            put(canvas, ["Invoice no."], y=HEIGHT - 30)
            put(canvas, [str(2101 + at)], x=300, y=HEIGHT - 30)
            put(canvas, wrapped(canvas, prose(at), FULL))

        return draw

    parsed = parse(made(*map(page, range(5))))
    assert parsed.text is not None
    for at, text in enumerate(parsed.text.split("\f")):
        assert text == f"{prose(at)}\n\nInvoice no. {2101 + at}"


def test_pages_that_differ_in_digits_only() -> None:
    parsed = parse(made(*(text_page(f"Sample {at * at}") for at in range(2, 9))))
    assert parsed.text == "\f".join(f"Sample {at * at}" for at in range(2, 9))
    assert parsed.warnings == ()


def test_pages_that_are_the_same() -> None:
    parsed = parse(made(*[text_page("Confidential", "7")] * 4))
    assert parsed.text == "\f".join(["Confidential 7"] * 4)


def test_headings_and_numbers_in_the_text_stay() -> None:
    def page(number: int) -> Draw:
        def draw(canvas: Any) -> None:
            put(canvas, [f"Chapter {number}"], size=24)
            lines = [*wrapped(canvas, prose(number), FULL), "", f"{number}{number}"]
            put(canvas, lines, y=600 - 30 * number)

        return draw

    texts = texts_of(made(*map(page, range(1, 5))))
    assert texts[:2] == ["Chapter 1", prose(1)]
    assert texts.count("33") == 1


def test_a_letterhead_of_two_pages_stays() -> None:
    data = made(*(text_page("Letterhead", "", "", "", prose(seed, 12)) for seed in (1, 2)))
    assert texts_of(data).count("Letterhead") == 2


# --- title and outline ----------------------------------------------------------------------------


def titled(canvas: Any) -> None:
    put(canvas, ["A journal of no name"], y=800, size=8)
    put(canvas, ["The Large Title of This"], x=180, y=760, size=20)
    put(canvas, ["Paper and More"], x=220, y=736, size=20)
    put(canvas, wrapped(canvas, prose(1), FULL), y=680)


@pytest.mark.parametrize("metadata", ["untitled", "paper.dvi", "Microsoft Word - x.doc", "", "7-x"])
def test_title_by_size_of_letters(metadata: str) -> None:
    assert parse(made(titled, title=metadata)).title == "The Large Title of This Paper and More"


def test_a_journals_name_is_not_the_title() -> None:
    """The masthead is larger than the title, and the running header repeats it."""

    def page(canvas: Any) -> None:
        put(canvas, ["Journal of Lamps 137 (2015) 1-5"], y=800, size=8)
        put(canvas, ["Journal of Lamps"], x=180, y=770, size=24)
        put(canvas, ["How Bright Is Bright"], x=180, y=720, size=18)
        put(canvas, wrapped(canvas, prose(1), FULL), y=680)

    assert parse(made(page, title="")).title == "How Bright Is Bright"


def test_title_from_metadata() -> None:
    assert parse(made(titled, title="Said, ﬁrst")).title == "Said, first"


def test_no_title() -> None:
    assert parse(made(one_column(prose(1), prose(2)), title="untitled")).title is None


OUTLINE = [("Start", 1, 0), ("Methods", 2, 0), ("Data", 2, 1), ("Deep", 3, 2), ("End", 4, 0)]


def test_heading_paths_come_from_the_outline() -> None:
    data = made(
        one_column(prose(1)),
        one_column("left over from before.", "2 Methods", prose(2), "2.1 Data", prose(3)),
        one_column("another thing", prose(4)),
        one_column("End", prose(5)),
        one_column(prose(6)),
        outline=OUTLINE,
    )
    assert [(block.span.page, block.heading_path) for block in blocks_of(data)] == [
        (1, ("Start",)),
        (2, ("Start",)),
        (2, ("Methods",)),
        (2, ("Methods",)),
        (2, ("Methods", "Data")),
        (2, ("Methods", "Data")),
        (3, ("Methods", "Data", "Deep")),
        (3, ("Methods", "Data", "Deep")),
        (4, ("End",)),
        (4, ("End",)),
        (5, ("End",)),
    ]


def test_deep_outlines_are_cut() -> None:
    outline = [(f"Level {level}", 1, level) for level in range(6)]
    (block,) = blocks_of(made(one_column(prose(1)), outline=outline))
    assert block.heading_path == ("Level 0", "Level 1", "Level 2", "Level 3")


# --- unreadable files -----------------------------------------------------------------------------


def test_encrypted() -> None:
    with pytest.raises(Unsupported, match="encrypted: save a copy without a password"):
        parse(made(one_column(prose(1)), password="secret"))


def test_protected_from_printing_only() -> None:
    assert texts_of(made(one_column(prose(1)), password="secret", owner_only=True)) == [prose(1)]


@pytest.mark.parametrize("data", [b"", b"text", b"<html>", b"%PDF-1.4\n" + bytes(range(256)) * 9])
def test_damaged(data: bytes) -> None:
    with pytest.raises(Unreadable, match="damaged PDF: "):
        parse(data)


def test_a_page_that_fails_alone() -> None:
    data = made(*(one_column(prose(seed)) for seed in (1, 2, 3)))
    kids = re.search(rb"/Kids \[ \S+ 0 R (\S+) 0 R", data)
    assert kids
    parsed = parse(data.replace(kids[1] + b" 0 obj\n<<", kids[1] + b" 0 obj\n[]"))
    assert parsed.warnings == ("page 2: cannot be read; the other pages can",)
    assert [block.span.page for block in parsed.blocks] == [1, 3]
    check(parsed)


def test_a_false_page_count() -> None:
    data = made(one_column(prose(1)))
    assert data.count(b"/Count 1") == 1
    parsed = parse(data.replace(b"/Count 1", b"/Count 2000000"))
    assert [block.text for block in parsed.blocks] == [prose(1)]


def test_truncated() -> None:
    data = made(*(one_column(prose(seed)) for seed in (1, 2, 3)))
    with pytest.raises(Unreadable, match="damaged PDF: "):
        parse(data[:200])


def test_attached_files_are_named() -> None:
    whole = made(one_column(prose(1)))
    document = pypdfium2.PdfDocument(whole)
    document.new_attachment("ledger.csv").set_data(b"a,b")
    stream = io.BytesIO()
    document.save(stream)
    document.close()
    assert parse(stream.getvalue()).warnings == ("attached files are not read: ledger.csv",)


def test_only_images() -> None:
    def image(canvas: Any) -> None:
        canvas.rect(100, 100, 300, 300, fill=1)

    with pytest.raises(Unsupported, match="only images: to read its text, install the extra ocr"):
        parse(made(image, image))


def test_a_page_without_text_keeps_its_number() -> None:
    parsed = parse(made(one_column(prose(1)), lambda canvas: None, one_column(prose(3))))
    assert parsed.text == f"{prose(1)}\f\f{prose(3)}"
    assert parsed.warnings == ()  # the page is empty
    check(parsed)


def test_pages_of_images_are_named() -> None:
    def image(canvas: Any) -> None:
        canvas.rect(100, 100, 300, 300, fill=1)

    (warning,) = parse(made(one_column(prose(1)), image, image)).warnings
    assert warning == (
        "2 of 3 pages hold only images: their text is not searchable without OCR (page 2, 3)"
    )
    (warning,) = parse(made(one_column(prose(1)), image)).warnings
    assert warning.startswith("1 of 2 pages holds only images: ")


def test_comments_and_filled_in_forms() -> None:
    def draw(canvas: Any) -> None:
        put(canvas, [prose(1, 12)])
        canvas.textAnnotation("Check this with Miriam", Rect=[10, 10, 20, 20])
        canvas.acroForm.textfield(name="name", value="Zacharias Quill", x=100, y=100)
        canvas.acroForm.choice(name="port", options=["Lisbon", "Genoa"], value="Genoa", x=9, y=200)
        canvas.acroForm.checkbox(name="agreed", checked=True, x=100, y=300)
        canvas.linkURL("https://example.org/", (0, 0, 100, 100))

    texts = texts_of(made(draw))
    assert texts == [prose(1, 12), "Check this with Miriam", "Zacharias Quill", "Genoa"]


@pytest.mark.parametrize(
    ("name", "data", "accepted"),
    [
        ("a.pdf", b"", True),
        ("A.PDF", b"", True),
        ("download", b"%PDF-1.7\n", True),
        ("a.bin", b"\n%PDF-1.7\n", True),
        ("notes.txt", b"a PDF begins with\n%PDF-1.7\n", False),
        ("a.png", b"\x89PNG", False),
    ],
)
def test_accepts(name: str, data: bytes, accepted: bool) -> None:
    assert parser.accepts(Source(name, data)) == accepted


# --- whole files ----------------------------------------------------------------------------------


def test_a_book() -> None:
    parsed = parse(made(*(book_page(number, 300) for number in range(1, 301))))
    check(parsed)
    assert parsed.text is not None
    firsts = [page.partition("\n\n")[0] for page in parsed.text.split("\f")]
    assert firsts == [prose(number) for number in range(1, 301)]
    assert parsed.text.count("The Running Header") == 1


def test_many_at_once() -> None:
    files = [made(*(book_page(number, 9) for number in range(at, at + 5))) for at in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(texts_of, files)) == list(map(texts_of, files))


def test_passages_open(kb: KnowledgeBase, tmp_path: Path) -> None:
    pages = [one_column(prose(seed, 400), prose(seed + 20)) for seed in (1, 2, 3)]
    file = tmp_path / "lib" / "paper.pdf"
    file.parent.mkdir()
    file.write_bytes(made(*pages, title="A Paper"))
    kb.ingest(file.parent)
    (hit, *_) = kb.search("2x3")
    assert (hit.type, hit.title, hit.citation.uri) == ("pdf", "A Paper", "lib/paper.pdf#page=2")
    passage = kb.get(hit.citation.uri)
    assert passage.state == "exact"
    assert prose(22) in passage.text


WORDS = st.text(alphabet="abcXYZ-.,é ﬁ•[1]", min_size=1, max_size=40)
PLACED = st.tuples(
    WORDS, st.integers(-50, 700), st.integers(-50, 900), st.sampled_from([6, 10, 30])
)


@settings(max_examples=50)
@given(st.lists(st.lists(PLACED, max_size=25), min_size=1, max_size=4))
def test_blocks_occur_in_their_pages(pages: list[list[tuple[str, int, int, int]]]) -> None:
    def page(placed: list[tuple[str, int, int, int]]) -> Draw:
        def draw(canvas: Any) -> None:
            for text, x, y, size in placed:
                put(canvas, [text], x=x, y=y, size=size)

        return draw

    try:
        parsed = parse(made(*map(page, pages)))
    except Unsupported:
        return
    check(parsed)
    assert parsed.text is not None
    pages_text = parsed.text.split("\f")
    for draft in chunk(parsed.blocks, 40):
        (span,) = draft.spans
        assert span.page is not None
        assert draft.text in pages_text[span.page - 1]


def test_mutated_files_fail_as_they_should() -> None:
    chance = random.Random(7)
    whole = made(titled, two_columns(by_row=False), one_column(prose(3)), outline=OUTLINE[:3])
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 5, 50))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        try:
            check(parse(bytes(data)))
        except (Unreadable, Unsupported):
            continue
