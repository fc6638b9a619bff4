"""Fonts that do not map their glyphs to letters: a warning names their pages."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path
from string import ascii_lowercase

import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from kb import KnowledgeBase
from kb.ingest.parsers.pdf.legibility import is_unreadable
from kb.ingest.parsers.pdf.parser import PdfParser
from kb.ports import Source
from tests.ingest.parsers.pdfs import FULL, made, prose, put, text_page, wrapped

MISREAD = (
    "page 1: a font does not map its glyphs to letters; its text cannot be searched without OCR"
)
LACKING = (
    "page 1: a font does not map some of its glyphs to letters; "
    "these letters are missing from words"
)

COMMITTEE = (
    "the committee received several reports about further delays between stations, although "
    "nothing described their general condition before winter started"
)


def warnings_of(data: bytes) -> tuple[str, ...]:
    return PdfParser().parse(Source("paper.pdf", data)).warnings


def written(content: bytes, *fonts: bytes) -> bytes:
    """A page with the fonts `F0`, `F1` and so on. Object 5 is a glyph, 6 on are the fonts."""
    names = b"".join(b"/F%d %d 0 R" % (at, 6 + at) for at in range(len(fonts)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<<%s>>>>>>" % names,
        b"<</Length %d>>stream\nBT 50 700 Td %s ET\nendstream" % (len(content), content),
        b"<</Length 29>>stream\n500 0 0 0 500 500 d1 0 0 9 9 re f\nendstream",
        *fonts,
    ]
    bodies = b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in enumerate(objects, 1))
    return b"%%PDF-1.7\n%strailer<</Root 1 0 R>>\n%%%%EOF\n" % bodies


# A composite font without ToUnicode: its codes are glyph numbers.
COMPOSITE = (
    b"<</Type/Font/Subtype/Type0/BaseFont/Some/Encoding/Identity-H/DescendantFonts["
    b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Some/CIDToGIDMap/Identity/DW 500"
    b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    b"/FontDescriptor<</Type/FontDescriptor/FontName/Some/Flags 4/FontBBox[0 0 500 500]"
    b"/ItalicAngle 0/Ascent 500/Descent 0/CapHeight 500/StemV 80>>>>]>>"
)
HELVETICA = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def drawn_font(codes: range) -> bytes:
    """A Type 3 font whose glyphs have numbers for names, as TeX and scanners write them."""
    names = b"".join(b"/c%d 5 0 R" % code for code in codes)
    glyphs = b"".join(b"/c%d" % code for code in codes)
    widths = b" 500" * len(codes)
    return (
        b"<</Type/Font/Subtype/Type3/FontBBox[0 0 500 500]/FontMatrix[0.001 0 0 0.001 0 0]"
        b"/CharProcs<<%s>>/Encoding<</Type/Encoding/Differences[%d%s]>>"
        b"/FirstChar %d/LastChar %d/Widths[%s]>>"
        % (names, codes.start, glyphs, codes.start, codes.stop - 1, widths)
    )


def glyph_numbers(text: str, shift: int) -> bytes:
    """The text in a font that numbers its glyphs in the order of ASCII, from another number on."""
    return b"<%s> Tj" % "".join(f"{ord(char) - shift:04X}" for char in text).encode()


# --- text that cannot be searched -----------------------------------------------------------------


@pytest.mark.parametrize("shift", [29, 31])  # TrueType and OpenType fonts
@pytest.mark.parametrize("text", ["Identity encoded rhinoceros words", prose(1, 200)])
def test_glyph_numbers_of_a_composite_font(shift: int, text: str) -> None:
    data = written(b"/F0 12 Tf " + glyph_numbers(text, shift), COMPOSITE)
    assert warnings_of(data) == (MISREAD,)


def test_large_glyph_numbers() -> None:
    numbers = "".join(f"{number:04X}" for number in range(0x1200, 0x1220)).encode()
    assert warnings_of(written(b"/F0 12 Tf <%s> Tj" % numbers, COMPOSITE)) == (MISREAD,)


def test_one_such_line_on_a_page_of_others() -> None:
    other = b"/F1 12 Tf (%s) Tj 0 -40 Td " % prose(2, 40).encode()
    line = b"/F0 12 Tf " + glyph_numbers("A table of contents", 29)
    assert warnings_of(written(other + line, COMPOSITE, HELVETICA)) == (MISREAD,)


def test_drawn_glyphs_without_names() -> None:
    content = b"/F1 12 Tf (Words) Tj 0 -40 Td /F0 12 Tf <010201020102010201020102> Tj"
    assert warnings_of(written(content, drawn_font(range(1, 3)), HELVETICA)) == (MISREAD,)


def test_the_report_names_the_file_and_the_text_stays(tmp_path: Path) -> None:
    root = tmp_path / "papers"
    root.mkdir()
    text = glyph_numbers("Identity encoded rhinoceros words", 29)
    (root / "a.pdf").write_bytes(written(b"/F0 12 Tf " + text, COMPOSITE))
    (root / "b.pdf").write_bytes(made(text_page("Words that can be read")))
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        report = kb.ingest(root)
        assert [(note.path, note.reason) for note in report.warnings] == [("papers/a.pdf", MISREAD)]
        assert report.added == ("papers/a.pdf", "papers/b.pdf")


def test_letters_replaced_by_signs() -> None:
    for first in (0x2761, 0xF061):  # dingbats, private use
        signs = "".join(map(chr, range(first, first + 26)))
        text = prose(1, 20).translate(str.maketrans(ascii_lowercase, signs))
        assert is_unreadable(text, ())


@pytest.mark.parametrize("seed", range(20))
def test_letters_exchanged(seed: int) -> None:
    others = random.Random(seed).sample(ascii_lowercase, 26)
    text = COMMITTEE
    exchanged = text.translate(str.maketrans(ascii_lowercase, "".join(others)))
    assert not is_unreadable(text, text.split())
    assert is_unreadable(exchanged, exchanged.split())


def test_letters_exchanged_by_a_map() -> None:
    rotated = str.maketrans(ascii_lowercase, ascii_lowercase[3:] + ascii_lowercase[:3])
    assert is_unreadable(f"{COMMITTEE} {COMMITTEE}".translate(rotated), ())


# --- words that lack letters ----------------------------------------------------------------------


def subset_font(text: str, *, mapped: bool) -> bytes:
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))
    stream = io.BytesIO()
    canvas = Canvas(stream, invariant=1, pageCompression=0)
    put(canvas, [text], font="Vera")
    canvas.save()
    data = stream.getvalue()
    assert data.count(b"/ToUnicode") == 1
    return data if mapped else data.replace(b"/ToUnicode", b"/ToUnicodX")


def test_letters_that_a_subset_does_not_name() -> None:
    text = "Second line über Straße"
    assert warnings_of(subset_font(text, mapped=False)) == (LACKING,)
    assert warnings_of(subset_font(text, mapped=True)) == ()


def test_symbols_of_another_font_are_not_letters() -> None:
    content = b"/F1 12 Tf (the sine ) Tj /F0 12 Tf <10> Tj /F1 12 Tf (sin x) Tj /F0 12 Tf <11> Tj"
    assert warnings_of(written(content, drawn_font(range(16, 18)), HELVETICA)) == ()


# --- no false alarms ------------------------------------------------------------------------------


def test_codes_that_are_ascii() -> None:
    """Old TeX fonts: drawn, without names, and numbered like ASCII."""
    font = drawn_font(range(33, 123))
    text = " ".join(wrapped(Canvas(io.BytesIO()), prose(3, 40), FULL))
    words = b" ".join(b"(%s) Tj 0 -14 Td" % word.encode() for word in text.split())
    assert warnings_of(written(b"/F0 12 Tf " + words, font)) == ()


def test_brackets_of_matrices() -> None:
    """Large brackets in TeX are letters and digits in place of pieces: 0BB@ and 1CCA."""
    font = drawn_font(range(33, 123))
    words = b" ".join(b"(%s) Tj 0 -14 Td" % word for word in [b"0BBB@", b"1CCCA", b"X", b"Z"] * 5)
    assert warnings_of(written(b"/F0 12 Tf " + words, font)) == ()


PLAIN = {
    "English": "It was the best of times, it was the worst of times, it was the age of wisdom.",
    "German": "Über die Straße fährt täglich ein größeres Fahrzeug, gewöhnlich frühmorgens.",
    "Polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Czech": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.",
    "Welsh": "Genir pawb yn rhydd ac yn gydradd â'i gilydd mewn urddas a hawliau.",
    "Hungarian": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van.",
    "Finnish": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "Vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "Swahili": "Watu wote wamezaliwa huru, hadhi na haki zao ni sawa.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。",
    "Arabic": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "formulas": "∀x∈ℝ: ∑ᵢ αᵢ·xᵢ² ≤ ∫₀^∞ f(t) dt ⟹ ‖x‖₂ \uf8ee\uf8ef\uf8f0 \uf8f9\uf8fa\uf8fb",
    "code": "for (size_t i = 0; i < n; i++) { sum += xs[i] * vfmadd_pvsl(ys[i], kcfg->wght); }",
    "table": "Q1 12.5 13.7 | Q2 9.81 4.44 | EUR/t 118 ✓ ✗ ✓ | MSFT AAPL GOOG NVDA TSLA",
    "data": "kQAYkVToBCKMXTQDLarz8J030Pmcv3ihbwBjhnykMuyyNmht4kq0CNgnlcMCdVz0d3 ATGCATTG",
    "signs": "☐ yes ☐ no ❑ other ★★★★☆ ❶❷❸ \uf0b7 first \uf0b7 second \ue001 \ue002 ❤ ✔ ➤ ①",
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_other_texts_are_fine(name: str) -> None:
    assert not is_unreadable("\n".join([PLAIN[name]] * 30), ())


def test_the_examples_are_fine() -> None:
    examples = Path(__file__).parents[3] / "examples" / "library"
    for path in examples.rglob("*.pdf"):
        assert warnings_of(path.read_bytes()) == ()
    for path in (*examples.rglob("*.md"), *examples.rglob("*.py"), *examples.rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        assert not is_unreadable(text, ())
        if re.fullmatch(r"[\x00-\x7f–—“”’°µ·×…²³→≈−]*", text):
            assert not is_unreadable(text, [word for word in text.split() if word.isascii()])
