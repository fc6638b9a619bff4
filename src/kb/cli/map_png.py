"""Draws the map of a library as PNG, with Pillow (extra `png`)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kb.cli.map_layout import HEIGHT, INK, PAPER, TEXT_SIZE, TOPIC_SIZE, WIDTH, Label, Layout
from kb.errors import MissingExtra

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

_SCALE = 2  # pixels for each unit of the layout
_LATIN_END = "\u024f"  # Pillow's own font has these letters
_PUNCTUATION = "…›–"
# Fonts with many scripts, by the names under which Linux, macOS and Windows have them.
_FONTS = (
    "NotoSansCJK-Regular.ttc", "wqy-microhei.ttc", "wqy-zenhei.ttc", "DroidSansFallbackFull.ttf",
    "Arial Unicode.ttf", "msyh.ttc", "DejaVuSans.ttf", "arial.ttf",
)  # fmt: skip


def map_png(layout: Layout) -> tuple[bytes, bool]:
    """Return the map as a PNG file, and whether a font for all its letters was found."""
    try:
        from PIL import Image, ImageDraw
        from PIL.PngImagePlugin import PngInfo
    except ImportError as error:
        raise MissingExtra(
            "a map as PNG needs Pillow",
            "run: pip install 'kb-search[png]', or write an SVG file: kb map -o map.svg",
        ) from error
    image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), PAPER)
    draw = ImageDraw.Draw(image)
    for dot in layout.dots:
        center, radius = (dot.x * _SCALE, dot.y * _SCALE), dot.radius * _SCALE
        draw.circle(center, radius, fill=dot.color, outline=PAPER, width=_SCALE)
    is_complete = True
    for label in layout.labels:
        font, has_letters = _font(label)
        is_complete = is_complete and has_letters
        place = (label.x * _SCALE, label.y * _SCALE)
        if label.is_topic:
            draw.text(
                place, label.text, INK, font, "ms", stroke_width=2 * _SCALE, stroke_fill=PAPER
            )
        else:
            draw.text(place, label.text, INK, font, "ls")
    info = PngInfo()
    info.add_text("Software", "kb map")  # so that a later run may overwrite the file
    info.add_text("Title", "Map of the library")
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, pnginfo=info)
    return file.getvalue(), is_complete


def _font(label: Label) -> tuple[FreeTypeFont | ImageFont, bool]:
    """Return a font for a label, and whether it has a glyph for every letter, as far as is
    known."""
    from PIL import ImageFont

    size = (TOPIC_SIZE if label.is_topic else TEXT_SIZE) * _SCALE
    if all(letter <= _LATIN_END or letter in _PUNCTUATION for letter in label.text):
        return ImageFont.load_default(size), True
    for name in _FONTS:
        try:
            font = ImageFont.truetype(name, size)
        except OSError:
            continue
        if _has_letters(font, label.text):
            return font, True
    return ImageFont.load_default(size), False


def _has_letters(font: FreeTypeFont, text: str) -> bool:
    """Whether no letter is drawn as the box that stands for missing ones."""
    missing = bytes(font.getmask("\uffff"))
    return all(bytes(font.getmask(letter)) != missing for letter in set(text) if letter.strip())
