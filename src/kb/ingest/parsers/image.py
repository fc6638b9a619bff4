"""Pictures with text, such as photographs of pages and screenshots, by OCR (extra `ocr`)."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.parser_support import ocr
from kb.ingest.parser_support.extract import Extract
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
_MIN_SIDE = 100  # pixels; icons are smaller
_GAP = 0.8  # in line heights; a larger gap begins a paragraph


class ImageParser(FormatParser):
    name = "image"
    version = "1" + ocr.version_suffix()

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES

    def parse(self, source: Source) -> Parsed:
        if not ocr.is_available():
            raise Unavailable(f"a picture: to read its text, install {ocr.EXTRA}")
        image = ocr.decode_image(source.data)
        if min(image.shape[:2]) < _MIN_SIDE:
            raise Unsupported("a small picture without text")
        out = Extract()
        paragraph: list[str] = []
        bottom: float | None = None
        for line in ocr.read_lines(image):
            if bottom is not None and line.top - bottom > _GAP * (line.bottom - line.top):
                out.lines(paragraph)
                paragraph = []
            paragraph.append(line.text)
            bottom = line.bottom
        out.lines(paragraph)
        if not out.blocks:
            raise Unsupported("a picture without text")
        return Parsed(
            type="image",
            blocks=out.blocks,
            title=file_names.title_of(source.name),
            text=out.text,
        )
