"""Pictures and scanned pages, by OCR."""

from __future__ import annotations

import io
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image

from kb import KnowledgeBase
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parser_support import ocr
from kb.ingest.parsers.image import ImageParser
from kb.ingest.parsers.pdf import PdfParser
from kb.ports import Source
from tests.ingest.parsers import pdfs

needs_ocr = pytest.mark.skipif(not ocr.is_available(), reason="without the extra ocr")


def picture(*lines: str) -> Image.Image:
    with pypdfium2.PdfDocument(pdfs.made(pdfs.text_page(*lines))) as document:
        image: Image.Image = document[0].render(scale=2).to_pil()
        return image.convert("RGB")


def saved(image: Image.Image, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


@needs_ocr
def test_a_picture_with_text() -> None:
    data = saved(picture("The kedge holds in mud", "", "", "and the tide turns"))
    parsed = ImageParser().parse(Source("page.png", data))
    assert parsed.text == "The kedge holds in mud\n\nand the tide turns"
    assert (parsed.type, parsed.title) == ("image", "page")


@needs_ocr
@pytest.mark.slow
def test_scanned_pages_of_a_pdf(tmp_path: Path) -> None:
    """A PDF of pictures is found through a parser process, and cited by page."""
    pages = [picture("The kedge holds in mud"), picture("Neap tides follow the moon")]
    lib = tmp_path / "lib"
    lib.mkdir()
    pages[0].save(lib / "scan.pdf", "PDF", save_all=True, append_images=pages[1:])
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        report = kb.ingest(lib)
        assert [note.reason for note in report.warnings] == ["page 1, 2: read by OCR"]
        (hit, *_) = kb.search("neap moon").hits
    assert hit.citation.uri == "lib/scan.pdf#page=2"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "is_available", lambda: False)
    with pytest.raises(Unavailable, match=r"kb-search\[ocr\]"):
        ImageParser().parse(Source("a.png", b"\x89PNG"))
    with pytest.raises(Unavailable, match=r"only images.*kb-search\[ocr\]"):
        PdfParser().parse(Source("a.pdf", saved(Image.new("RGB", (300, 300)), "PDF")))


@needs_ocr
def test_pictures_without_text() -> None:
    with pytest.raises(Unsupported, match="without text"):
        ImageParser().parse(Source("a.png", saved(Image.new("RGB", (20, 20)))))
    with pytest.raises(Unreadable, match="not a valid picture"):
        ImageParser().parse(Source("a.png", b"\x89PNG\r\n\x1a\n"))


BLANK = saved(Image.new("L", (120, 20)))  # also an input of the fuzz test
